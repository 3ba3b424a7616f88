"""The tokenizer against counts written down from another one of the same vocabulary."""

from __future__ import annotations

import pytest

from hoptrio.metering.tokens import count_tokens

COUNTS = {
    "": 0,
    "Hello": 1,
    "The quick brown fox jumps over the lazy dog.": 10,
    '{"city":"Paris"}': 5,
    "print(1)": 4,
    "你好世界😀": 3,
    " " * 2_000_000: 15_625,
    "a" * 2_000_000: 250_000,
}


@pytest.mark.parametrize(
    "text", COUNTS, ids=lambda text: f"{text[:12]}...{len(text)}" if len(text) > 60 else text or "empty"
)
def test_a_text_has_the_tokens_of_its_vocabulary(text):
    assert count_tokens([text]) == COUNTS[text]


def test_texts_are_counted_each_by_itself():
    assert count_tokens(["Hel", "lo"]) == 2
    assert count_tokens([]) == 0


def test_names_of_special_tokens_are_words_like_others():
    """A caller who writes them may not make an answer cheaper, or fail its settlement."""
    assert count_tokens(["<|endoftext|>"]) > 1
