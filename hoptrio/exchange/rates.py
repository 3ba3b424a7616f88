"""Keys that are over their requests a minute, as far as this process has been told by the ledger.

The ledger alone decides, over all processes (`ledger.rules`). But it also says when there is room again, and until then
nothing it could be asked would be answered otherwise: an agent in a loop is refused from here, without a transaction
and without a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio.errors import LimitExceeded
from hoptrio.exchange.figures import rate_headers

if TYPE_CHECKING:
    from hoptrio.ledger.model import ApiKey
    from hoptrio.protocols.events import Protocol

__all__ = ["Rates", "refusal"]

#: Keys beyond this many are looked through for those that have room again.
_KEYS_MAX = 1_000


class Rates:
    """Until when keys are full, in trio time."""

    def __init__(self) -> None:
        self._full_until: dict[str, float] = {}

    def check(self, key: ApiKey, protocol: Protocol) -> None:
        """Raise LimitExceeded while the key is known to be full."""
        left_s = self._full_until.get(key.id, 0.0) - trio.current_time()
        if left_s > 0:
            raise refusal(key, protocol, left_s)
        self._full_until.pop(key.id, None)

    def full(self, key: ApiKey, protocol: Protocol, wait_ms: int) -> LimitExceeded:
        """The ledger refused the key, which has room again in `wait_ms`: remember that; the error to answer with."""
        now = trio.current_time()
        if len(self._full_until) > _KEYS_MAX:
            self._full_until = {key_id: at for key_id, at in self._full_until.items() if at > now}
        self._full_until[key.id] = now + wait_ms / 1000
        return refusal(key, protocol, wait_ms / 1000)


def refusal(key: ApiKey, protocol: Protocol, wait_s: float) -> LimitExceeded:
    """The 429, with how long to wait in whole seconds, rounded up."""
    error = LimitExceeded(f"This key may make {key.rpm} requests a minute.", retry_after_s=int(-(-wait_s // 1)))
    error.headers = rate_headers(protocol, key.rpm or 0, 0)
    return error
