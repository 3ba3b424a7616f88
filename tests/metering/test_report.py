"""The usage object that callers see."""

from __future__ import annotations

import json

from hoptrio.metering.evidence import Usage
from hoptrio.metering.report import usage_json


def test_input_is_shown_without_cached_and_written_tokens_and_output_with_reasoning():
    shown = usage_json(Usage(input=14, cached_input=5, cache_write=3, cache_write_1h=4, output=52, reasoning=20))
    assert json.loads(shown) == {
        "input_tokens": 14,
        "cached_input_tokens": 5,
        "cache_write_tokens": 7,
        "output_tokens": 52,
        "reasoning_tokens": 20,
    }
