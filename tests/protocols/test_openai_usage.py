"""Usage objects into counts: vendor spellings, and nothing invented."""

from __future__ import annotations

import json

import msgspec
import pytest

from hoptrio.protocols.openai_usage import chat_counts, embedding_counts, responses_counts

BASE = {"prompt_tokens": 100, "completion_tokens": 5}


def raw(value):
    return msgspec.Raw(json.dumps(value).encode())


def chat(**members):
    return chat_counts(raw(BASE | members), None)


def test_what_is_not_reported_is_unknown():
    counts = chat()
    assert (counts.input, counts.output) == (100, 5)
    assert (counts.total, counts.cached, counts.cache_write, counts.reasoning, counts.tier) == (None,) * 5
    assert counts.tool_calls == {}


@pytest.mark.parametrize(
    "members",
    [
        {"prompt_tokens_details": {"cached_tokens": 60}},
        {"prompt_tokens_details": None, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40},
        {"cached_tokens": 60},
        {"cache_read_input_tokens": 60},
        {"prompt_tokens_details": {"cached_tokens": 0}, "cache_read_input_tokens": 60},
    ],
)
def test_every_spelling_of_the_cached_part_is_read(members):
    assert chat(**members).cached == 60


def test_a_reported_zero_is_not_unknown():
    assert chat(prompt_tokens_details={"cached_tokens": 0}).cached == 0


@pytest.mark.parametrize(
    "members", [{"prompt_tokens_details": {"cache_write_tokens": 7}}, {"cache_creation_input_tokens": 7}]
)
def test_every_spelling_of_a_cache_write_is_read(members):
    assert chat(**members).cache_write == 7


@pytest.mark.parametrize(
    "members", [{"completion_tokens_details": {"reasoning_tokens": 3}}, {"reasoning_tokens": 3, "cost": 0.1}]
)
def test_every_spelling_of_reasoning_is_read(members):
    assert chat(**members).reasoning == 3


def test_case_58_numbers_that_contradict_each_other_are_reported_as_they_are():
    counts = chat_counts(
        raw({"prompt_tokens": 479, "completion_tokens": 373, "total_tokens": 14164, "cached_tokens": 13312}), None
    )
    assert (counts.input, counts.cached, counts.output, counts.total) == (479, 13312, 373, 14164)


def test_hosted_searches_of_a_chat_provider_are_counted():
    assert chat(server_tool_use_details={"web_search_requests": 2}).tool_calls == {"web_search": 2}
    assert chat(server_tool_use_details={"web_search_requests": 0}).tool_calls == {}


def test_the_object_is_kept_as_received():
    data = b'{"prompt_tokens": 1,\n"completion_tokens":2 ,"cost":1e-9}'
    assert chat_counts(msgspec.Raw(data), "flex").raw == data


@pytest.mark.parametrize("value", [{}, {"prompt_tokens": 1}, {"input_tokens": 1}, [], None, "x"])
def test_half_a_usage_is_none(value):
    assert chat_counts(raw(value), None) is None
    assert responses_counts(raw(value), None, tool_calls={}) is None


def test_embeddings_need_their_input_only():
    assert embedding_counts(raw({"prompt_tokens": 8, "total_tokens": 8})).input == 8
    assert embedding_counts(raw({"total_tokens": 8})) is None
