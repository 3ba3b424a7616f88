"""Balance, hold and limits in the headers of an answer: what its request has taken, and what is left of each.

Amounts are decimal strings in the ledger's currency. The names for requests a minute are those that the SDKs' own
vendors use; there is none for the reset, since a sliding window has no such moment: a 429 says how long to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.money import format_nanos
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.ledger.model import ApiKey, Placed

__all__ = ["figures", "rate_headers"]

Headers = tuple[tuple[str, str], ...]


def figures(protocol: Protocol, key: ApiKey, hold_nanos: int, placed: Placed) -> list[tuple[bytes, bytes]]:
    """The headers of an answer whose hold was placed."""
    shown: Headers = (
        ("x-hoptrio-hold", format_nanos(hold_nanos)),
        ("x-hoptrio-available", format_nanos(placed.available_nanos)),
    )
    if key.rpm is not None and placed.requests_left is not None:
        shown += rate_headers(protocol, key.rpm, placed.requests_left)
    return [(name.encode(), value.encode()) for name, value in shown]


def rate_headers(protocol: Protocol, rpm: int, left: int) -> Headers:
    """A key's requests a minute, and how many of them it has left now."""
    prefix = "anthropic-ratelimit-requests-{}" if protocol is Protocol.MESSAGES else "x-ratelimit-{}-requests"
    return (prefix.format("limit"), str(rpm)), (prefix.format("remaining"), str(left))
