"""The clocks of a stream, which read plain attributes: keep-alive, header limit, stall, write stall.

A cancel scope around every read would cost 11 us an event. So nobody tells the clock anything: the pump moves
`progress_at`, the writer its own times, and the clock looks again when the earliest of them could be due. One task
looks for all streams of a process, by the order in which they are due: a task for each would cost a stream 50 us, and
its memory. It is a system task, made when it is first asked for, since it belongs to the event loop and to no stream.

The deadline is not here: it is the cancel scope around the upstream side.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.contract import Keepalive
    from hoptrio.stream.ports import Writer

__all__ = ["Clock"]

log = structlog.get_logger("hoptrio.stream")

#: The clock looks at least this often, so that a wait which began after its last look is seen in time.
LOOK_S = 10.0


class Clock:
    """Answers "is something due?" for one stream.

    `keepalive` is called when keep-alive bytes are due, `stalled` once when the provider made no progress for
    `stall_s`; a client that takes nothing for `limits.WRITE_STALL_S` is left by the clock itself.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        mode: Keepalive,
        keepalive_s: float,
        stall_s: float | None,
        keepalive: Callable[[], None],
        stalled: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._turn: _Turn | None = None
        self._mode = mode
        self._keepalive_s = keepalive_s
        self._stall_s = stall_s
        self._keepalive = keepalive
        self._stalled = stalled
        self._ticked_at = trio.current_time()
        #: trio time of the last model progress; set by the pump, None while the stall clock does not run.
        self.progress_at: float | None = None
        #: Set once the provider's side is over: only the delivery is still watched.
        self.delivering = False

    def start(self) -> None:
        """Look from now on, until `stop`."""
        self._turn = _watchmaker().add(self)

    def stop(self) -> None:
        """Look no more, and keep nothing of the stream: it would be a cycle, which takes the collector to free."""
        if self._turn is not None:
            self._turn.clock = None
        self._keepalive = self._stalled = _nothing

    def look(self, now: float) -> None:
        """Do what is due."""
        if now >= self._write_stall_due():
            self._writer.leave()
        if self.delivering:
            return
        if now >= self._stall_due():
            self.progress_at = None
            self._stalled()
        elif now >= self._keepalive_due():
            self._ticked_at = now
            self._keepalive()

    def next_due(self, now: float) -> float:
        """When to look again."""
        return min(self._write_stall_due(), self._stall_due(), self._keepalive_due(), now + LOOK_S)

    def _keepalive_due(self) -> float:
        if self._mode == "off" or self.delivering or self._writer.gone:
            return inf
        if self._mode == "interval":
            return self._ticked_at + self._keepalive_s
        return max(self._writer.last_write_at, self._ticked_at) + self._keepalive_s

    def _stall_due(self) -> float:
        if self._stall_s is None or self.progress_at is None or self.delivering:
            return inf
        return self.progress_at + self._stall_s

    def _write_stall_due(self) -> float:
        blocked_since = self._writer.blocked_since
        return inf if blocked_since is None or self._writer.gone else blocked_since + limits.WRITE_STALL_S


def _nothing() -> None:
    pass


class _Turn:
    """A clock that looks; `clock` is None once it was stopped, so that no stream is kept until its next look."""

    __slots__ = ("clock",)

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock | None = clock


class _Watchmaker:
    """The one task that looks, and the turns of all clocks, the earliest first."""

    def __init__(self) -> None:
        #: (When it looks, a number that none else has, who looks): tuples, since the many short streams of the last
        #: `LOOK_S` make a heap of thousands, and a comparison in Python for each step in it costs 10 us a stream.
        self._turns: list[tuple[float, int, _Turn]] = []
        self._numbers = count()
        self._sleep = trio.CancelScope()

    def add(self, clock: Clock) -> _Turn:
        now = trio.current_time()
        turn = _Turn(clock)
        at = clock.next_due(now)
        heappush(self._turns, (at, next(self._numbers), turn))
        if at < self._sleep.deadline:
            self._sleep.deadline = at
        return turn

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._turns[0][0] if self._turns else inf) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            while self._turns and self._turns[0][0] <= now:
                self._look(heappop(self._turns)[2], now)

    def _look(self, turn: _Turn, now: float) -> None:
        """A bug in one clock is not another's."""
        if turn.clock is None:
            return
        try:
            turn.clock.look(now)
            if turn.clock is not None:
                heappush(self._turns, (turn.clock.next_due(now), next(self._numbers), turn))
        except Exception as bug:
            log.error("clock failed", error=type(bug).__name__, exc_info=bug)


_CURRENT: trio.lowlevel.RunVar[_Watchmaker] = trio.lowlevel.RunVar("clocks")


def _watchmaker() -> _Watchmaker:
    """That of this trio run."""
    try:
        return _CURRENT.get()
    except LookupError:
        made = _Watchmaker()
        _CURRENT.set(made)
        trio.lowlevel.spawn_system_task(made.run, name="hoptrio clocks")
        return made
