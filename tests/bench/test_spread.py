"""The figures of many values, by what must be true of them."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.job import Spread
from bench.spread import median, median_ratio, middle, spread
from bench.summary import added

VALUES = st.lists(st.integers(0, 10**9), min_size=1, max_size=120)


@settings(max_examples=30)
@given(VALUES)
def test_quantiles_are_values_that_were_seen_and_rise(values: list[int]) -> None:
    found = spread(values)
    assert set(found.points) <= set(values)
    assert list(found.points) == sorted(found.points)
    assert (found.points[0], found.max) == (min(values), max(values))
    assert found.count == len(values)


@settings(max_examples=30)
@given(VALUES)
def test_as_many_values_are_below_a_quantile_as_it_says(values: list[int]) -> None:
    found = spread(values)
    for percent, point in ((50, found.p50), (99, found.p99)):
        below = sum(each < point for each in values) / len(values)
        upto = sum(each <= point for each in values) / len(values)
        slack = 1 / len(values)
        assert below - slack <= percent / 100 <= upto + slack


@settings(max_examples=30)
@given(VALUES, st.randoms())
def test_the_order_of_the_values_says_nothing(values: list[int], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert spread(shuffled) == spread(values)


def test_nothing_has_no_quantiles() -> None:
    assert spread([]) == Spread(0, ())
    assert (spread([]).p50, spread([]).max) == (0.0, 0.0)
    assert median([]) == 0.0


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=1, max_size=9), st.integers(1, 50))
def test_what_slows_a_whole_round_is_not_in_the_ratio(rounds: list[tuple[int, int]], slower: int) -> None:
    ours, base = [a for a, _ in rounds], [b for _, b in rounds]
    slowed = [value * slower for value in (ours[0], base[0])]
    assert median_ratio(ours, base) == pytest.approx(median_ratio([slowed[0], *ours[1:]], [slowed[1], *base[1:]]))


def test_a_ratio_needs_a_base() -> None:
    assert median_ratio([1.0], []) is None
    assert median_ratio([1.0, 6.0], [0.0, 2.0]) == 3.0


@settings(max_examples=30)
@given(st.lists(VALUES, min_size=1, max_size=5))
def test_the_middle_of_rounds_is_the_median_of_each_quantile(rounds: list[list[int]]) -> None:
    spreads = [spread(each) for each in rounds]
    found = middle([*spreads, Spread(0, ())])
    assert found.p50 == statistics.median(each.p50 for each in spreads)
    assert found.count == sum(map(len, rounds))


@settings(max_examples=30)
@given(VALUES, st.integers(0, 10**6))
def test_a_gateway_that_takes_the_same_longer_for_all_adds_that(values: list[int], longer: int) -> None:
    found = added([spread(each + longer for each in values)], [spread(values)])
    assert found is not None
    assert [pytest.approx(longer / 1e6)] * 3 == list(found)


def test_without_direct_nothing_is_added() -> None:
    assert added([spread([1])], []) is None
