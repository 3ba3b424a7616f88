"""Whole answers for clients of other protocols that do not stream."""

from __future__ import annotations

import json

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from hoptrio.metering.evidence import usage
from hoptrio.protocols.convert import possible, read
from hoptrio.protocols.convert.carrier import unpack
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from tests.support.converting import bodies, call, chat_chunk, convert_body, convert_stream, payloads, sse

PAIRS = [(a.value, b.value) for a in Protocol for b in Protocol if possible(b, a, stream=False)]
each_pair = pytest.mark.parametrize(("channel", "client"), PAIRS)


def test_a_chat_client_gets_whole_answers_from_gemini_but_no_stream():
    assert ("gemini", "chat") in PAIRS
    assert not possible(Protocol.CHAT, Protocol.GEMINI, stream=True)
    assert not any(possible(each, each, stream=False) for each in Protocol)


def read_by_sdk(client, body):
    """(text, calls, reasoning) by the SDK's own model, validated."""
    if client == "chat":
        message = ChatCompletion.model_validate(body).choices[0].message
        calls = [(each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls]
        return message.content, calls, message.reasoning_content
    if client == "responses":
        answer = Response.model_validate(body)
        items = {item.type: item for item in answer.output}
        called = items["function_call"]
        summary = "".join(part.text for item in answer.output if item.type == "reasoning" for part in item.summary)
        return answer.output_text, [(called.name, json.loads(called.arguments))], summary
    if client == "messages":
        blocks = {block.type: block for block in Message.model_validate(body).content}
        thinking = "".join(block["thinking"] for block in body["content"] if block["type"] == "thinking")
        return blocks["text"].text, [(blocks["tool_use"].name, blocks["tool_use"].input)], thinking
    answer = GenerateContentResponse.model_validate(body)
    thoughts = [part.text for part in answer.candidates[0].content.parts if part.thought]
    texts = [part.text for part in answer.candidates[0].content.parts if part.text and not part.thought]
    return "".join(texts), [(each.name, each.args) for each in answer.function_calls], "".join(thoughts)


@each_pair
def test_a_body_says_the_same(channel, client):
    converted = convert_body(bodies()[channel], channel, client)
    assert converted.unconvertible == ""
    body = json.loads(converted.body)
    assert read_by_sdk(client, body) == ("Hello world", [("f", {"x": 1})], "think")


@each_pair
def test_a_body_has_the_same_usage(channel, client):
    asked = bodies()[channel]
    converted = convert_body(asked, channel, client)
    native = RULES[Protocol(channel)].read(call(channel, stream=False), json.dumps(asked).encode())
    again = RULES[Protocol(client)].read(call(client, stream=False), converted.body)
    assert converted.counts == native.counts
    ours, theirs = (
        usage(each.counts, Protocol(whose), answered=True) for each, whose in ((again, client), (native, channel))
    )
    for name in ("all_input", "cached_input", "output"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.flags == ()


ENDS = [
    ("chat", "stop", "end_turn", "STOP"),
    ("chat", "length", "max_tokens", "MAX_TOKENS"),
    ("chat", "content_filter", "refusal", "SAFETY"),
    ("messages", "end_turn", "end_turn", "STOP"),
    ("messages", "max_tokens", "max_tokens", "MAX_TOKENS"),
    ("messages", "model_context_window_exceeded", "max_tokens", "MAX_TOKENS"),
    ("messages", "pause_turn", "max_tokens", "MAX_TOKENS"),
    ("messages", "refusal", "refusal", "SAFETY"),
    ("gemini", "STOP", "end_turn", "STOP"),
    ("gemini", "MAX_TOKENS", "max_tokens", "MAX_TOKENS"),
    ("gemini", "RECITATION", "refusal", "SAFETY"),
    ("gemini", "PROHIBITED_CONTENT", "refusal", "SAFETY"),
]
CHAT_ENDS = {"end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


def ending(channel, reason):
    """A text that ends for a reason, in a channel's protocol."""
    body = bodies()[channel]
    if channel == "chat":
        body["choices"][0] = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": reason}
    elif channel == "messages":
        body |= {"content": [{"type": "text", "text": "a"}], "stop_reason": reason}
    else:
        body["candidates"][0] |= {"content": {"parts": [{"text": "a"}]}, "finishReason": reason}
    return body


@pytest.mark.parametrize(("channel", "reason", "messages", "gemini"), ENDS)
def test_every_end_in_every_protocols_words(channel, reason, messages, gemini):
    found = {
        client: convert_body(ending(channel, reason), channel, client).body for each, client in PAIRS if each == channel
    }
    expected = {
        "chat": lambda body: body["choices"][0]["finish_reason"] == CHAT_ENDS[messages],
        "messages": lambda body: body["stop_reason"] == messages,
        "gemini": lambda body: body["candidates"][0]["finishReason"] == gemini,
        "responses": lambda body: (body["incomplete_details"] or {}).get("reason") == INCOMPLETE.get(messages),
    }
    for client, body in found.items():
        assert expected[client](json.loads(body)), client


def test_a_stop_sequence_is_named():
    body = ending("messages", "stop_sequence") | {"stop_sequence": "END"}
    assert json.loads(convert_body(body, "messages", "chat").body)["choices"][0]["finish_reason"] == "stop"


def test_an_error_in_a_200_is_an_error():
    converted = convert_body({"error": {"message": "no", "code": 400}}, "chat", "messages")
    assert converted.error.status == 400
    assert converted.body == b""


@each_pair
@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"{}", b'{"choices":[{}]}', b'{"output":[[]],"content":[{}]}'])
def test_no_body_raises(channel, client, body):
    asked = call(client, stream=False)
    converted = read(asked, Protocol(channel), body, created_s=1, names={}, weigh=usage)
    assert bool(converted.unconvertible) == (not body.startswith(b"{"))


def test_candidates_are_choices():
    body = bodies()["chat"]
    body["choices"] = [
        {"index": at, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        for at, text in enumerate("ab")
    ]
    candidates = json.loads(convert_body(body, "chat", "gemini").body)["candidates"]
    assert [(each["index"], each["content"]["parts"][0]["text"]) for each in candidates] == [(0, "a"), (1, "b")]
    assert convert_body(body, "chat", "messages").unconvertible == "more choices than there is room for"


def test_half_a_call_is_left_out_of_an_answer_that_was_cut():
    body = bodies()["chat"]
    cut = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"command":"rm'}}
    message = {"role": "assistant", "content": "a", "tool_calls": [cut]}
    body["choices"][0] = {"index": 0, "message": message, "finish_reason": "length"}
    content = json.loads(convert_body(body, "chat", "messages").body)["content"]
    assert [block["type"] for block in content] == ["text"]


BROKEN = ["{broken", "[1]", "null", '"s"', "{}{}"]


def calling(arguments):
    """A whole Chat answer with one call."""
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = bodies()["chat"]
    message = {"role": "assistant", "content": "a", "tool_calls": [made]}
    body["choices"][0] = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return body


@pytest.mark.parametrize("arguments", BROKEN)
def test_arguments_that_are_no_object_are_paid_for_and_come_in_anthropics_wrapper(arguments):
    converted = convert_body(calling(arguments), "chat", "messages")
    message = json.loads(converted.body)
    assert (converted.unconvertible, message["stop_reason"]) == ("", "tool_use")
    assert message["content"][1]["input"] == {"INVALID_JSON": arguments}


@pytest.mark.parametrize("arguments", BROKEN)
def test_gemini_calls_them_malformed(arguments):
    converted = convert_body(calling(arguments), "chat", "gemini")
    candidate = json.loads(converted.body)["candidates"][0]
    assert (converted.unconvertible, candidate["finishReason"]) == ("", "MALFORMED_FUNCTION_CALL")
    assert candidate["content"]["parts"] == [{"text": "a"}]


@pytest.mark.parametrize("arguments", BROKEN)
@pytest.mark.parametrize("client", ["messages", "gemini", "responses"])
def test_a_stream_of_them_is_complete_and_paid_for_as_well(client, arguments):
    made = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}]}
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    raw = sse([chat_chunk(made), chat_chunk({}, "tool_calls", usage=counts)], done=True)
    stream = convert_stream(raw, "chat", client)
    assert (stream.complete, stream.reader.unconvertible) == (True, "")
    given = "".join(
        event["delta"]["partial_json"]
        for event in payloads(stream.wire)
        if event.get("type") == "content_block_delta" and "partial_json" in event["delta"]
    )
    assert given == (arguments if client == "messages" else "")
    assert (b"MALFORMED_FUNCTION_CALL" in stream.wire) == (client == "gemini")


def test_an_image_goes_where_there_is_a_place_for_it():
    parts = [{"text": "a"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
    body = bodies()["gemini"]
    body["candidates"][0]["content"]["parts"] = parts
    message = json.loads(convert_body(body, "gemini", "chat").body)["choices"][0]["message"]
    assert message["images"][0]["image_url"]["url"] == "data:image/png;base64,aGk="
    output = json.loads(convert_body(body, "gemini", "responses").body)["output"]
    assert [item.get("result") for item in output] == [None, "aGk="]
    assert convert_body(body, "gemini", "messages").unconvertible == "an image in an answer"


def test_a_token_of_reasoning_is_carried():
    block = json.loads(convert_body(bodies()["responses"], "responses", "messages").body)["content"][0]
    assert (unpack(block["signature"]).family, unpack(block["signature"]).token) == ("responses", "AAAA")
