"""Pages that keep themselves current: a part of a page, rendered here and sent whenever it changed (SSE).

The script that takes it (``static/live.mjs``) knows nothing of what is in it. Each connection ends after a while and
the browser opens another, so that whoever logged out, or whose session is over, sees no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
from starlette.responses import StreamingResponse

from hoptrio import errors, limits
from hoptrio.control.answers import templates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

__all__ = ["follow"]


async def follow(request: Request, template: str, values: Callable[[], Awaitable[dict[str, Any]]]) -> StreamingResponse:
    """Send `template`, rendered with `values`, whenever it changed; a true ``over`` among the values ends it.

    Raises what the first `values` raises.
    """
    first = await values()
    return StreamingResponse(
        _parts(request, template, first, values),
        media_type="text/event-stream",
        headers={"cache-control": "no-store, no-transform", "x-accel-buffering": "no"},
    )


async def _parts(
    request: Request, template: str, known: dict[str, Any], values: Callable[[], Awaitable[dict[str, Any]]]
) -> AsyncIterator[bytes]:
    part = templates().get_template(template)
    until, sent, said_at = trio.current_time() + limits.LIVE_S, "", trio.current_time()
    while True:
        html = part.render(known | {"session": request.state.session})
        if html != sent:
            sent, said_at = html, trio.current_time()
            yield _event(html)
        elif trio.current_time() - said_at >= limits.LIVE_ALIVE_S:
            said_at = trio.current_time()
            yield b": alive\n\n"
        if known.get("over"):
            yield b"event: over\ndata:\n\n"
            return
        if trio.current_time() >= until:
            return
        await trio.sleep(limits.LIVE_EVERY_S)
        try:
            known = await values()
        except errors.HoptrioError:
            # The browser comes again, and what it is shown meanwhile is said to be old.
            return


def _event(html: str) -> bytes:
    return "".join(f"data: {line}\n" for line in html.splitlines()).encode() + b"\n"
