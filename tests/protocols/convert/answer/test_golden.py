"""The golden streams in every direction: official accumulators get the same of the converted bytes as the provider's
own gets of the original ones."""

from __future__ import annotations

import pytest

from tests.support.converting import DIRECTIONS, GOLDEN, convert_stream, payloads
from tests.support.sdks import hear

each_direction = pytest.mark.parametrize(("channel", "client"), DIRECTIONS)


@each_direction
def test_a_clients_sdk_hears_what_the_providers_own_hears(channel, client):
    original = hear(channel, GOLDEN[channel])
    converted = hear(client, convert_stream(GOLDEN[channel], channel, client).wire)
    assert converted == original
    assert converted.calls
    assert converted.text.startswith("Hello")
    assert converted.reasoning in ("think", "plan")


@each_direction
def test_the_terminal_is_held_back_to_the_last(channel, client):
    stream = convert_stream(GOLDEN[channel], channel, client)
    held = stream.steps[-1].wire if channel != "gemini" else stream.reader.finish(clean=True).wire
    assert stream.complete
    assert not any(is_terminal(each) for each in payloads(stream.wire)[:-1])
    assert is_terminal(payloads(stream.wire)[-1])
    assert channel == "gemini" or stream.wire.endswith(held)


def is_terminal(value):
    if value == b"[DONE]" or value.get("type") in ("message_stop", "response.completed"):
        return True
    return any(each.get("finishReason") for each in value.get("candidates", []))


def test_chat_as_responses_is_the_canonical_order():
    events = payloads(convert_stream(GOLDEN["chat"], "chat", "responses").wire)
    item = ["response.output_item.added", "response.output_item.done"]
    summary = [f"response.reasoning_summary_{each}" for each in ("part.added", "text.delta", "text.done", "part.done")]
    text = ["response.content_part.added", "response.output_text.delta", "response.output_text.done"]
    call = ["response.function_call_arguments.delta", "response.function_call_arguments.done"]
    assert [event["type"] for event in events] == [
        *("response.created", "response.in_progress"),
        *(item[0], *summary, item[1]),
        *(item[0], *text, "response.content_part.done", item[1]),
        *(item[0], call[0], *call, item[1]),
        *(item[0], *call, item[1]),
        "response.completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event["item"] for event in events if event["type"] == item[1]]
    assert events[-1]["response"]["output"] == done
    assert {event["response"]["id"] for event in events if "response" in event} == {events[0]["response"]["id"]}


def test_case_41_what_is_done_repeats_its_deltas():
    for event in payloads(convert_stream(GOLDEN["chat"], "chat", "responses").wire):
        if event["type"] == "response.output_text.done":
            assert event["text"] == "Hello"
        if event["type"] == "response.function_call_arguments.done":
            assert event["arguments"] in ('{"x":1}', "{}")


def test_chat_as_messages_tells_the_usage_at_the_end():
    events = payloads(convert_stream(GOLDEN["chat"], "chat", "messages").wire)
    assert events[0]["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert events[-2]["usage"]["input_tokens"] == 2
    assert events[-2]["usage"]["cache_read_input_tokens"] == 3
    assert events[-2]["usage"]["output_tokens"] == 2
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_case_61_the_usage_chunk_is_the_clients_wish_and_has_no_choices():
    asked = payloads(convert_stream(GOLDEN["messages"], "messages", "chat").wire)
    assert asked[-2]["choices"] == []
    assert asked[-2]["usage"]["total_tokens"] == 19
    assert all(chunk["usage"] is None for chunk in asked[:-2])
    silent = payloads(convert_stream(GOLDEN["messages"], "messages", "chat", usage_asked=False).wire)
    assert not any("usage" in chunk for chunk in silent[:-1])
    assert len(silent) == len(asked) - 1


def test_chat_deltas_repeat_neither_role_nor_id_nor_name():
    chunks = payloads(convert_stream(GOLDEN["responses"], "responses", "chat").wire)[:-2]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert sum("role" in delta for delta in deltas) == 1
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [call.get("id") for call in calls] == ["call_a", None]
    assert [call["function"].get("name") for call in calls] == ["f", None]


@each_direction
def test_ids_are_our_own_and_one_an_answer(channel, client):
    wire = convert_stream(GOLDEN[channel], channel, client).wire
    other = convert_stream(GOLDEN[channel], channel, client).wire
    for provider_id in (b'"chatcmpl-1"', b'"resp_1"', b'"msg_1"', b'"r1"', b'"rs_1"', b'"fc_1"'):
        assert provider_id not in wire
    assert wire != other


@pytest.mark.parametrize("client", ["messages", "gemini"])
def test_thinking_is_shown_to_none_who_did_not_ask(client):
    wire = convert_stream(GOLDEN["chat"], "chat", client, body={}).wire
    assert b'"think"' not in wire
    assert hear(client, wire).text == "Hello"
