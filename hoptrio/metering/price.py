"""Prices of a model, the tables pinned in a hold, and the one sum both the hold and the charge are made of. Pure.

What a table is applied to is `metering.charge`'s business, how much may be needed is `admission.quote`'s. Everything
is an integer: token prices are per million, so a sum is kept in millionths of a billionth until it is rounded up, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from hoptrio.money import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["TOKENS_PER_PRICE", "Nanos", "PriceTables", "Prices", "pin", "total_nanos", "unpin"]

#: A token price is for this many tokens.
TOKENS_PER_PRICE = 10**6

#: An amount that is never negative: a price below zero would turn a charge into a gift (cases 67).
Nanos = Annotated[int, msgspec.Meta(ge=0)]


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """One price table. Token prices are in billionths of the currency unit per million tokens; `tools` per call and
    `image` per image in billionths. None of an optional price means that the thing may not be sold."""

    input: Nanos
    output: Nanos
    cached_input: Nanos
    cache_write: Nanos
    cache_write_1h: Nanos
    tools: dict[str, Nanos] = {}
    image: Nanos | None = None

    @property
    def dearest_input(self) -> int:
        """The price of an input token in the worst case, cache writes included."""
        return max(self.input, self.cached_input, self.cache_write, self.cache_write_1h)


class PriceTables(msgspec.Struct, frozen=True):
    """All tables of one model: the standard one, and further ones by the tier that selects them."""

    standard: Prices
    tiers: dict[str, Prices] = {}


def pin(standard: Prices, tiers: Mapping[str, Prices]) -> str:
    """The tables as the JSON that a hold keeps (`Hold.prices`), so that a later price list cannot touch it."""
    return msgspec.json.encode(PriceTables(standard, dict(tiers))).decode()


def unpin(prices: str) -> PriceTables:
    """Read what `pin` wrote. Raises msgspec.DecodeError for anything else, a negative price included."""
    return _TABLES.decode(prices)


def total_nanos(tokens: Iterable[tuple[int, int]], whole_nanos: int = 0) -> int:
    """The amount for pairs of (tokens, price per million), plus `whole_nanos`; one ceil to a billionth for all."""
    millionths = sum(count * price for count, price in tokens)
    return whole_nanos + ceil_div(millionths, TOKENS_PER_PRICE)


_TABLES = msgspec.json.Decoder(PriceTables)
