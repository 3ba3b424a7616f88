"""Output that ended in a release, counted per key and model: nobody may have generations for nothing again and again.

A deadline, a stall, a provider's error and an answer that cannot be converted (an image for a client whose protocol has
none) can be provoked by what is asked (contract, "What ends a stream"). They also
happen to a channel in trouble, which is nobody's fault: so such an end counts only while other keys fare better on that
channel, that is, while the share of their streams that ended so is at most half of this key's. Without any other key
there is nothing to compare with. Counted by each process for itself, over `limits.RELEASED_WINDOW_S`.
"""

from __future__ import annotations

from collections import Counter, deque

import trio

from hoptrio.contract import Reason
from hoptrio.errors import LimitExceeded
from hoptrio.limits import RELEASED_WINDOW_S, RETRY_AFTER_MAX_S

__all__ = ["ReleasedOutput"]

_PROVOKED = frozenset((Reason.DEADLINE, Reason.STALLED, Reason.PROVIDER_ERROR, Reason.UNCONVERTIBLE))


class ReleasedOutput:
    """What each key had for nothing. `limit` is that of a key and model in the window; 0 = none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: When, by key and model.
        self._times: dict[tuple[str, str], deque[float]] = {}
        self._turned_at = trio.current_time()
        #: Streams with output by (channel, key), "" for all keys: all of them, and those released. Two generations of
        #: a window each, so that what is compared is between one and two windows old.
        self._ended, self._released = _Window(), _Window()

    def check(self, key_id: str, model: str) -> None:
        """Raise LimitExceeded for a key that had as much for nothing as it may."""
        times = self._recent((key_id, model))
        if self.limit and len(times) >= self.limit:
            wait_s = times[len(times) - self.limit] + RELEASED_WINDOW_S - trio.current_time()
            raise LimitExceeded(
                f"Too many answers of the model {model!r} to this key ended unpaid, by a deadline, a stall, an error"
                " or a form that others do not meet.",
                retry_after_s=min(int(-(-wait_s // 1)), RETRY_AFTER_MAX_S),
            )

    def ended(self, key_id: str, model: str, channel: str, reason: Reason | None, *, captured: bool) -> None:
        """A stream that had output is over, and paid for or not."""
        released = not captured and reason in _PROVOKED
        if not self.limit or not (captured or released):
            return
        now = trio.current_time()
        self._turn(now)
        for who in (key_id, ""):
            self._ended.add((channel, who))
            if released:
                self._released.add((channel, who))
        if released and self._others_fare_better(channel, key_id):
            self._times.setdefault((key_id, model), deque()).append(now)

    def _others_fare_better(self, channel: str, key_id: str) -> bool:
        mine, mine_ended = self._released[channel, key_id], self._ended[channel, key_id]
        theirs, theirs_ended = self._released[channel, ""] - mine, self._ended[channel, ""] - mine_ended
        return theirs_ended > 0 and 2 * theirs * mine_ended <= mine * theirs_ended

    def _recent(self, who: tuple[str, str]) -> deque[float]:
        times = self._times.get(who, deque())
        since = trio.current_time() - RELEASED_WINDOW_S
        while times and times[0] <= since:
            times.popleft()
        return times

    def _turn(self, now: float) -> None:
        """Begin a new generation, and forget keys of which nothing is left to count."""
        if now < self._turned_at + RELEASED_WINDOW_S:
            return
        stale = now >= self._turned_at + 2 * RELEASED_WINDOW_S
        self._turned_at = now
        self._ended.turn(stale=stale)
        self._released.turn(stale=stale)
        self._times = {who: times for who in list(self._times) if (times := self._recent(who))}


class _Window:
    """Counts of this generation and the one before."""

    def __init__(self) -> None:
        self._this: Counter[tuple[str, str]] = Counter()
        self._before: Counter[tuple[str, str]] = Counter()

    def __getitem__(self, name: tuple[str, str]) -> int:
        return self._this[name] + self._before[name]

    def add(self, name: tuple[str, str]) -> None:
        self._this[name] += 1

    def turn(self, *, stale: bool) -> None:
        """`stale`: what was counted until now is older than a window."""
        self._before = Counter() if stale else self._this
        self._this = Counter()
