"""How a converted stream fails: the provider's error told once, ours fitting what was sent, never a terminal."""

from __future__ import annotations

import json
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import UpstreamFailed
from hoptrio.protocols.convert import ConvertingReader, possible
from hoptrio.protocols.events import Framing, Kind, Protocol, SseEvent
from tests.support.converting import (
    DIRECTIONS,
    GOLDEN,
    RESP,
    chat_chunk,
    convert_stream,
    converting,
    cut_at,
    named,
    native,
    payloads,
    sse,
)

ERRORS = {
    "chat": sse([{"error": {"message": "boom", "type": "server_error", "param": None, "code": 503}}]),
    "responses": named([{"type": "error", "code": "rate_limit_exceeded", "message": "boom", "param": None}]),
    "messages": named([{"type": "error", "error": {"type": "overloaded_error", "message": "boom"}}]),
    "gemini": sse([{"error": {"code": 503, "message": "boom", "status": "UNAVAILABLE"}}]),
}
each_direction = pytest.mark.parametrize(("channel", "client"), DIRECTIONS)


def beginning(channel):
    """The golden stream up to its text."""
    blocks = GOLDEN[channel].split(b"\n\n")
    at = next(at for at, block in enumerate(blocks) if b"Hello" in block)
    return b"\n\n".join(blocks[: at + 1]) + b"\n\n"


def is_error(event):
    return bool(event.get("error")) or event.get("type") == "response.failed"


@each_direction
@pytest.mark.parametrize("begun", [True, False])
def test_a_providers_error_is_told_once_in_the_clients_words(channel, client, begun):
    raw = (beginning(channel) if begun else b"") + ERRORS[channel]
    stream = convert_stream(raw, channel, client)
    events = payloads(stream.wire)
    assert stream.kinds[-1] is Kind.FAILURE
    assert [is_error(event) for event in events] == [False] * (len(events) - 1) + [True]
    assert not stream.complete
    assert b"boom" not in stream.wire
    if client == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[0]["type"] == "response.created"
        assert events[-1]["response"]["id"] == events[0]["response"]["id"]


def test_an_error_of_responses_is_not_told_again_with_its_failed():
    failed = named([{"type": "response.failed", "response": RESP | {"status": "failed", "error": {"code": "x"}}}])
    reader = converting("responses", "chat")
    events = cut_at(beginning("responses") + ERRORS["responses"])
    told = [reader.feed(event) for event in events][-1]
    assert (told.kind, reader.patience_s) == (Kind.FAILURE, limits.RESPONSES_FAILED_S)
    assert reader.failure(Reason.PROVIDER_ERROR, UpstreamFailed("x")) == b""
    assert reader.feed(cut_at(failed)[0]).wire == b""
    assert reader.patience_s == 0


@each_direction
def test_our_own_failure_fits_what_was_sent(channel, client):
    reader = converting(channel, client)
    sent = b"".join(reader.feed(event).wire for event in cut_at(beginning(channel)))
    events = payloads(sent + reader.failure(Reason.STALLED, UpstreamFailed("too slow")))
    assert is_error(events[-1])
    if client == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert len({event["response"]["id"] for event in events if "response" in event}) == 1


@each_direction
def test_a_failure_in_place_of_a_terminal_that_was_held_back_fits_too(channel, client):
    reader = converting(channel, client)
    steps = [reader.feed(event) for event in cut_at(GOLDEN[channel])]
    reader.finish(clean=True)
    sent = b"".join(step.wire for step in steps if step.kind is not Kind.TERMINAL)
    events = payloads(sent + reader.failure(Reason.INTERNAL, UpstreamFailed("not settled")))
    assert is_error(events[-1])
    if client == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_the_exact_words_for_a_messages_client_whose_stream_broke_off():
    event = payloads(converting("chat", "messages").failure(Reason.TRUNCATED, UpstreamFailed("x")))[0]
    assert event["error"] == {"type": "api_error", "message": "Response stream interrupted, please retry"}


