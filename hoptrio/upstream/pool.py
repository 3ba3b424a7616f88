"""Idle connections, by origin: a list per origin, the last one in is the first one out. No I/O but looking and closing.

Taking and keeping are O(1), however many are idle. An idle connection that has become readable is never used again: at
best it is a provider's FIN, at worst an answer to somebody else's request. The sweep finds those that nobody asks for.
Used from trio's thread only, and synchronously, so that no cancellation can come between.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio

from hoptrio import limits

if TYPE_CHECKING:
    from hoptrio.upstream.answer import Origin
    from hoptrio.upstream.http1 import Connection

__all__ = ["Pool"]


class Pool:
    """The idle connections of a process. `repr` shows how many there are."""

    def __init__(self) -> None:
        #: Per origin, longest idle first. No list is empty.
        self._idle: dict[Origin, deque[Connection]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<Pool idle={len(self)} origins={len(self._idle)}>"

    def __len__(self) -> int:
        return sum(map(len, self._idle.values()))

    def take(self, origin: Origin) -> Connection | None:
        """A connection to `origin` that is fit for use, or None; unfit ones met on the way are closed."""
        idle = self._idle.get(origin)
        if idle is None:
            return None
        now = trio.current_time()
        found = None
        while idle and found is None:
            connection = idle.pop()
            if _fit(connection, now):
                found = connection
            else:
                connection.close()
        if not idle:
            del self._idle[origin]
        return found

    def keep(self, connection: Connection) -> None:
        """Take a connection back, after an exchange that left it clean. Beyond the limit the longest idle one goes."""
        if self._closed:
            connection.close()
            return
        connection.idle_since = trio.current_time()
        idle = self._idle.get(connection.origin)
        if idle is None:
            idle = self._idle[connection.origin] = deque()
        idle.append(connection)
        if len(idle) > limits.POOL_IDLE_MAX:
            idle.popleft().close()

    def sweep(self) -> None:
        """Close what has been idle too long, has grown too old, or has become readable."""
        now = trio.current_time()
        for origin, idle in list(self._idle.items()):
            fit: deque[Connection] = deque()
            for connection in idle:
                if _fit(connection, now):
                    fit.append(connection)
                else:
                    connection.close()
            if fit:
                self._idle[origin] = fit
            else:
                del self._idle[origin]

    def close(self) -> None:
        """Close all of them; from now on nothing is kept."""
        self._closed = True
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()


def _fit(connection: Connection, now: float) -> bool:
    fresh = now - connection.idle_since < limits.POOL_IDLE_S and now - connection.born_at < limits.POOL_AGE_S
    return fresh and not connection.wire.readable()
