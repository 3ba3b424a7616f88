"""What a stream needs from its surroundings, as interfaces: the client's side (`Writer`) and the ledger's (`Settle`).

The provider's side is `upstream.answer.Answer`. Tests give byte lists for all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Sequence

    import trio

__all__ = ["Writer"]


class Writer(Interface):
    """One response to one client. `write` never waits; what the socket does not take is kept in a bounded backlog that
    the writer's own task empties. Every `write` is whole events, so bytes of two writes are never interleaved."""

    #: The head has been handed over; the status can no longer change.
    head_written: bool
    #: The client's FIN was read: a hint, since it may still be reading.
    half_closed: bool
    #: Proof that the client left: a reset, a failed write, a lag beyond the bounds, or `leave`. Writes then do nothing.
    gone: bool
    #: trio time of the last bytes handed over by `head` or `write`.
    last_write_at: float
    #: trio time since when the backlog has been waiting with nothing taken by the client; None = nothing waits.
    blocked_since: float | None

    def start(self, nursery: trio.Nursery) -> None:
        """Tasks that the response needs (watching the client, emptying the backlog) run in `nursery` from now on; the
        caller cancels it when the response is over."""

    def head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the head of a streamed response (chunked on HTTP/1.1, close-delimited on 1.0)."""

    def write(self, data: bytes) -> None:
        """Write whole events."""

    def leave(self) -> None:
        """From now on the client has left: drop the backlog, close its connection."""

    async def end(self) -> None:
        """Deliver the backlog, then end the body cleanly. Returns early if the client is `gone`."""

    async def abort(self) -> None:
        """Deliver the backlog, then end so that no client can take the body for complete (`downstream.closing`)."""

    async def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole response with Content-Length, instead of `head` and the rest."""
