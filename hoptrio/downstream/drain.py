"""Drain: the end of service as connections see it: the current response is the last, idle connections
may ask once more and close."""

from __future__ import annotations

import trio

from hoptrio import limits

__all__ = ["Drain"]


class Drain:
    """One per process. `start` is called once, from the task that decides to stop."""

    __slots__ = ("_waiting", "draining", "started")

    def __init__(self) -> None:
        self.draining = False
        #: Set with it, for whoever has more to do than to close.
        self.started = trio.Event()
        #: Connections waiting for a request.
        self._waiting: set[trio.CancelScope] = set()

    def start(self) -> None:
        """From now on responses say ``Connection: close``; running exchanges go on."""
        self.draining = True
        self.started.set()
        for scope in self._waiting:
            _hurry(scope)

    def waits(self, scope: trio.CancelScope) -> None:
        """A connection begins to wait for a request in `scope`."""
        self._waiting.add(scope)
        if self.draining:
            _hurry(scope)

    def waits_no_more(self, scope: trio.CancelScope) -> None:
        """The wait of `scope` is over."""
        self._waiting.remove(scope)


def _hurry(scope: trio.CancelScope) -> None:
    scope.deadline = min(scope.deadline, trio.current_time() + limits.DRAIN_IDLE_S)
