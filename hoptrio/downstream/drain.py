"""Drain: the end of service as connections see it: the current response is the last, idle connections close."""

from __future__ import annotations

import trio

__all__ = ["Drain"]


class Drain:
    """One per process. `start` is called once, from the task that decides to stop."""

    __slots__ = ("_waiting", "draining")

    def __init__(self) -> None:
        self.draining = False
        #: Connections waiting for a request, each with how long it may still wait once the drain starts.
        self._waiting: dict[trio.CancelScope, float] = {}

    def start(self) -> None:
        """From now on responses say ``Connection: close``; running exchanges go on."""
        self.draining = True
        now = trio.current_time()
        for scope, grace_s in self._waiting.items():
            scope.deadline = min(scope.deadline, now + grace_s)

    def waits(self, scope: trio.CancelScope, grace_s: float) -> None:
        """A connection begins to wait for a request in `scope`."""
        self._waiting[scope] = grace_s
        if self.draining:
            scope.deadline = min(scope.deadline, trio.current_time() + grace_s)

    def waits_no_more(self, scope: trio.CancelScope) -> None:
        """The wait of `scope` is over."""
        del self._waiting[scope]
