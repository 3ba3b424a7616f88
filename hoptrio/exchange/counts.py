"""Counts of tokens that run in this process, and how many each key may have.

They hold nothing, so the ledger knows nothing of them: a key has its requests a minute and its streams at once once
more for counting, in each process, so that an agent that counts before every turn does not halve what it may ask.
Also remembered: which channels have no such call.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from hoptrio.errors import LimitExceeded
from hoptrio.exchange.rates import refusal
from hoptrio.limits import COUNT_ABSENT_S, COUNTERS_MAX, RATE_WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Protocol

__all__ = ["Counts"]

_WINDOW_S = RATE_WINDOW_MS / 1000
#: Keys beyond this many are looked through for those that have not counted lately.
_KEYS_MAX = 1_000


class Counts:
    """What runs, and what ran in the last minute."""

    def __init__(self) -> None:
        #: Text is counted in this many threads, and never in those that settlements wait for.
        self.threads = trio.CapacityLimiter(COUNTERS_MAX)
        self.running = 0
        self._running: Counter[str] = Counter()
        #: When keys with a rate began to count, the oldest first.
        self._begun: dict[str, deque[float]] = {}
        #: Until when a channel is not asked again, by channel, model and protocol.
        self._absent: dict[tuple[str, str, Protocol], float] = {}

    @contextmanager
    def one(self, key: ApiKey, protocol: Protocol) -> Iterator[None]:
        """One count of `key`'s. Raises LimitExceeded if it has as many as it may."""
        if key.max_streams is not None and self._running[key.id] >= key.max_streams:
            raise LimitExceeded("This key runs as many streams at once as it may.", retry_after_s=1)
        self._note(key, protocol)
        self.running += 1
        self._running[key.id] += 1
        try:
            yield
        finally:
            self.running -= 1
            self._running[key.id] -= 1
            if not self._running[key.id]:
                del self._running[key.id]

    def is_absent(self, channel: str, model: str, protocol: Protocol) -> bool:
        """The channel said lately that it has no such call."""
        return self._absent.get((channel, model, protocol), 0.0) > trio.current_time()

    def absent(self, channel: str, model: str, protocol: Protocol) -> None:
        """The channel has no such call."""
        self._absent[channel, model, protocol] = trio.current_time() + COUNT_ABSENT_S

    def _note(self, key: ApiKey, protocol: Protocol) -> None:
        if key.rpm is None:
            return
        now = trio.current_time()
        begun = self._begun.setdefault(key.id, deque())
        while begun and begun[0] <= now - _WINDOW_S:
            begun.popleft()
        if len(begun) >= key.rpm:
            raise refusal(key, protocol, begun[0] + _WINDOW_S - now)
        begun.append(now)
        if len(self._begun) > _KEYS_MAX:
            self._begun = {each: times for each, times in self._begun.items() if times[-1] > now - _WINDOW_S}
