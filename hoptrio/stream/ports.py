"""What a stream needs from its surroundings, as interfaces; tests give lists of bytes for all of them.

`Writer` is the client's side, `Source` the provider's, `Desk` the money's, and `Face` how errors and heads look in the
client's protocol. A stream knows nothing else of the world.
"""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, NamedTuple
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.errors import HoptrioError
    from hoptrio.spool.chunk import End
    from hoptrio.stream.blame import Blame
    from hoptrio.stream.outcome import Outcome
    from hoptrio.stream.reading import Reading
    from hoptrio.upstream.answer import Answer, Unreached

__all__ = ["Desk", "Elsewhere", "Face", "Record", "Rendered", "Source", "Writer"]


class Writer(Interface):
    """One response to one client. `write` never waits; what the socket does not take is kept in a bounded backlog that
    the writer's own task empties. Every `write` is whole events, so bytes of two writes are never interleaved."""

    #: The head has been handed over; the status can no longer change.
    head_written: bool
    #: The client's FIN was read: a hint, since it may still be reading.
    half_closed: bool
    #: trio time of the last bytes handed over by `head` or `write`.
    last_write_at: float

    @property
    def gone(self) -> bool:
        """Proof that the client left: a reset, a failed write, a lag beyond the bounds, or `leave`. Writes then do
        nothing."""

    @property
    def blocked_since(self) -> float | None:
        """trio time since when the backlog has been waiting with nothing taken by the client; None = nothing waits."""

    def start(self) -> None:
        """Watch the client from now on, to learn whether it left."""

    def stop(self) -> None:
        """The response is over, or whoever wrote it is: watch no more."""

    def head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Write the head of a streamed response (chunked on HTTP/1.1, close-delimited on 1.0)."""

    def write(self, data: bytes) -> None:
        """Write whole events."""

    def leave(self) -> None:
        """From now on the client has left: drop the backlog, close its connection."""

    async def flush(self) -> None:
        """Wait until nothing waits, or the client is gone: for whoever has more to write than a backlog may hold."""

    async def end(self, until: float = inf) -> None:
        """Deliver the backlog, then end the body cleanly. Returns early if the client is `gone`, which it is when it
        has not taken everything at the trio time `until`, as with `abort` and `respond`."""

    async def abort(self, until: float = inf) -> None:
        """Deliver the backlog, then end so that no client can take the body for complete (`downstream.closing`)."""

    async def respond(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, until: float = inf
    ) -> None:
        """A whole response with Content-Length, instead of `head` and the rest."""


class Source(Interface):
    """The channels that may be asked, one at a time; the first is chosen before the stream runs."""

    @property
    def channel(self) -> str:
        """The name of the channel that is asked, or was last."""

    @property
    def reading(self) -> Reading:
        """How that channel's answers are read for the client."""

    async def open(self, on_dispatched: Callable[[], None]) -> Answer | Unreached:
        """Send the request and wait for the response head; `on_dispatched` is called just before the first byte."""

    def answered(self) -> None:
        """The model's answer has begun."""

    def over(self, blame: Blame) -> None:
        """The attempt is over, in whatever way; its channel is judged by `blame`."""

    def again(self) -> bool:
        """Choose a channel for a further attempt; False = none can be asked now."""


class Record(Interface):
    """What the client is told, kept for it to come back to, whether or not it is there to be told."""

    @property
    def begun(self) -> bool:
        """Something was told."""

    def take(self, data: bytes) -> None:
        """Whole events, as they are told."""

    def finish(self, end: End) -> None:
        """How it ends."""


class Elsewhere(Enum):
    """Nothing was held, since another request stands for this one: whoever called the stream answers."""

    JOINED = auto()


class Desk(Interface):
    """The money of one request."""

    async def place(self) -> HoptrioError | Elsewhere | None:
        """Freeze the hold, durably; the refusal if that cannot be."""

    async def settle(self, outcome: Outcome) -> bool:
        """Resolve the hold by what happened. True once that is durable; False if it is not by `limits.SETTLE_S`, and
        then it goes on being tried. Always called inside a shield."""


class Rendered(NamedTuple):
    """A whole response."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class Face(Interface):
    """How this request's answers look."""

    def stream_headers(self, answer: Answer | None) -> Sequence[tuple[bytes, bytes]]:
        """The head of a stream; None while the provider's is not there yet."""

    def body_headers(self, answer: Answer) -> Sequence[tuple[bytes, bytes]]:
        """The head of a whole JSON answer."""

    def refusal(self, error: HoptrioError) -> Rendered:
        """An error as a whole response in the client's protocol."""
