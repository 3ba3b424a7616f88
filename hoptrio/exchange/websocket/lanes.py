"""Lanes: which turn of a connection may begin. One at a time in a lane, in order; so many at a time in all. Pure.

A turn that the client left frees its lane at once, while it counts as one that runs until its end.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Generic, TypeVar
from typing import Protocol as Interface

from hoptrio import limits
from hoptrio.errors import BadRequest, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Lanes", "Turn"]


class Turn(Interface):
    """What is queued."""

    @property
    def lane(self) -> str:
        """ "" is the one without a name."""

    @property
    def size(self) -> int:
        """About how many bytes it holds while it waits."""


TurnT = TypeVar("TurnT", bound=Turn)


class Lanes(Generic[TurnT]):
    """The turns of one connection."""

    def __init__(self) -> None:
        self._waiting: deque[TurnT] = deque()
        self._waiting_bytes = 0
        #: How many turns of a named lane wait or run; one that has none is no lane any more.
        self._named: Counter[str] = Counter()
        self._busy: set[str] = set()
        #: Turns that run, those that their client left included.
        self.running = 0

    def put(self, turn: TurnT) -> None:
        """Queue a turn. Raises BadRequest for a name beyond the bound, LimitExceeded where too much waits."""
        if turn.lane and turn.lane not in self._named and len(self._named) >= limits.WEBSOCKET_LANES_MAX:
            raise BadRequest(
                f"This connection has turns in {limits.WEBSOCKET_LANES_MAX} named lanes: use one, or wait.",
                param="stream_id",
                code="websocket_stream_limit_reached",
            )
        full = len(self._waiting) >= limits.WEBSOCKET_QUEUE_MAX
        if full or (self._waiting and self._waiting_bytes + turn.size > limits.WEBSOCKET_QUEUE_BYTES_MAX):
            raise LimitExceeded("Too many turns of this connection wait already.", retry_after_s=1)
        self._waiting.append(turn)
        self._waiting_bytes += turn.size
        if turn.lane:
            self._named[turn.lane] += 1

    def ready(self) -> Iterator[TurnT]:
        """Take out the turns that may begin now, oldest first; each is then one that runs, until `over`."""
        for turn in list(self._waiting):
            if self.running >= limits.WEBSOCKET_TURNS_MAX:
                return
            if turn.lane not in self._busy:
                self._remove(turn)
                self._busy.add(turn.lane)
                self.running += 1
                yield turn

    def left(self, turn: TurnT) -> None:
        """The client left a turn that runs: its lane is free."""
        self._busy.discard(turn.lane)

    def over(self, turn: TurnT, *, left: bool) -> None:
        """A turn has ended; `left`: its lane was free already."""
        self.running -= 1
        if not left:
            self._busy.discard(turn.lane)
        self._forget(turn)

    def drop(self) -> list[TurnT]:
        """Take out all that waits."""
        dropped = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        for turn in dropped:
            self._forget(turn)
        return dropped

    def _remove(self, turn: TurnT) -> None:
        self._waiting.remove(turn)
        self._waiting_bytes -= turn.size

    def _forget(self, turn: TurnT) -> None:
        if turn.lane:
            self._named[turn.lane] -= 1
            if not self._named[turn.lane]:
                del self._named[turn.lane]
