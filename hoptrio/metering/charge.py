"""The amount a usage costs by the pinned prices, within the bounds of its hold. Pure, integers only.

Invariant: 0 <= amount <= hold, whatever a provider reports (contract: "Capture <= hold"). The tier that the answer
reports selects the table; one sum, one ceil.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hoptrio.metering.evidence import Flag
from hoptrio.metering.price import total_nanos

if TYPE_CHECKING:
    from hoptrio.metering.evidence import Usage
    from hoptrio.metering.price import Prices, PriceTables

__all__ = ["Bounds", "Charge", "charge"]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the hold was made for, component by component, and the amount itself."""

    #: All input tokens and all output tokens.
    input_tokens: int
    output_tokens: int
    hold_nanos: int
    #: Calls of each hosted tool, and images; None = only the amount bounds them.
    tool_calls: dict[str, int] | None = None
    images: int | None = None


class Charge(msgspec.Struct, frozen=True):
    """What to capture, and every flag of it, those of the usage included."""

    amount_nanos: int
    flags: tuple[Flag, ...] = ()


def charge(usage: Usage, tables: PriceTables, bounds: Bounds) -> Charge:
    """Price `usage`; never more than `bounds`, in any component."""
    prices, known_tier = _table(usage, tables)
    inputs = _within(
        [
            (usage.input, prices.input),
            (usage.cached_input, prices.cached_input),
            (usage.cache_write, prices.cache_write),
            (usage.cache_write_1h, prices.cache_write_1h),
        ],
        bounds.input_tokens,
    )
    outputs = _within([(usage.output, prices.output)], bounds.output_tokens)
    calls, images = _extras_within(usage, bounds)
    tools_nanos = sum(count * prices.tools.get(tool, 0) for tool, count in calls.items())
    amount_nanos = total_nanos(inputs + outputs, tools_nanos + images * (prices.image or 0))
    own = (
        (Flag.CLAMPED, _exceeds(usage, bounds, prices) or amount_nanos > bounds.hold_nanos),
        (Flag.UNKNOWN_TIER, not known_tier),
        (Flag.UNPRICED, not _is_priced(usage, prices)),
    )
    return Charge(
        amount_nanos=min(amount_nanos, bounds.hold_nanos),
        flags=(*usage.flags, *(flag for flag, raised in own if raised)),
    )


def _table(usage: Usage, tables: PriceTables) -> tuple[Prices, bool]:
    if usage.tier is None:
        return tables.standard, True
    return tables.tiers.get(usage.tier, tables.standard), usage.tier in tables.tiers


def _within(components: list[tuple[int, int]], tokens_max: int) -> list[tuple[int, int]]:
    """The components cut to `tokens_max` tokens together; the cheapest are cut first."""
    kept = []
    for tokens, price in sorted(components, key=lambda component: -component[1]):
        taken = min(tokens, tokens_max)
        tokens_max -= taken
        kept.append((taken, price))
    return kept


def _extras_within(usage: Usage, bounds: Bounds) -> tuple[dict[str, int], int]:
    """Tool calls and images cut to their bounds."""
    calls, images = usage.tool_calls, usage.images
    if bounds.tool_calls is not None:
        calls = {tool: min(count, bounds.tool_calls.get(tool, 0)) for tool, count in calls.items()}
    return calls, images if bounds.images is None else min(images, bounds.images)


def _exceeds(usage: Usage, bounds: Bounds, prices: Prices) -> bool:
    """Whether a bound was charged. Tokens without a price, beside images that have one, are charged by none."""
    return (
        (usage.all_input > bounds.input_tokens and prices.dearest_input > 0)
        or (usage.output > bounds.output_tokens and prices.output > 0)
        or _extras_within(usage, bounds) != (usage.tool_calls, usage.images)
    )


def _is_priced(usage: Usage, prices: Prices) -> bool:
    """Whether every tool call and image has a price."""
    return prices.tools.keys() >= usage.tool_calls.keys() and (prices.image is not None or not usage.images)
