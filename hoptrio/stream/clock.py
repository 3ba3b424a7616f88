"""The clocks of one stream, in one task that reads plain attributes: keep-alive, header limit, stall, write stall.

One sleeping task costs 37 us a wake, at most one wake in ten seconds; a cancel scope around every read would cost
11 us an event. So nobody tells the clock anything: the pump moves `progress_at`, the writer its own times, and the
clock looks again when the earliest of them could be due. The deadline is not here: it is the cancel scope around the
upstream side.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import trio

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.contract import Keepalive
    from hoptrio.stream.ports import Writer

__all__ = ["Clock"]

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

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await trio.sleep_until(min(self._next_due(), trio.current_time() + LOOK_S))
            self._look(trio.current_time())

    def _look(self, now: float) -> None:
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

    def _next_due(self) -> float:
        return min(self._write_stall_due(), self._stall_due(), self._keepalive_due())

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
