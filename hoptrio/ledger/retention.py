"""Retention: records of requests are forgotten when they are old enough; entries and holds are kept for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable

if TYPE_CHECKING:
    from hoptrio.ledger.ledger import Ledger

__all__ = ["keep"]

log = structlog.get_logger("hoptrio.ledger")

_DAY_MS = 86_400_000


async def keep(ledger: Ledger, days: int) -> None:
    """Forget what is older than `days`, now and again, until cancelled; 0 = keep all. Several processes may do so."""
    if not days:
        return
    while True:
        try:
            await _forget(ledger, ledger.now_ms() - days * _DAY_MS)
        except LedgerUnavailable:
            log.warning("old requests are not forgotten now: the ledger cannot be written")
        await trio.sleep(limits.PURGE_EVERY_S)


async def _forget(ledger: Ledger, before_ms: int) -> None:
    """In small commits with pauses between, so that a request never waits long for them."""
    forgotten = 0
    while (found := await ledger.purge(before_ms)) == limits.PURGE_ROWS:
        forgotten += found
        await trio.sleep(limits.PURGE_PAUSE_S)
    if forgotten + found:
        log.info("forgot requests", requests=forgotten + found)
