"""The walk over words: whatever a stranger sends, it neither raises nor takes bytes for words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.protocols.registry import RULES
from hoptrio.protocols.texts import asked, is_answer, texts

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
