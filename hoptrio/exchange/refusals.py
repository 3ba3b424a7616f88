"""Records of refused requests, kept as long as they are news.

A refusal costs its caller nothing and holds nothing, so an agent in a loop can have hundreds a second. Each of them is
answered alike; of one key, the first `limits.REFUSALS_KEPT_MAX` a minute and process are kept in the ledger.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hoptrio.limits import REFUSALS_KEPT_MAX

if TYPE_CHECKING:
    from hoptrio.errors import HoptrioError
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import RequestRecord

__all__ = ["Refusals"]

_MINUTE_MS = 60_000


class Refusals:
    """Keeps records in `ledger`."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._minute = 0
        self._kept: Counter[str] = Counter()

    def keep(self, record: RequestRecord, error: HoptrioError) -> None:
        """Keep the record of a request that was refused: nothing was held, nothing is charged."""
        minute = self._ledger.now_ms() // _MINUTE_MS
        if minute != self._minute:
            self._minute = minute
            self._kept.clear()
        if self._kept[record.key_id] < REFUSALS_KEPT_MAX:
            self._kept[record.key_id] += 1
            self._ledger.note(replace(record, state="refused", reason=error.code, hold_nanos=0, charge_nanos=0))
