"""Watch: the task that reads a client's side while its response runs, to learn whether it left.

A FIN is a hint (`half_closed`): a client may close its sending side and go on reading. An error is proof (`gone`), and
so is a failed write. Bytes that come early are the next, pipelined request; they are kept for the connection, up to a
bound, after which nothing is read and TCP itself holds the flood back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from hoptrio.downstream.writer import ResponseWriter

__all__ = ["watch"]


async def watch(writer: ResponseWriter) -> None:
    """Read until there is proof, or nothing more to learn."""
    wire = writer.wire
    try:
        while (room := limits.PIPELINED_BYTES_MAX - len(wire.inbox)) > 0:
            if not await wire.watch(room):
                writer.half_closed = True
                return
    except GONE:
        writer.leave()
