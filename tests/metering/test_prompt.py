"""Requests counted where no provider does."""

from __future__ import annotations

from hoptrio import limits
from hoptrio.limits import ATTACHMENT_TOKENS, TURN_TOKENS
from hoptrio.metering import prompt
from hoptrio.metering.prompt import prompt_tokens
from hoptrio.metering.tokens import count_tokens

TOOL = {"name": "weather", "description": "The weather", "input_schema": {"type": "object"}}


def said(content):
    return {"messages": [{"role": "user", "content": content}]}


def test_words_are_counted_by_the_tokenizer_and_each_turn_by_a_flat_figure():
    text = "How many tokens are these?"
    assert prompt_tokens(said(text)) == count_tokens([text]) + TURN_TOKENS
    twice = {"messages": [*said(text)["messages"], *said("x")["messages"]]}
    assert prompt_tokens(twice) == count_tokens([text, "x"]) + 2 * TURN_TOKENS


def test_instructions_and_tools_count():
    alone = prompt_tokens(said("hello"))
    assert prompt_tokens({**said("hello"), "system": "Be brief."}) == alone + count_tokens(["Be brief."])
    assert prompt_tokens({**said("hello"), "tools": [TOOL]}) > alone + count_tokens(["weather", "The weather"])


def test_a_picture_has_a_flat_figure_whatever_its_bytes():
    small, large = (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * size}}
        for size in (1, 10_000)
    )
    assert prompt_tokens(said([small])) == prompt_tokens(said([large])) == ATTACHMENT_TOKENS + TURN_TOKENS


def test_words_beyond_the_bound_are_taken_to_be_like_those_before(monkeypatch):
    word = "hello "
    whole = prompt_tokens(said(word * 300))
    monkeypatch.setattr(prompt, "ASKED_BYTES_MAX", len(word) * 100)
    assert len(word) * 300 < limits.ASKED_BYTES_MAX
    assert abs(prompt_tokens(said(word * 300)) - whole) <= 3
