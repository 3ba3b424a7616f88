"""Closing: how a connection ends. Clean, truncated so that nobody takes the body for complete, or at once.

A chunked body without its final chunk is truncated by a FIN: a RST would also throw away events already written (33 of
200 arrived in a measurement). A body delimited by the close (HTTP/1.0) is complete after a FIN, so there only a RST
says "broken"; the send queue is drained before it. After our FIN the client's bytes are read and thrown away for a
while, because close() with unread input is a RST (RFC 9112 section 9.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from hoptrio.downstream.wire import Wire

__all__ = ["finish", "truncate"]

#: How often the send queue's length is asked for.
_POLL_S = 0.01


async def finish(wire: Wire) -> None:
    """FIN, read on for at most `limits.LINGER_S`, close. When it is cancelled the closing is left to the connection,
    which knows whether the body looks complete (`connection.serve_connection`)."""
    with trio.move_on_after(limits.LINGER_S):
        await _linger(wire)
    await wire.close()


async def _linger(wire: Wire) -> None:
    try:
        if wire.sock is None and not isinstance(wire.stream, trio.abc.HalfCloseableStream):
            # TLS has no half-close: its close_notify and the end of the stream come together.
            await wire.stream.aclose()
            return
        await wire.send_eof()
        while await wire.receive():
            wire.inbox.clear()
    except GONE:
        return


async def truncate(wire: Wire, *, close_delimited: bool) -> None:
    """End the connection so that the body is visibly incomplete; `close_delimited` = its framing is the close itself.

    Takes at most `limits.LINGER_S`, or `limits.LINGER_HTTP10_S` when close-delimited.
    """
    if not close_delimited:
        await finish(wire)
        return
    with trio.move_on_after(limits.LINGER_HTTP10_S):
        while wire.unsent_bytes():  # noqa: ASYNC110 - the kernel has no event for it
            await trio.sleep(_POLL_S)
    if not wire.reset():
        await wire.close()
