"""What reported counts mean: contract page, "Evidence per protocol"."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.limits import TOKENS_MAX
from hoptrio.metering.evidence import Flag, Usage, usage
from hoptrio.protocols.events import Counts, Protocol

CHAT, MESSAGES, GEMINI = Protocol.CHAT, Protocol.MESSAGES, Protocol.GEMINI


def meant(protocol=CHAT, *, answered=True, **counts) -> Usage:
    found = usage(Counts(**counts), protocol, answered=answered)
    assert found is not None
    return found


def test_openai_counts_cached_and_written_input_inside():
    found = meant(input=1_000, cached=600, cache_write=100, output=50, total=1_050, reasoning=20)
    assert found == Usage(input=300, cached_input=600, cache_write=100, output=50, reasoning=20)


def test_anthropic_counts_cached_and_written_input_beside():
    found = meant(MESSAGES, input=9, cached=17_269, cache_write=37, cache_write_1h=30, output=10)
    assert found == Usage(input=9, cached_input=17_269, cache_write=7, cache_write_1h=30, output=10)


def test_gemini_counts_thoughts_and_the_tool_prompt_beside():
    found = meant(GEMINI, input=147, tool_input=360, output=108, reasoning=168, total=783)
    assert found == Usage(input=507, output=276, reasoning=168)


def test_gemini_counts_cached_input_inside():
    found = meant(GEMINI, input=1_087, cached=1_081, output=2, total=1_089)
    assert found == Usage(input=6, cached_input=1_081, output=2)


def test_case_58_the_total_says_that_cached_input_is_beside():
    found = meant(input=479, cached=13_312, output=373, total=14_164)
    assert found == Usage(input=479, cached_input=13_312, output=373)


def test_case_64_thoughts_are_output():
    assert meant(GEMINI, input=41, output=5, reasoning=343, total=389).output == 348


def test_reasoning_that_explains_the_total_is_output():
    found = meant(input=10, output=5, reasoning=100, total=115)
    assert found == Usage(input=10, output=105, reasoning=100)


def test_cached_input_and_reasoning_can_both_be_beside():
    found = meant(input=10, cached=40, output=5, reasoning=100, total=155)
    assert found == Usage(input=10, cached_input=40, output=105, reasoning=100)


def test_a_total_that_nothing_explains_is_a_mismatch():
    assert meant(input=10, output=5, total=99) == Usage(input=10, output=5, flags=(Flag.MISMATCH,))
    assert meant(input=10, output=5, total=3).flags == (Flag.MISMATCH,)


def test_cached_input_beyond_the_input_is_beside_where_no_total_speaks():
    found = meant(input=479, cached=13_312, output=373)
    assert found == Usage(input=479, cached_input=13_312, output=373, flags=(Flag.MISMATCH,))


def test_cached_input_beyond_the_input_is_cut_where_the_total_says_inside():
    found = meant(input=479, cached=13_312, output=373, total=852)
    assert found == Usage(input=0, cached_input=479, output=373, flags=(Flag.MISMATCH,))


def test_a_long_lived_part_beyond_what_was_written_is_cut():
    found = meant(MESSAGES, input=1, cache_write=10, cache_write_1h=30, output=1)
    assert (found.cache_write, found.cache_write_1h, found.flags) == (0, 10, (Flag.MISMATCH,))


def test_zero_output_after_an_answer_is_suspect():
    assert meant(input=10, output=0).flags == (Flag.SUSPECT,)
    assert meant(input=10, output=0, answered=False).flags == ()


@pytest.mark.parametrize("counts", [{}, {"input": 5}, {"output": 5}, {"total": 9}, {"input": 5, "total": 9}])
def test_missing_is_not_zero(counts):
    assert usage(Counts(**counts), CHAT, answered=True) is None


def test_embeddings_have_no_output_to_report():
    assert meant(input=8, total=8, answered=False) == Usage(input=8, output=0)


def test_images_may_be_all_that_is_reported():
    assert meant(images=2) == Usage(input=0, output=0, images=2)


@pytest.mark.parametrize(("reported", "table"), [("default", None), ("standard", None), (None, None), ("Flex", "flex")])
def test_a_reported_tier_names_its_table(reported, table):
    assert meant(input=1, output=1, tier=reported).tier == table


TOKENS = st.none() | st.integers(0, 50) | st.integers(0, TOKENS_MAX)
COUNTS = st.builds(
    Counts,
    input=TOKENS,
    output=TOKENS,
    total=TOKENS,
    cached=TOKENS,
    cache_write=TOKENS,
    cache_write_1h=TOKENS,
    reasoning=TOKENS,
    tool_input=TOKENS,
)


@given(COUNTS, st.sampled_from(Protocol), st.booleans())
def test_no_component_is_ever_negative(counts, protocol, answered):
    found = usage(counts, protocol, answered=answered)
    if found is None:
        return
    parts = (found.input, found.cached_input, found.cache_write, found.cache_write_1h, found.output, found.reasoning)
    assert all(type(part) is int and part >= 0 for part in parts)
    assert found.reasoning <= found.output


@given(COUNTS, st.sampled_from([CHAT, GEMINI]))
def test_a_usage_that_agrees_with_its_total_adds_up_to_it(counts, protocol):
    found = usage(counts, protocol, answered=False)
    if found is not None and counts.total is not None and Flag.MISMATCH not in found.flags:
        assert found.all_input + found.output == counts.total
