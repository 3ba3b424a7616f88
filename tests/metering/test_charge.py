"""The amount of a usage: exact, rounded up once, never beyond its hold."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.limits import TOKENS_MAX
from hoptrio.metering.charge import Bounds, Charge, charge
from hoptrio.metering.evidence import Flag, Usage, usage
from hoptrio.metering.price import Prices, PriceTables
from hoptrio.protocols.events import Counts, Protocol

PER_MILLION = 10**9
STANDARD = Prices(
    input=1_250_000_000,
    output=10_000_000_000,
    cached_input=125_000_000,
    cache_write=1_562_500_000,
    cache_write_1h=2_500_000_000,
    tools={"web_search": 10_000_000},
)
PRIORITY = Prices(input=2 * PER_MILLION, output=2 * PER_MILLION, cached_input=0, cache_write=0, cache_write_1h=0)
TABLES = PriceTables(STANDARD, {"priority": PRIORITY})
WIDE = Bounds(input_tokens=10**6, output_tokens=10**6, hold_nanos=10**15)


def test_the_interface_pages_example():
    assert charge(Usage(input=14, output=52), TABLES, WIDE) == Charge(537_500)


def test_every_component_has_its_price():
    found = Usage(input=1, cached_input=10, cache_write=100, cache_write_1h=1_000, output=10_000)
    assert charge(found, TABLES, WIDE).amount_nanos == ceil(
        Fraction(1_250 + 10 * 125 + 1_000 * 2_500 + 10_000 * 10_000) + Fraction(100 * 3_125, 2)
    )


def test_fractions_of_a_billionth_are_rounded_up_once():
    tables = PriceTables(Prices(input=1, output=1, cached_input=1, cache_write=1, cache_write_1h=1))
    assert charge(Usage(input=1, cached_input=1, output=1), tables, WIDE).amount_nanos == 1
    assert charge(Usage(input=0, output=0), tables, WIDE).amount_nanos == 0


def test_the_reported_tier_sets_the_price():
    assert charge(Usage(input=1_000, output=1_000, tier="priority"), TABLES, WIDE) == Charge(4_000_000)


def test_an_unknown_tier_is_charged_by_the_standard_table():
    found = charge(Usage(input=14, output=52, tier="turbo"), TABLES, WIDE)
    assert found == Charge(537_500, (Flag.UNKNOWN_TIER,))


def test_tools_are_charged_per_call_and_images_each():
    prices = Prices(
        input=0, output=0, cached_input=0, cache_write=0, cache_write_1h=0, tools={"web_search": 7}, image=40
    )
    found = Usage(input=0, output=0, tool_calls={"web_search": 3}, images=2)
    assert charge(found, PriceTables(prices), WIDE) == Charge(101)


@pytest.mark.parametrize("extra", [{"tool_calls": {"web_fetch": 1}}, {"images": 1}])
def test_what_has_no_price_is_not_charged_but_flagged(extra):
    assert charge(Usage(input=0, output=0, **extra), TABLES, WIDE) == Charge(0, (Flag.UNPRICED,))


def test_each_component_is_bounded():
    bounds = Bounds(input_tokens=10, output_tokens=5, hold_nanos=10**15)
    found = charge(Usage(input=0, output=1_000), TABLES, bounds)
    assert found == Charge(50_000, (Flag.CLAMPED,))
    found = charge(Usage(input=8, cached_input=8, output=0), TABLES, bounds)
    assert found == Charge(8 * 1_250 + 2 * 125, (Flag.CLAMPED,))


def test_tool_calls_and_images_are_bounded_too():
    prices = Prices(
        input=0, output=0, cached_input=0, cache_write=0, cache_write_1h=0, tools={"web_search": 7}, image=40
    )
    found = Usage(input=0, output=0, tool_calls={"web_search": 3}, images=2)
    bounds = Bounds(input_tokens=0, output_tokens=0, hold_nanos=10**9, tool_calls={"web_search": 2}, images=1)
    assert charge(found, PriceTables(prices), bounds) == Charge(54, (Flag.CLAMPED,))
    not_asked_for = Bounds(input_tokens=0, output_tokens=0, hold_nanos=10**9, tool_calls={}, images=2)
    assert charge(found, PriceTables(prices), not_asked_for) == Charge(80, (Flag.CLAMPED,))


def test_tokens_without_a_price_clamp_nothing():
    prices = Prices(input=0, output=0, cached_input=0, cache_write=0, cache_write_1h=0, image=40)
    bounds = Bounds(input_tokens=100, output_tokens=0, hold_nanos=10**9, images=2)
    found = Usage(input=200, output=4_160, images=1)
    assert charge(found, PriceTables(prices), bounds) == Charge(40)


def test_the_hold_is_the_most():
    bounds = Bounds(input_tokens=10**6, output_tokens=10**6, hold_nanos=1_000)
    assert charge(Usage(input=14, output=52), TABLES, bounds) == Charge(1_000, (Flag.CLAMPED,))


def test_flags_of_the_usage_go_along():
    found = charge(Usage(input=14, output=0, flags=(Flag.SUSPECT,)), TABLES, WIDE)
    assert found.flags == (Flag.SUSPECT,)


def test_case_58_cached_input_is_charged_as_cached():
    counts = Counts(input=479, cached=13_312, output=373, total=14_164)
    found = usage(counts, Protocol.CHAT, answered=True)
    assert found is not None
    assert charge(found, TABLES, WIDE) == Charge(479 * 1_250 + 13_312 * 125 + 373 * 10_000)


def test_case_78_a_million_charges_add_up_exactly():
    one = charge(Usage(input=1, cached_input=3, output=1), TABLES, WIDE).amount_nanos
    assert sum(one for _ in range(1_000_000)) == 1_000_000 * (1_250 + 375 + 10_000)


TOKENS = st.integers(0, TOKENS_MAX)
PRICES = st.builds(
    Prices,
    **{name: st.integers(0, 10**15) for name in ("input", "output", "cached_input", "cache_write", "cache_write_1h")},
    tools=st.just({"web_search": 10**7}),
)
USAGES = st.builds(
    Usage,
    input=TOKENS,
    cached_input=TOKENS,
    cache_write=TOKENS,
    cache_write_1h=TOKENS,
    output=TOKENS,
    tool_calls=st.dictionaries(st.sampled_from(["web_search", "web_fetch"]), TOKENS),
    tier=st.sampled_from([None, "priority", "turbo"]),
)
BOUNDS = st.builds(Bounds, input_tokens=TOKENS, output_tokens=TOKENS, hold_nanos=st.integers(0, 2**62))


@given(USAGES, PRICES, PRICES, BOUNDS)
def test_case_67_a_charge_is_an_integer_from_zero_to_the_hold(found, standard, priority, bounds):
    amount_nanos = charge(found, PriceTables(standard, {"priority": priority}), bounds).amount_nanos
    assert type(amount_nanos) is int
    assert 0 <= amount_nanos <= bounds.hold_nanos


@given(USAGES, PRICES)
def test_within_its_bounds_a_charge_is_the_exact_sum_rounded_up(found, prices):
    bounds = Bounds(input_tokens=found.all_input, output_tokens=found.output, hold_nanos=2**200)
    exact = (
        sum(
            Fraction(tokens * price, 10**6)
            for tokens, price in [
                (found.input, prices.input),
                (found.cached_input, prices.cached_input),
                (found.cache_write, prices.cache_write),
                (found.cache_write_1h, prices.cache_write_1h),
                (found.output, prices.output),
            ]
        )
        + found.tool_calls.get("web_search", 0) * 10**7
    )
    assert charge(found, PriceTables(prices), bounds).amount_nanos == ceil(exact)


@given(USAGES, PRICES, st.integers(0, TOKENS_MAX), st.integers(0, TOKENS_MAX))
def test_a_hold_at_the_dearest_price_covers_every_token_charge(found, prices, input_tokens, output_tokens):
    tokens_only = Usage(
        input=found.input, cached_input=found.cached_input, cache_write=found.cache_write, output=found.output
    )
    bounds = Bounds(input_tokens=input_tokens, output_tokens=output_tokens, hold_nanos=2**200)
    hold = ceil(Fraction(input_tokens * prices.dearest_input + output_tokens * prices.output, 10**6))
    assert charge(tokens_only, PriceTables(prices), bounds).amount_nanos <= hold
