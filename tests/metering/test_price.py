"""Price tables: what is pinned is what is unpinned, and a sum is rounded up once."""

from __future__ import annotations

import msgspec
import pytest

from hoptrio.metering.price import Prices, pin, total_nanos, unpin

STANDARD = Prices(input=1_250, output=10_000, cached_input=125, cache_write=1_562, cache_write_1h=2_500)
PRIORITY = Prices(
    input=2_500, output=20_000, cached_input=250, cache_write=3_125, cache_write_1h=5_000, tools={"web_search": 7}
)


def test_pinned_tables_come_back_as_they_were():
    tables = unpin(pin(STANDARD, {"priority": PRIORITY}))
    assert tables.standard == STANDARD
    assert tables.tiers == {"priority": PRIORITY}


def test_case_67_a_negative_price_is_refused():
    pinned = pin(STANDARD, {}).replace("10000", "-1")
    with pytest.raises(msgspec.ValidationError):
        unpin(pinned)


def test_the_dearest_input_price_counts_cache_writes():
    assert STANDARD.dearest_input == 2_500


def test_a_sum_is_rounded_up_once():
    third = (1, 333_334)
    assert total_nanos([third]) == 1
    assert total_nanos([third, third, third]) == 2
    assert total_nanos([(3, 1_000_000)], whole_nanos=5) == 8
    assert total_nanos([]) == 0
