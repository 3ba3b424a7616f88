"""What a provider's counts mean: `Counts`, in each protocol's own arithmetic, become one `Usage` that can be priced.

Owns every rule of "Evidence per protocol" (contract) about how counts fit together. Pure. Invariant: no number of a
`Usage` is negative, and no token is in two of its priced components.

The theory: OpenAI and Gemini count cached input, and OpenAI cache writes, inside the input; Anthropic counts them
beside it. OpenAI and Anthropic count reasoning inside the output, Gemini beside it. Providers that speak a chat API
for another vendor's model mix these up, and ``total`` is the witness: the one arrangement of the reported components
that adds up to it is the right one (cases 58, 64). If none does, the components are taken as the protocol says,
as far as that is possible at all, and the usage is flagged.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hoptrio.protocols.events import Counts, Protocol

__all__ = ["Flag", "Usage", "usage"]


#: Tiers that providers report for the standard price.
_STANDARD_TIERS = frozenset({"", "auto", "default", "standard", "standard_only", "on_demand", "unspecified"})


class Flag(StrEnum):
    """What a human should know about a charge; a charge can have several."""

    #: The reported total is not what the components add up to.
    MISMATCH = "mismatch"
    #: Zero output was reported although output was seen.
    SUSPECT = "suspect"
    #: Something exceeded its bound, and the bound was charged.
    CLAMPED = "clamped"
    #: The provider reports a tier without a price table; the standard table was used.
    UNKNOWN_TIER = "unknown_tier"
    #: A tool call or an image has no price and was not charged.
    UNPRICED = "unpriced"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Billable counts; the priced components are disjoint."""

    #: Input that was neither read from nor written to a cache.
    input: int
    cached_input: int = 0
    #: Written to the cache at the ordinary write price.
    cache_write: int = 0
    #: Written to the cache for long, at a price of its own.
    cache_write_1h: int = 0
    #: With reasoning.
    output: int
    #: The part of `output` that was reasoning; never priced by itself.
    reasoning: int = 0
    tool_calls: dict[str, int] = {}
    images: int = 0
    #: The price table it selects, None = the standard one.
    tier: str | None = None
    flags: tuple[Flag, ...] = ()

    @property
    def all_input(self) -> int:
        """Every input token."""
        return self.input + self.cached_input + self.cache_write + self.cache_write_1h


class _Parts(msgspec.Struct):
    """Counts while they are put in order: `input` and `output` as one number each, and what is known of them."""

    input: int
    output: int
    cached: int
    written: int
    reasoning: int
    #: Cached and written tokens are not part of `input`.
    beside: bool
    matches: bool = True


def usage(counts: Counts, protocol: Protocol, *, answered: bool) -> Usage | None:
    """Interpret what a provider of `protocol` reported; None if it is not enough to charge anything.

    `answered` = output was seen, so that a reported zero is suspect.
    """
    parts = _parts(counts, protocol)
    if parts is None:
        return None
    if not parts.beside:
        parts.cached = min(parts.cached, parts.input)
        parts.written = min(parts.written, parts.input - parts.cached)
        parts.input -= parts.cached + parts.written
    long = min(counts.cache_write_1h or 0, parts.written)
    flags = (Flag.MISMATCH,) if not parts.matches or long < (counts.cache_write_1h or 0) else ()
    return Usage(
        input=parts.input,
        cached_input=parts.cached,
        cache_write=parts.written - long,
        cache_write_1h=long,
        output=parts.output,
        reasoning=min(parts.reasoning, parts.output),
        tool_calls=counts.tool_calls,
        images=counts.images or 0,
        tier=_tier(counts.tier),
        flags=(*flags, Flag.SUSPECT) if answered and parts.output == 0 and not counts.images else flags,
    )


def _tier(reported: str | None) -> str | None:
    """The name of a price table in lower case, None for the standard one."""
    name = (reported or "").lower()
    return None if name in _STANDARD_TIERS else name


def _parts(counts: Counts, protocol: Protocol) -> _Parts | None:
    amounts = _amounts(counts)
    if amounts is None:
        return None
    parts = _Parts(
        input=amounts[0] + (counts.tool_input or 0),
        output=amounts[1],
        cached=counts.cached or 0,
        written=_written(counts),
        reasoning=counts.reasoning or 0,
        beside=protocol is Protocol.MESSAGES,
    )
    if protocol is Protocol.GEMINI:
        parts.output += parts.reasoning
    if protocol is not Protocol.MESSAGES:
        _heed_total(parts, counts.total, reasoning_inside=protocol is Protocol.GEMINI)
    return parts


def _amounts(counts: Counts) -> tuple[int, int] | None:
    """Input and output; embeddings report no output but a total that leaves none, image models may report neither."""
    if counts.input is None:
        return (0, 0) if counts.images is not None else None
    if counts.output is None:
        return (counts.input, 0) if counts.images is not None or counts.total == counts.input else None
    return counts.input, counts.output


def _written(counts: Counts) -> int:
    """Tokens written to a cache: `cache_write` is the sum of all lifetimes, unless only the long one was reported."""
    return counts.cache_write_1h or 0 if counts.cache_write is None else counts.cache_write


def _heed_total(parts: _Parts, total: int | None, *, reasoning_inside: bool) -> None:
    """Find the arrangement that adds up to `total`, and put `parts` in it."""
    gap = 0 if total is None else total - parts.input - parts.output
    apart = parts.cached + parts.written
    fits_inside = apart <= parts.input
    unreported = 0 if reasoning_inside else parts.reasoning
    if gap == 0 and fits_inside:
        return
    if gap == unreported and fits_inside:
        parts.output += gap
    elif gap == apart:
        parts.beside = True
    elif gap == apart + unreported:
        parts.beside = True
        parts.output += unreported
    else:
        parts.matches = False
        # Without a total, cached tokens that exceed the input can only be beside it.
        parts.beside = not fits_inside and total is None
