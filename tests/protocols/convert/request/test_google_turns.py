"""Turns of Google's clients: parts and chunks of one answer are one text, and every token comes back, in its order."""

from __future__ import annotations

import json

import pytest

from hoptrio.metering.evidence import usage
from hoptrio.protocols import convert
from hoptrio.protocols.convert.carrier import Carried
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.convert.request import encode as written
from hoptrio.protocols.convert.request.conversation import Conversation, Reasoning, Role, Text, ToolUse, Turn
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from tests.support.converting import call, convert_body, convert_stream, named, payloads

USER = {"role": "user", "parts": [{"text": "q"}]}
PIECES = [{"text": "Hello wor"}, {"text": "ld, code: x="}, {"text": "1"}]
WORDS = "Hello world, code: x=1"


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def on(channel, *contents):
    """What a channel is sent for some contents, as JSON."""
    body = json.dumps({"contents": list(contents)}).encode()
    asked = RULES[Protocol.GEMINI].parse("/v1beta/models/m:generateContent", {}, {}, body)
    return convert.prepare(asked, Protocol(channel), drop_tools=frozenset(), output_max=100).call.body


def turns(channel, body):
    """(role, all its text) of each turn that a channel was sent."""
    found = []
    for turn in body["input" if channel == "responses" else "messages"]:
        content = turn["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        found.append((turn["role"], texts))
    return found


@pytest.mark.parametrize("channel", ["chat", "responses", "messages"])
def test_parts_of_one_turn_are_one_text_without_anything_between(channel):
    body = on(channel, {"role": "user", "parts": PIECES}, model(*PIECES), USER)
    assert turns(channel, body) == [("user", [WORDS]), ("assistant", [WORDS]), ("user", ["q"])]


@pytest.mark.parametrize("channel", ["chat", "responses", "messages"])
def test_chunks_that_a_helper_keeps_as_contents_of_their_own_are_one_turn(channel):
    body = on(channel, USER, *(model(piece) for piece in [*PIECES, {"text": ""}]), USER)
    assert turns(channel, body) == [("user", ["q"]), ("assistant", [WORDS]), ("user", ["q"])]


def test_texts_of_others_stay_paragraphs_for_google():
    turns = (Turn(Role.USER, (Text("a"), Text("b"))), Turn(Role.USER, (Text("c"),)))
    body = written(Conversation(client=Protocol.MESSAGES, model="m", turns=turns), Protocol.GEMINI)
    assert body["contents"] == [{"role": "user", "parts": [{"text": "a\n\nb\n\nc"}]}]


CONTENT = [
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
]
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": CONTENT,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
STREAM = named(
    [
        {"type": "message_start", "message": MESSAGE},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
)
RESULT = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "ok"}}}]}


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_every_thinking_block_comes_back_in_its_order(stream, shown):
    asked = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}} if shown else {}
    if stream:
        chunks = payloads(convert_stream(STREAM, "messages", "gemini", body=asked).wire)
        contents = [chunk["candidates"][0]["content"] for chunk in chunks]
    else:
        whole = json.dumps(MESSAGE).encode()
        asking = call("gemini", stream=False, body=asked)
        read = convert.read(asking, Protocol.MESSAGES, whole, created_s=7, names={}, weigh=usage)
        contents = [json.loads(read.body)["candidates"][0]["content"]]
    sent = on("messages", USER, *contents, RESULT)["messages"][1]["content"]
    assert sent == CONTENT


def signed(text, **more):
    return {"candidates": [{"index": 0, "content": model({"text": text, "thoughtSignature": "R1NJRzE="} | more)}]}


@pytest.mark.parametrize("parts", [[signed("answer")], [signed("plan", thought=True), signed("answer")]], ids=len)
@pytest.mark.parametrize("client", ["messages", "responses"])
def test_a_token_of_googles_at_a_text_or_a_thought_goes_to_the_client_and_back(client, parts):
    body = {"candidates": [parts[0]["candidates"][0] | {"finishReason": "STOP"}]}
    body["candidates"][0]["content"] = model(*(each["candidates"][0]["content"]["parts"][0] for each in parts))
    body["usageMetadata"] = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    answer = json.loads(convert_body(body, "gemini", client).body)
    turns = [{"role": "assistant", "content": answer["content"]}] if client == "messages" else answer["output"]
    asked = {"role": "user", "content": "q"}
    request = {"model": "m", "messages" if client == "messages" else "input": [asked, *turns, asked], "max_tokens": 9}
    if client == "responses":
        del request["max_tokens"]
    parsed = RULES[Protocol(client)].parse("/", {}, {}, json.dumps(request).encode())
    sent = convert.prepare(parsed, Protocol.GEMINI, drop_tools=frozenset(), output_max=100).call.body
    sent_parts = [part for each in sent["contents"] for part in each["parts"]]
    tokens = [part["thoughtSignature"] for part in sent_parts if "thoughtSignature" in part]
    assert tokens == ["R1NJRzE="] * len(parts)


def test_of_two_tokens_before_a_call_neither_is_lost():
    first, second = (Reasoning(carried=Carried(Protocol.GEMINI, token)) for token in ("b25l", "dHdv"))
    use = ToolUse(id="call_1", tool=ToolName("f"), arguments="{}")
    turns = (Turn(Role.USER, (Text("q"),)), Turn(Role.ASSISTANT, (first, second, use)))
    body = written(Conversation(client=Protocol.MESSAGES, model="m", turns=turns), Protocol.GEMINI)
    parts = body["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["b25l", "dHdv"]
    assert parts[0]["text"] == ""
