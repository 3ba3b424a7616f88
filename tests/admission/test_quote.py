"""The quote is an upper bound: of input, output, tools and price, and so of any charge."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.admission.catalogue import Model
from hoptrio.admission.quote import Quote, output_limit, quote, refuse_unpriced
from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX, QUOTE_MARGIN_TOKENS
from hoptrio.metering.price import Prices
from hoptrio.money import NANOS_MAX, ceil_div, parse_nanos
from hoptrio.protocols.chat import request as chat
from hoptrio.protocols.events import Call, Framing, Protocol


def prices(**changes):
    return Prices(
        **{"input": 100, "output": 1_000, "cached_input": 10, "cache_write": 125, "cache_write_1h": 200, **changes}
    )


def model(**changes):
    return Model(
        **{
            "name": "m",
            "prices": prices(),
            "max_input_tokens": 10_000,
            "max_output_tokens": 500,
            "stall_s": 120.0,
            **changes,
        }
    )


def call(**changes):
    plain = {"protocol": Protocol.CHAT, "model": "m", "stream": True, "framing": Framing.SSE, "body": {}}
    return Call(**{**plain, **changes})


def test_a_plain_call_is_bounded_by_its_bytes_and_the_models_output():
    # 1,064 input tokens at the price of a cache write, 500 output tokens, per million, rounded up once.
    assert quote(call(), 1_000, model()) == Quote(
        hold_nanos=ceil_div(1_064 * 125 + 500 * 1_000, 10**6),
        input_bound=1_000 + QUOTE_MARGIN_TOKENS,
        output_bound=500,
        tool_bounds={},
        image_bound=0,
    )


@pytest.mark.parametrize(
    ("changes", "body_bytes", "bound"),
    [
        ({}, 0, QUOTE_MARGIN_TOKENS),
        ({"added_input_tokens": 600}, 100, 100 + QUOTE_MARGIN_TOKENS + 600),
        ({"opaque_input": True}, 100, 10_000),
        ({"hosted_tools": ("web_search",)}, 100, 10_000),
        ({}, 10**6, 10_000),
    ],
)
def test_input(changes, body_bytes, bound):
    assert quote(call(**changes), body_bytes, model()).input_bound == bound


@pytest.mark.parametrize(
    ("limit", "choices", "bound", "lowered_to"),
    [
        (None, 1, 500, None),
        (7, 1, 7, None),
        (500, 1, 500, None),
        (501, 1, 500, 500),
        (10**30, 1, 500, 500),
        (7, 3, 21, None),
        (None, 3, 1_500, None),
    ],
)
def test_output(limit, choices, bound, lowered_to):
    asked = call(output_limit=limit, choices=choices)
    assert quote(asked, 0, model()).output_bound == bound
    assert output_limit(asked, model()) == lowered_to


def test_a_model_without_an_output_limit_has_no_output_to_pay():
    assert quote(call(), 0, model(max_output_tokens=None)).output_bound == 0
    assert output_limit(call(output_limit=5), model(max_output_tokens=None)) is None


def test_case_70_the_callers_fantasy_does_not_raise_the_hold():
    dear = model(prices=prices(output=parse_nanos("10")), max_output_tokens=128_000)
    fantasy = quote(call(output_limit=10**12), 0, dear)
    assert fantasy == quote(call(output_limit=128_000), 0, dear)
    assert fantasy.hold_nanos < parse_nanos("1.29")


@pytest.mark.parametrize(
    ("changes", "price"),
    [
        ({}, 125),
        ({"long_cache": True}, 200),
    ],
)
def test_the_dearest_input_price_that_can_be_met(changes, price):
    held = quote(call(output_limit=1, **changes), 936, model(prices=prices(output=0)))
    assert held.hold_nanos == ceil_div(1_000 * price, 10**6)


TIERS = {"priority": prices(input=10_000), "flex": prices(input=50, cache_write=50), "fast": prices(input=10**6)}


@pytest.mark.parametrize(
    ("changes", "dearest"),
    [
        ({}, 125),
        ({"tier_open": True}, 10_000),
        ({"tier": "priority"}, 10_000),
        ({"tier": "flex"}, 125),
        ({"tier": "fast"}, 10**6),
    ],
)
def test_a_provider_may_serve_less_than_the_tier_asked_for(changes, dearest):
    held = quote(call(output_limit=1, **changes), 10**6, model(tiers=TIERS, prices=prices(output=1)))
    assert held.hold_nanos == ceil_div(10_000 * dearest + (1_000 if dearest > 125 else 1), 10**6)


def test_hosted_tools_are_held_for_by_the_call():
    sold = model(prices=prices(tools={"web_search": 7, "file_search": 3}))
    asked = call(hosted_tools=("web_search", "file_search", "mcp"), hosted_calls_max={"file_search": 2})
    held = quote(asked, 0, sold, dropped=frozenset({"mcp"}))
    assert held.tool_bounds == {"web_search": HOSTED_CALLS_MAX, "file_search": 2}
    tokens = ceil_div(10_000 * 125 + 500 * 1_000, 10**6)
    assert held.hold_nanos == tokens + 7 * HOSTED_CALLS_MAX + 3 * 2


def test_dropped_tools_cost_nothing():
    asked = call(hosted_tools=("web_search",))
    assert quote(asked, 1_000, model(), dropped=frozenset({"web_search"})) == quote(call(), 1_000, model())


def test_an_image_a_choice_is_held_for():
    held = quote(call(choices=4, operation="images"), 0, model(max_output_tokens=None, prices=prices(image=50)))
    assert held.image_bound == 4
    assert held.hold_nanos == 4 * 50 + ceil_div(QUOTE_MARGIN_TOKENS * 125, 10**6)


def test_embeddings_are_held_for_by_their_input_alone():
    sold = model(prices=prices(image=50))
    held = quote(call(choices=4, operation="embeddings"), 1_000, sold)
    assert (held.output_bound, held.image_bound) == (0, 0)
    assert held.hold_nanos == ceil_div((1_000 + QUOTE_MARGIN_TOKENS) * 125, 10**6)


def test_a_hold_always_fits_the_ledger():
    assert quote(call(choices=10**18), 0, model()).hold_nanos == NANOS_MAX


# -- what is not sold -------------------------------------------------------------------------------------------------


def test_a_hosted_tool_without_a_price_is_dropped_if_it_may_be():
    sold = model(prices=prices(tools={"web_search": 0}))
    assert refuse_unpriced(call(hosted_tools=("web_search", "mcp")), sold) == {"mcp"}
    assert refuse_unpriced(call(), sold) == frozenset()


def test_a_hosted_tool_without_a_price_that_is_insisted_on_is_refused():
    asked = call(hosted_tools=("mcp",), tools_optional=False)
    with pytest.raises(BadRequest) as caught:
        refuse_unpriced(asked, model())
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_parameter")
    assert refuse_unpriced(asked, model(prices=prices(tools={"mcp": 5}))) == frozenset()


def test_a_tier_without_a_table_is_refused():
    asked = call(tier="priority", tier_param="service_tier")
    with pytest.raises(BadRequest) as caught:
        refuse_unpriced(asked, model())
    assert (caught.value.param, caught.value.code) == ("service_tier", "unsupported_parameter")
    assert refuse_unpriced(asked, model(tiers=TIERS)) == frozenset()


# -- the bound --------------------------------------------------------------------------------------------------------

PRICE = st.integers(0, 10**12)
TABLE = st.builds(
    Prices,
    input=PRICE,
    output=PRICE,
    cached_input=PRICE,
    cache_write=PRICE,
    cache_write_1h=PRICE,
    tools=st.fixed_dictionaries({"web_search": PRICE}),
)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(table=TABLE, priority=TABLE, data=st.data())
def test_no_usage_within_the_bounds_costs_more_than_the_hold(table, priority, data):
    sold = model(prices=table, tiers={"priority": priority})
    asked = call(
        output_limit=data.draw(st.none() | st.integers(1, 10_000)),
        choices=data.draw(st.integers(1, 4)),
        opaque_input=data.draw(st.booleans()),
        long_cache=data.draw(st.booleans()),
        tier=data.draw(st.sampled_from([None, "priority"])),
        hosted_tools=data.draw(st.sampled_from([(), ("web_search",)])),
    )
    held = quote(asked, data.draw(st.integers(0, 20_000)), sold)
    served = data.draw(st.sampled_from([table] if asked.tier is None else [table, priority]))
    assert charge(data, served, asked, held) <= held.hold_nanos


def charge(data, served, asked, held):
    """Any split of any usage within the bounds, priced by its formula."""
    splits = sorted(data.draw(st.lists(st.integers(0, held.input_bound), min_size=4, max_size=4)))
    plain, cached, written, written_1h = (b - a for a, b in zip([0, *splits[:3]], splits, strict=True))
    if not asked.long_cache:
        written, written_1h = written + written_1h, 0
    tokens = (
        plain * served.input
        + cached * served.cached_input
        + written * served.cache_write
        + written_1h * served.cache_write_1h
        + data.draw(st.integers(0, held.output_bound)) * served.output
    )
    calls = data.draw(st.integers(0, held.tool_bounds.get("web_search", 0)))
    return ceil_div(tokens, 10**6) + calls * served.tools["web_search"]


def test_a_text_body_bounds_its_tokens_by_its_bytes():
    """The most tokens per byte that any tokenizer makes is one: a body of single-byte tokens is still bounded."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 5_000}]}).encode()
    asked = chat.parse("", {}, {}, body)
    sent = chat.encode(asked, model="m", output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=frozenset())
    assert quote(asked, len(sent), model()).input_bound > 5_000
