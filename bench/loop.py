"""Loop: epoll and a heap of timers, no more; what the harness's client and provider share.

An event costs either of them about ten microseconds here, a third of what a trio task takes for it, and what they cost
is what limits how many events can be offered to a gateway. epoll's timeouts are whole milliseconds, which would bunch
paced events together; waiting for the epoll descriptor itself with select(2) is exact to the timer slack.
"""

from __future__ import annotations

import heapq
import select
import time
from itertools import count
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["READABLE", "WRITABLE", "Loop", "Ready"]

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT
_BATCH = 256
_SECOND_NS = 10**9


class Ready(Interface):
    """What is told that its descriptor is ready."""

    def ready(self) -> None: ...


class Loop:
    """One thread's. Callbacks must not block."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Ready] = {}
        self._timers: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._order = count()
        self.running = True

    def watch(self, descriptor: int, mask: int, handler: Ready) -> None:
        """Tell `handler` when the descriptor is ready; again with another mask to change it (0: not at all)."""
        if descriptor in self._handlers:
            self._epoll.modify(descriptor, mask)
        else:
            self._epoll.register(descriptor, mask)
        self._handlers[descriptor] = handler

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is closed."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def at(self, due_ns: int, call: Callable[[Any], None], argument: Any) -> None:
        """Call at a time of CLOCK_MONOTONIC."""
        heapq.heappush(self._timers, (due_ns, next(self._order), call, argument))

    def run(self) -> None:
        """Until `running` is False."""
        timers, handlers, now = self._timers, self._handlers, time.monotonic_ns
        while self.running:
            wait_s = max(0, timers[0][0] - now()) / _SECOND_NS if timers else 1.0
            if wait_s:
                select.select([self._epoll], [], [], min(wait_s, 1.0))
            for descriptor, _ in self._epoll.poll(0, _BATCH):
                handler = handlers.get(descriptor)
                if handler is not None:
                    handler.ready()
            # Taken first and called then: one that is due again at once waits for the sockets' turn.
            until, due = now(), []
            while timers and timers[0][0] <= until:
                due.append(heapq.heappop(timers))
            for _, _, call, argument in due:
                call(argument)
