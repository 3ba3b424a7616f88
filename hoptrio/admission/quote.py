"""The quote: how much one request can cost at most, and so what is held before it is dispatched. Pure.

An upper bound, so that a capture that is at most the hold never makes a gift (contract, "The hold"). Each component
has a bound of its own, which the capture keeps, too: input, output, calls of hosted tools, images. The bounds are

* input: bytes of the upstream body plus a margin, since a token is at least a byte; or, if anything the model reads is
  not plain text in the body, the model's ``max_input_tokens``, beyond which no provider takes a prompt;
* output: the limit in the request, lowered to the model's ``max_output_tokens``, or else that, for each choice;
* price: of every table the answer may be priced by, the one that makes the whole dearest, its dearest input price
  included. The request's own limits never raise a hold above what the model can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX, QUOTE_MARGIN_TOKENS
from hoptrio.money import NANOS_MAX, ceil_div
from hoptrio.protocols.events import Operation
from hoptrio.protocols.pricing import unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hoptrio.admission.catalogue import Model
    from hoptrio.metering.price import Prices
    from hoptrio.protocols.events import Call

__all__ = ["Quote", "dearest", "output_limit", "quote", "refuse_unpriced"]

#: Token prices are per million.
_TOKENS = 10**6
#: The tier that a provider may choose by itself where a request leaves it open.
_AUTOMATIC_TIER = "priority"


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    """What to hold, and the bounds that made it up; a capture is clamped to each."""

    hold_nanos: int
    #: Input tokens: uncached, cached and cache writes together.
    input_bound: int
    #: Output tokens of all choices together.
    output_bound: int
    #: Calls of each hosted tool that goes upstream.
    tool_bounds: dict[str, int]
    image_bound: int


def refuse_unpriced(call: Call, model: Model) -> frozenset[str]:
    """The hosted tools to drop because the model has no price for them.

    Raises BadRequest (``unsupported_parameter``) for a tier without a price table, for images without a price, and for
    an unpriced hosted tool that cannot be dropped because ``tool_choice`` asks for more than auto.
    """
    if call.tier is not None and call.tier not in model.tiers:
        raise unsupported(call.tier_param)
    if call.image_param and model.prices.image is None:
        raise unsupported(call.image_param)
    priced = model.prices if call.tier is None else model.tiers[call.tier]
    dropped = frozenset(name for name in call.hosted_tools if name not in priced.tools)
    if dropped and not call.tools_optional:
        raise BadRequest(
            f"The hosted tools {', '.join(sorted(dropped))} are not sold with this model, "
            "and are only left out when 'tool_choice' is auto.",
            param="tools",
            code="unsupported_parameter",
        )
    return dropped


def output_limit(call: Call, model: Model) -> int | None:
    """What `Rules.encode` lowers the request's limit to; None leaves it alone.

    A request without a limit gets none: the model's maximum is the provider's own, and of a limit's spellings in Chat
    each is refused somewhere.
    """
    limit = model.max_output_tokens
    return limit if limit is not None and call.output_limit is not None and call.output_limit > limit else None


def quote(call: Call, body_bytes: int, model: Model, dropped: frozenset[str] = frozenset()) -> Quote:
    """The hold for `call`, whose upstream body has `body_bytes` (the largest over the channels it may be sent to),
    without the hosted tools `dropped` by `refuse_unpriced`."""
    hosted = [name for name in call.hosted_tools if name not in dropped]
    input_bound = model.max_input_tokens
    if not call.opaque_input and not hosted:
        input_bound = min(input_bound, body_bytes + QUOTE_MARGIN_TOKENS + call.added_input_tokens)
    output_bound = _output_bound(call, model)
    tool_bounds = {name: call.hosted_calls_max.get(name, HOSTED_CALLS_MAX) for name in hosted}
    image_bound = call.choices if model.prices.image is not None and call.operation != Operation.EMBEDDINGS else 0
    amounts = (
        _cost(prices, call, input_bound, output_bound)
        + _TOKENS * sum(count * prices.tools.get(name, 0) for name, count in tool_bounds.items())
        + _TOKENS * image_bound * (prices.image or 0)
        for prices in _tables(call, model)
    )
    return Quote(
        hold_nanos=min(ceil_div(max(amounts), _TOKENS), NANOS_MAX),
        input_bound=input_bound,
        output_bound=output_bound,
        tool_bounds=tool_bounds,
        image_bound=image_bound,
    )


def dearest(quotes: Sequence[Quote]) -> Quote:
    """One quote that covers each of `quotes`, at least one: the largest of every bound."""
    names = {name for each in quotes for name in each.tool_bounds}
    return Quote(
        hold_nanos=max(each.hold_nanos for each in quotes),
        input_bound=max(each.input_bound for each in quotes),
        output_bound=max(each.output_bound for each in quotes),
        tool_bounds={name: max(each.tool_bounds.get(name, 0) for each in quotes) for name in names},
        image_bound=max(each.image_bound for each in quotes),
    )


def _output_bound(call: Call, model: Model) -> int:
    if call.operation == Operation.EMBEDDINGS:
        return 0
    limits = [limit for limit in (call.output_limit, model.max_output_tokens) if limit is not None]
    return min(limits, default=0) * call.choices


def _tables(call: Call, model: Model) -> Iterator[Prices]:
    """The price tables by which the answer may be charged: a provider may serve less than the tier asked for, and
    reports what it served."""
    yield model.prices
    if call.tier is not None:
        yield model.tiers[call.tier]
    if call.tier_open and _AUTOMATIC_TIER in model.tiers:
        yield model.tiers[_AUTOMATIC_TIER]


def _cost(prices: Prices, call: Call, input_bound: int, output_bound: int) -> int:
    """The cost of the tokens in millionths of a billionth, since a price is per million: rounding happens once."""
    dearest = max(prices.input, prices.cached_input, prices.cache_write)
    if call.long_cache:
        dearest = max(dearest, prices.cache_write_1h)
    return input_bound * dearest + output_bound * prices.output