@pytest.mark.parametrize("channel", ["chat", "responses", "messages"])
def test_the_array_form_is_one_array(channel):
    stream = convert_stream(GOLDEN[channel], channel, "gemini", framing=Framing.JSON_ARRAY)
    elements = json.loads(stream.wire)
    assert elements == payloads_without_ids(elements, convert_stream(GOLDEN[channel], channel, "gemini").wire)


def payloads_without_ids(elements, wire):
    return [event | {"responseId": elements[0]["responseId"]} for event in payloads(wire)]


@pytest.mark.parametrize("channel", ["chat", "responses", "messages"])
def test_a_failure_is_an_element_behind_those_that_were_sent(channel):
    reader = converting(channel, "gemini", framing=Framing.JSON_ARRAY)
    steps = [reader.feed(event) for event in cut_at(GOLDEN[channel])]
    sent = b"".join(step.wire for step in steps if step.kind is not Kind.TERMINAL)
    failed = json.loads(sent + reader.failure(Reason.INTERNAL, UpstreamFailed("x")) + b"]")
    assert "error" in failed[-1]


@each_direction
@settings(max_examples=30, deadline=None)
@given(share=st.floats(0, 1))
def test_case_42_a_stream_cut_anywhere_has_no_terminal_unless_it_was_complete(channel, client, share):
    raw = GOLDEN[channel][: int(share * len(GOLDEN[channel]))]
    stream = convert_stream(raw, channel, client, clean=False)
    reader = native(channel)
    for event in cut_at(raw):
        reader.feed(event)
    assert stream.complete == reader.finish(clean=False).complete
    ended = any(mark in stream.wire for mark in (b"[DONE]", b"message_stop", b"response.completed", b"finishReason"))
    assert ended == stream.complete


@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_what_memory_an_answer_may_take_is_bounded(client, monkeypatch):
    monkeypatch.setattr(sys.modules[ConvertingReader.__module__], "CONVERTED_BYTES_MAX", 2_000)
    stream = convert_stream(sse([chat_chunk({"content": "x" * 100})] * 20, done=True), "chat", client)
    assert stream.reader.unconvertible == "an answer beyond the size limit"
    assert not stream.complete


MEMBERS = """choices index delta message content tool_calls id function name arguments finish_reason usage error type
    output_index item response output text annotations content_block partial_json input candidates parts functionCall
    args partialArgs jsonPath stringValue promptFeedback blockReason finishReason custom logprobs images image_url
    inlineData summary encrypted_content status incomplete_details reason stop_reason thinking signature""".split()  # noqa: SIM905
TYPES = """response.created response.output_item.added response.output_item.done response.output_text.delta error
    response.function_call_arguments.delta response.function_call_arguments.done response.completed response.failed
    message_start content_block_start content_block_delta content_block_stop message_delta message_stop function_call
    message reasoning tool_use text thinking redacted_thinking url_citation image_url""".split()  # noqa: SIM905


def anything(chance, depth=3):
    """A JSON value; texts hold line ends and half characters."""
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(3))]
    if kind == 6:
        return {chance.choice(MEMBERS): anything(chance, depth - 1) for _ in range(chance.randrange(4))}
    return (None, True, chance.randrange(-5, 5), "".join(chance.choices("a\ud800\n{", k=2)), chance.choice(TYPES))[kind]


def strange_events(seed):
    """A golden stream with members replaced by anything."""
    chance = random.Random(seed)
    channel = chance.choice([channel.value for channel in Protocol])
    events = []
    for event in cut_at(GOLDEN[channel]):
        value = {chance.choice(MEMBERS): anything(chance) for _ in range(chance.randrange(4))}
        if chance.randrange(2):
            value["type"] = chance.choice(TYPES)
        if chance.randrange(2) and event.data[:1] == b"{":
            value = json.loads(event.data) | value
        events.append(SseEvent(event.name, json.dumps(value).encode()) if chance.randrange(3) else event)
    return channel, events


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_nothing_that_a_provider_sends_raises(seed):
    channel, events = strange_events(seed)
    for client in Protocol:
        if not possible(client, Protocol(channel), stream=True):
            continue
        reader = converting(channel, client.value)
        wire = b"".join(reader.feed(event).wire for event in events) + reader.finish(clean=True).wire
        for event in payloads(wire):
            assert event
