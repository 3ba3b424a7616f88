"""The streams that run now, on all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.routing import Route

from hoptrio.control.answers import page
from hoptrio.control.dashboard.live import follow

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hoptrio.control.office import Office
    from hoptrio.telemetry.snapshot import LiveStream

__all__ = ["ROUTES", "standing"]

ROWS_MAX = 200


class Row(NamedTuple):
    """A stream, how it stands, and its age in seconds."""

    stream: LiveStream
    standing: str
    tone: str
    age_s: float


async def show(request: Request) -> Response:
    """The page."""
    return page(request, "streams.html", **await _values(request))


async def live(request: Request) -> Response:
    """The same as it changes."""

    async def values() -> dict[str, Any]:
        return await _values(request)

    return await follow(request, "streams_now.html", values, shared=True)


async def _values(request: Request) -> dict[str, Any]:
    office: Office = request.app.state.office
    newest, told = await office.figures.live(), office.figures.total()
    now_ms = office.ledger.now_ms()
    return {
        "rows": [
            Row(stream, *standing(stream), max(0, now_ms - stream.created_at_ms) / 1000) for stream in newest[:ROWS_MAX]
        ],
        "open": told.open,
        "draining": told.streams_draining,
    }


def standing(stream: LiveStream) -> tuple[str, str]:
    """How far a stream is, and the tone of that."""
    if stream.left:
        return "draining", "warn"
    happened = {event.partition(" ")[0] for _, event in stream.timeline}
    if "first_event" in happened:
        return "answering", "good"
    return ("waiting", "") if "dispatched" in happened else ("admitted", "")


ROUTES = (
    Route("/streams", show, methods=["GET"]),
    Route("/streams/live", live, methods=["GET"]),
)
