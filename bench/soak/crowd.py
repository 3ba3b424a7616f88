"""Crowd: visits that come at random moments, at a bounded rate and so many at a time, and what became of them."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import trio

from bench.soak.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.job import Seen
    from bench.soak.visit import Visit
    from bench.soak.visitor import Door

__all__ = ["Crowd", "Ended", "Heard"]


class Ended(NamedTuple):
    """A visit that is over; times in seconds since the crowd began."""

    visit: Visit
    seen: Seen
    began_s: float
    ended_s: float


class Heard(NamedTuple):
    """What clients saw since they were last asked: events, and the ns to each first one."""

    events: int
    firsts_ns: tuple[int, ...]
    over: int
    errors: int


class Crowd:
    """Sends visits until it is told to stop."""

    def __init__(self, door: Door, visits: Iterator[Visit], *, rate: float, at_once: int, seed: int) -> None:
        self.door = door
        self.ended: list[Ended] = []
        self.open: Counter[str] = Counter()
        self._visits = visits
        self._rate = rate
        self._at_once = at_once
        self._draw = random.Random(seed)
        self._visitor = Visitor(door, self._hear)
        self._stopped = trio.Event()
        self._events = 0
        self._firsts: list[int] = []
        self._told = 0
        self._began_s = 0.0

    async def run(self, began_s: float) -> None:
        """Until `stop`, and until everybody has left; times are told from `began_s`."""
        self._began_s = began_s
        async with trio.open_nursery() as nursery:
            while not self._stopped.is_set():
                # So many a second on average, and no beat that the gateway could fall in with.
                with trio.move_on_after(self._draw.expovariate(self._rate)):
                    await self._stopped.wait()
                if not self._stopped.is_set() and self.open.total() < self._at_once:
                    nursery.start_soon(self._visit, next(self._visits))
        await self._visitor.close()

    def stop(self) -> None:
        """No new visits."""
        self._stopped.set()

    def heard(self) -> Heard:
        """Since the last call."""
        new = self.ended[self._told :]
        self._told = len(self.ended)
        found = Heard(self._events, tuple(self._firsts), len(new), sum(bool(each.seen.error) for each in new))
        self._events, self._firsts = 0, []
        return found

    async def _visit(self, visit: Visit) -> None:
        began_s = self._now_s
        self.open[visit.kind] += 1
        seen = await self._visitor.visit(visit)
        self.open[visit.kind] -= 1
        self.ended.append(Ended(visit, seen, began_s, self._now_s))

    @property
    def _now_s(self) -> float:
        return trio.current_time() - self._began_s

    def _hear(self, first_ns: int | None) -> None:
        self._events += 1
        if first_ns is not None:
            self._firsts.append(first_ns)
