"""Gemini's ``usageMetadata`` as `Counts` (protocols page 7.3). Pure.

Cumulative: the last one counts. ``promptTokenCount`` is required, other absent members are zero. An object without any
count (Vertex sends ``{"trafficType": ...}`` with every chunk) reports nothing; one with a count that is negative, not
an integer or absurd is not evidence, and neither is anything before it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hoptrio.limits import TOKENS_MAX
from hoptrio.protocols.events import Counts
from hoptrio.protocols.members import UNREADABLE

__all__ = ["INVALID", "UsageMetadata", "counts_of", "read_usage"]

Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]

#: Traffic and service tiers at the standard price; provisioned throughput is paid by the provider's customer as a
#: whole, so that to a caller it is the standard price, too.
_STANDARD = frozenset(
    {"", "standard", "unspecified", "on_demand", "traffic_type_unspecified", "provisioned_throughput"}
)


class UsageMetadata(msgspec.Struct, gc=False):
    """One usage object, as far as it is about money."""

    prompt: Tokens | None = msgspec.field(default=None, name="promptTokenCount")
    candidates: Tokens | None = msgspec.field(default=None, name="candidatesTokenCount")
    thoughts: Tokens | None = msgspec.field(default=None, name="thoughtsTokenCount")
    tool_prompt: Tokens | None = msgspec.field(default=None, name="toolUsePromptTokenCount")
    cached: Tokens | None = msgspec.field(default=None, name="cachedContentTokenCount")
    total: Tokens | None = msgspec.field(default=None, name="totalTokenCount")
    traffic_type: Any = msgspec.field(default=None, name="trafficType")
    service_tier: Any = msgspec.field(default=None, name="serviceTier")


_DECODER = msgspec.json.Decoder(UsageMetadata)

#: An object that is not evidence.
INVALID = UsageMetadata()


def read_usage(raw: bytes | msgspec.Raw) -> UsageMetadata | None:
    """One usage object: valid, `INVALID`, or None if it reports nothing."""
    try:
        usage = _DECODER.decode(raw)
    except UNREADABLE:
        return INVALID
    if usage.prompt is None:
        return INVALID if _has_count(usage) else None
    return usage


def counts_of(usage: UsageMetadata, raw: bytes, tool_calls: dict[str, int], images: int | None) -> Counts | None:
    """The counts of a valid usage object and its bytes as received, with what was counted in the answer; None for
    `INVALID`."""
    if usage.prompt is None:
        return None
    return Counts(
        input=usage.prompt,
        output=usage.candidates or 0,
        total=usage.total,
        cached=usage.cached,
        reasoning=usage.thoughts,
        tool_input=usage.tool_prompt,
        tool_calls=tool_calls,
        images=images,
        tier=_tier(usage),
        raw=raw,
    )


def _has_count(usage: UsageMetadata) -> bool:
    counts = (usage.candidates, usage.thoughts, usage.tool_prompt, usage.cached, usage.total)
    return any(count is not None for count in counts)


def _tier(usage: UsageMetadata) -> str | None:
    """``ON_DEMAND_FLEX`` and ``flex`` are one tier, under Vertex' and the developer API's name."""
    for value in (usage.service_tier, usage.traffic_type):
        name = value.lower() if isinstance(value, str) else ""
        if name not in _STANDARD:
            return name.removeprefix("on_demand_")
    return None
