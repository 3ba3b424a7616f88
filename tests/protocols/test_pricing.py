"""Fields that change the price: a tier, the standard price, or a refusal."""

from __future__ import annotations

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.pricing import STANDARD, Tier, refuse, tier_of

FIELDS = ("service_tier", "speed")


@pytest.mark.parametrize("body", [{}, {"service_tier": None}, {"service_tier": "auto"}, {"speed": "standard"}])
def test_auto_leaves_the_choice_to_the_provider(body):
    assert tier_of(body, FIELDS, automatic=True) == Tier(None, "", open=True)


@pytest.mark.parametrize("value", sorted(STANDARD))
def test_a_standard_value_pins_the_standard_price(value):
    assert tier_of({"service_tier": value}, FIELDS, automatic=True) == Tier(None, "", open=False)


@pytest.mark.parametrize(
    ("body", "tier", "param"),
    [
        ({"service_tier": "priority"}, "priority", "service_tier"),
        ({"service_tier": "fast"}, "priority", "service_tier"),
        ({"service_tier": "FLEX"}, "flex", "service_tier"),
        ({"speed": "fast"}, "fast", "speed"),
        ({"speed": "fast", "service_tier": "standard_only"}, "fast", "speed"),
    ],
)
def test_a_tier_is_named_as_answers_report_it(body, tier, param):
    assert tier_of(body, FIELDS, automatic=True) == Tier(tier, param, open=False)


@pytest.mark.parametrize("body", [{"service_tier": 1}, {"speed": ["fast"]}, {"speed": "fast", "service_tier": "flex"}])
def test_a_tier_that_names_no_one_price_is_refused(body):
    with pytest.raises(BadRequest):
        tier_of(body, FIELDS, automatic=True)


def test_a_refused_field_passes_with_a_value_that_changes_nothing():
    table = {"background": (False,), "models": ([],), "audio": ()}
    refuse({"background": False, "models": [], "audio": None, "other": 1}, table)
    for field in ({"background": True}, {"models": ["a"]}, {"audio": {}}):
        with pytest.raises(BadRequest) as caught:
            refuse(field, table)
        assert (caught.value.param, caught.value.code) == (next(iter(field)), "unsupported_parameter")
