"""Pages that keep themselves current: a part of a page, rendered here and sent whenever it changed (SSE).

The script that takes it (``static/live.mjs``) knows nothing of what is in it. Each connection ends after a while and
the browser opens another, and at once where the session is over or was logged out of. A part that is the same for
everybody is rendered once for all who look on: streams share the event loop with this, and must not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from starlette.responses import StreamingResponse

from hoptrio import errors, limits
from hoptrio.control.answers import templates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from hoptrio.control.access import Access

__all__ = ["follow"]


class _Rendered(NamedTuple):
    """A part as of `at_s` (trio's clock); it is `over` once it will not change again."""

    at_s: float
    html: str
    over: bool


async def follow(
    request: Request, template: str, values: Callable[[], Awaitable[dict[str, Any]]], *, shared: bool = False
) -> StreamingResponse:
    """Send `template`, rendered with `values`, whenever it changed; a true ``over`` among the values ends it.

    `shared`: it is the same for everybody who asks for this path. Raises what the first `values` raises.
    """
    render = _shared if shared else _own
    first = await render(request, template, values)
    return StreamingResponse(
        _parts(first, lambda: render(request, template, values), lambda: _allowed(request)),
        media_type="text/event-stream",
        headers={"cache-control": "no-store, no-transform", "x-accel-buffering": "no"},
    )


def _allowed(request: Request) -> bool:
    """Whoever looks on has not logged out meanwhile; a program has its token."""
    access: Access = request.app.state.access
    return request.state.session is None or access.session(request) is not None


async def _parts(
    part: _Rendered, again: Callable[[], Awaitable[_Rendered]], allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    until, sent, said_at = trio.current_time() + limits.LIVE_S, "", trio.current_time()
    while True:
        now = trio.current_time()
        if part.html != sent:
            sent, said_at = part.html, now
            yield _event(sent)
        elif now - said_at >= limits.LIVE_ALIVE_S:
            said_at = now
            yield b": alive\n\n"
        if part.over:
            yield b"event: over\ndata:\n\n"
            return
        if now >= until:
            return
        await trio.sleep(limits.LIVE_EVERY_S)
        if not allowed():
            return
        try:
            part = await again()
        except errors.HoptrioError:
            # The browser comes again, and what it is shown meanwhile is said to be old.
            return


async def _own(request: Request, template: str, values: Callable[[], Awaitable[dict[str, Any]]]) -> _Rendered:
    known = await values()
    html = templates().get_template(template).render(known | {"session": request.state.session})
    return _Rendered(trio.current_time(), html, bool(known.get("over")))


class _Parts:
    """What was rendered of late, by path. Those who wait for one that is being rendered get that."""

    def __init__(self) -> None:
        self.lock = trio.Lock()
        self.kept: dict[str, _Rendered] = {}


async def _shared(request: Request, template: str, values: Callable[[], Awaitable[dict[str, Any]]]) -> _Rendered:
    """What another one rendered within the last turn, or anew."""
    state, path = request.app.state, request.url.path
    if not hasattr(state, "live_parts"):
        state.live_parts = _Parts()
    parts: _Parts = state.live_parts
    async with parts.lock:
        fresh_s = trio.current_time() - limits.LIVE_EVERY_S / 2
        parts.kept = {each: part for each, part in parts.kept.items() if part.at_s >= fresh_s}
        if path not in parts.kept:
            parts.kept[path] = await _own(request, template, values)
        return parts.kept[path]


def _event(html: str) -> bytes:
    return "".join(f"data: {line}\n" for line in html.splitlines()).encode() + b"\n"
