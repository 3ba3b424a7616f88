"""The walk over words: whatever a stranger sends, it neither raises nor takes bytes for words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.protocols.registry import RULES
from hoptrio.protocols.texts import asked, attachments, is_answer, texts, token_ids, turns

NAMES = (
    *("choices", "delta", "message", "content", "text", "index", "type", "output", "item", "parts", "candidates"),
    *("tool_calls", "function", "arguments", "input", "reasoning", "reasoning_details", "content_block"),
    *("output_index", "usage", "data", "media_type"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "fox", "message", "response.x.delta"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(values)
@pytest.mark.parametrize("protocol", RULES)
def test_no_json_of_a_provider_raises(protocol, value):
    data = json.dumps(value).encode()
    for _, pieces, _ in RULES[protocol].said(data):
        assert all(isinstance(text, str) and text for _, text in pieces)
    is_answer(data)


@given(st.dictionaries(st.sampled_from(["messages", "input", "contents", "system", "tools"]), values))
def test_no_request_raises(body):
    assert all(isinstance(text, str) for text in asked(body))


@pytest.mark.parametrize("data", [b"", b"[DONE]", b"{", b"\xff", b"null", b"[]", b'"x"', b"[" * 5000])
@pytest.mark.parametrize("protocol", RULES)
def test_what_is_no_json_object_says_nothing(protocol, data):
    assert RULES[protocol].said(data) == []
    assert not is_answer(data)


def test_a_stranger_cannot_exhaust_the_stack():
    value = "fox"
    for _ in range(900):
        value = {"content": value}
    assert list(texts(value)) == []


@pytest.mark.parametrize(
    "value",
    [
        {"image_url": {"url": "data:AAAA"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "reasoning", "encrypted_content": "AAAA"},
        {"signature": "AAAA"},
        {"id": "call_1", "role": "assistant", "status": "completed"},
        {"type": "reasoning.encrypted", "data": "AAAA"},
    ],
    ids=json.dumps,
)
def test_bytes_ids_and_signatures_are_no_words(value):
    assert list(texts({"content": [value]})) == []


def test_a_text_document_is_words():
    assert list(texts({"type": "text", "media_type": "text/plain", "data": "fox"})) == [(".data", "fox")]


def test_a_document_in_plain_text_is_words():
    source = {"type": "text", "media_type": "text/plain", "data": "the words"}
    body = {"messages": [{"role": "user", "content": [{"type": "document", "source": source}]}]}
    assert list(asked(body)) == ["the words"]
    assert attachments(body) == 0


PICTURE = {"type": "base64", "media_type": "image/png", "data": "QUJD"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"content": [{"type": "image", "source": PICTURE}]}]},
        {"messages": [{"content": [{"type": "tool_result", "content": [{"type": "image", "source": PICTURE}]}]}]},
        {"messages": [{"content": [{"type": "document", "source": PICTURE | {"media_type": "application/pdf"}}]}]},
        {"messages": [], "system": [{"type": "image", "source": PICTURE}]},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/b.png"}]}]},
        {"input": [{"type": "function_call_output", "output": [{"type": "input_file", "file_data": "data:"}]}]},
        {"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]}]},
        {"contents": [{"parts": {"file_data": {"file_uri": "https://a.example/b.png"}}}]},
    ],
)
def test_what_is_no_words_is_counted_and_not_read(body):
    assert attachments(body) == 1
    assert "QUJD" not in "".join(asked(body))


@given(values)
def test_no_request_can_make_the_walk_fail(value):
    body = {"messages": value, "contents": value, "input": value, "system": value}
    assert attachments(body) >= 0
    assert turns(body) >= 0
    assert token_ids(body) >= 0


def test_turns_are_messages_contents_or_items():
    assert turns({"messages": [{}, {}], "system": "x"}) == 2
    assert turns({"contents": [{}]}) == turns({"input": "hello"}) == 1
    assert turns({"input": ""}) == 0


def test_tokens_given_by_number_are_counted_as_they_are():
    assert token_ids({"input": [1, 2, 3]}) == 3
    assert token_ids({"input": [[1, 2], [3]]}) == 3
    assert token_ids({"input": "one"}) == token_ids({"input": ["one", "two"]}) == token_ids({}) == 0
