"""Parallel tool calls in any interleaving, in any cut: whole, in their order, and in one block after another."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.converting import chat_chunk, convert_stream, payloads, sse
from tests.support.sdks import hear

CLIENTS = ("responses", "messages", "gemini")
texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.dictionaries(
    st.text('ab"\\{}[],: 😀', max_size=4), st.integers() | texts | st.lists(texts, max_size=2), max_size=3
)


def opening(index, arguments=""):
    function = {"name": f"f{index}", "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}


def more(index, arguments):
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}


def stream(deltas, finish="tool_calls"):
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    chunks = [chat_chunk({"role": "assistant", "content": None}), *(chat_chunk(delta) for delta in deltas)]
    return sse([*chunks, chat_chunk({}, finish), chat_chunk(None) | {"choices": [], "usage": counts}], done=True)


@st.composite
def interleavings(draw):
    """(deltas, the calls they make, in the order of their first deltas, the text)."""
    calls = draw(st.lists(values, min_size=1, max_size=4))
    queues = []
    for index, value in enumerate(calls):
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        queues.append([opening(index), *(more(index, piece) for piece in pieces)])
    said = draw(st.lists(texts.filter(bool), max_size=3))
    queues.append([{"content": text} for text in said])
    deltas = []
    while any(queues):
        deltas.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    order = [each["tool_calls"][0]["function"]["name"] for each in deltas if "tool_calls" in each and has_name(each)]
    return deltas, [(name, calls[int(name[1:])]) for name in order], "".join(said)


def has_name(delta):
    return "name" in delta["tool_calls"][0]["function"]


@pytest.mark.parametrize("client", CLIENTS)
@settings(max_examples=40, deadline=None)
@given(interleavings(), st.lists(st.integers(0, 4000), max_size=20))
def test_every_call_is_whole_and_in_order(client, interleaving, places):
    deltas, calls, said = interleaving
    raw = stream(deltas)
    converted = convert_stream(raw, "chat", client, cuts=[place % len(raw) for place in places])
    assert converted.reader.unconvertible == ""
    heard = hear(client, converted.wire)
    assert heard.calls == calls
    assert heard.ids == tuple(f"call_{name[1:]}" for name, _ in calls)
    assert heard.text == said
    assert_one_block_at_a_time(client, payloads(converted.wire))


def assert_one_block_at_a_time(client, events):
    """An index is opened once, continued only while it is open, and closed before the next."""
    opened = None
    seen = []
    if client == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events if client != "gemini" else ():
        kind = event["type"]
        index = event.get("index", event.get("output_index"))
        if kind in ("content_block_start", "response.output_item.added"):
            assert opened is None
            opened = index
            seen.append(index)
        elif kind in ("content_block_stop", "response.output_item.done"):
            assert opened == index
            opened = None
        elif index is not None:
            assert opened == index
    assert opened is None
    assert seen == list(range(len(seen)))


@pytest.mark.parametrize("client", ["responses", "messages"])
def test_case_91_calls_one_after_another_never_wait(client):
    deltas = [opening(0), more(0, '{"x":'), more(0, "1}"), opening(1), more(1, '{"y":'), more(1, "2}")]
    steps = convert_stream(stream(deltas), "chat", client).steps
    assert all(step.wire for step in steps[1:7])


def test_a_second_call_streams_as_soon_as_the_first_is_whole():
    deltas = [opening(0, '{"x"'), opening(1, '{"y"'), more(0, ":1}"), more(1, ":2}")]
    steps = convert_stream(stream(deltas), "chat", "messages").steps
    assert [step.wire.count(b"partial_json") for step in steps[1:5]] == [1, 0, 2, 1]


def test_what_comes_for_a_closed_call_cannot_be_expressed():
    deltas = [opening(0, '{"x":1}'), opening(1, '{"y":2}'), more(0, '{"z":3}')]
    converted = convert_stream(stream(deltas), "chat", "messages")
    assert converted.reader.unconvertible
    assert converted.reader.patience_s == 0
    assert not converted.complete
    assert b"message_stop" not in converted.wire


def test_white_space_for_a_closed_call_is_nothing():
    deltas = [opening(0, '{"x":1}'), opening(1, '{"y":2}'), more(0, " \n")]
    assert convert_stream(stream(deltas), "chat", "messages").complete


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_without_arguments_has_the_empty_object(client):
    heard = hear(client, convert_stream(stream([opening(0), opening(1)]), "chat", client).wire)
    assert heard.calls == [("f0", {}), ("f1", {})]


def test_case_40_half_a_call_is_never_given_whole():
    cut = stream([{"content": "a"}, opening(0, '{"command":"rm -r /tmp')], finish="length")
    converted = convert_stream(cut, "chat", "gemini")
    assert hear("gemini", converted.wire).calls == []
    assert hear("gemini", converted.wire).finish == "length"
    odd = stream([opening(0, '{"command":"rm')])
    assert hear("gemini", convert_stream(odd, "chat", "gemini").wire).finish == "MALFORMED_FUNCTION_CALL"
