"""A channel's bytes for a client of another protocol: the golden streams of the reference, and ways to convert."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from hoptrio.metering.evidence import usage
from hoptrio.protocols import convert
from hoptrio.protocols.events import Call, Framing, Kind, Protocol, SseEvent, Step
from hoptrio.protocols.registry import RULES
from hoptrio.protocols.sse import Splitter
from hoptrio.upstream.failure import from_provider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.protocols.convert import ConvertingReader
    from hoptrio.protocols.rules import Reader

__all__ = [
    "DIRECTIONS",
    "GOLDEN",
    "Stream",
    "bodies",
    "call",
    "chat_chunk",
    "convert_body",
    "convert_stream",
    "converting",
    "cut_at",
    "named",
    "native",
    "payloads",
    "sse",
]

#: Client bodies that ask to be shown all there is.
_SHOWN: dict[str, dict[str, Any]] = {
    "chat": {"stream_options": {"include_usage": True}},
    "responses": {"include": ["reasoning.encrypted_content"]},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
}
#: (channel, client) of every stream that can be converted.
DIRECTIONS = [
    (channel.value, client.value)
    for channel in Protocol
    for client in Protocol
    if convert.possible(client, channel, stream=True)
]


class Stream(NamedTuple):
    """What came of a whole stream."""

    reader: ConvertingReader
    steps: list[Step]
    complete: bool
    wire: bytes

    @property
    def kinds(self) -> list[Kind]:
        """What each event meant."""
        return [step.kind for step in self.steps]


def call(client: str, *, stream: bool = True, **more: Any) -> Call:
    """A client's call; its `body` asks to be shown everything unless it is given."""
    framing = Framing.SSE if stream else Framing.JSON
    members = {"body": _SHOWN[client], "framing": framing, "usage_asked": True, "model": "m"} | more
    return Call(protocol=Protocol(client), stream=stream, **members)


def converting(channel: str, client: str, **more: Any) -> ConvertingReader:
    """A reader for one stream."""
    names = more.pop("names", {})
    asked = call(client, **more)
    return convert.reader(asked, Protocol(channel), created_s=7, names=names, tell=from_provider, weigh=usage)


def native(protocol: str) -> Reader:
    """The reader of a client of the same protocol."""
    return RULES[Protocol(protocol)].reader(call(protocol), hide_usage=False)


def convert_stream(raw: bytes, channel: str, client: str, *, clean: bool = True, **more: Any) -> Stream:
    """Convert a whole body."""
    cuts = more.pop("cuts", ())
    reader = converting(channel, client, **more)
    steps = [reader.feed(event) for event in cut_at(raw, cuts)]
    finish = reader.finish(clean=clean)
    return Stream(reader, steps, finish.complete, b"".join(step.wire for step in steps) + finish.wire)


def convert_body(body: dict[str, Any], channel: str, client: str, **more: Any) -> convert.Converted:
    """Convert a whole answer."""
    names = more.pop("names", {})
    asked = call(client, stream=False, **more)
    return convert.read(asked, Protocol(channel), json.dumps(body).encode(), created_s=7, names=names, weigh=usage)


def cut_at(raw: bytes, places: Iterable[int] = ()) -> list[SseEvent]:
    """The events of a body that arrives in pieces."""
    splitter = Splitter()
    ends = [0, *sorted(places), len(raw)]
    return [event for a, b in pairwise(ends) for event in splitter.feed(raw[a:b])] + splitter.finish()


def payloads(wire: bytes) -> list[Any]:
    """The data of each event written, parsed; every event is whole and on one line."""
    found = []
    blocks = wire.split(b"\n\n")
    assert blocks.pop() == b""
    for block in blocks:
        *names, data = block.split(b"\n")
        assert data.startswith(b"data: ")
        value = data[6:] if data == b"data: [DONE]" else json.loads(data[6:])
        assert [name for name in names if name != b"event: " + str(value.get("type")).encode()] == []
        found.append(value)
    return found


# -- bodies of providers ----------------------------------------------------------------------------------------------


def sse(values: Iterable[Any], *, done: bool = False) -> bytes:
    """Events without names."""
    wire = b"".join(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n" for value in values)
    return wire + (b"data: [DONE]\n\n" if done else b"")


def named(values: Iterable[dict[str, Any]]) -> bytes:
    """Events with their type as the name."""
    return b"".join(b"event: " + value["type"].encode() + b"\n" + sse([value]) for value in values)


def chat_chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    } | more


def _chat() -> bytes:
    """Protocols page 13.1."""

    def call(index: int, given: str, **more: Any) -> dict[str, Any]:
        opening = {"id": more["id"], "type": "function"} if more else {}
        function = {"name": more["name"], "arguments": given} if more else {"arguments": given}
        return {"tool_calls": [{"index": index, **opening, "function": function}]}

    deltas = [
        {"role": "assistant", "content": None},
        {"reasoning_content": "think"},
        {"content": "Hello"},
        call(0, "", id="call_a", name="f"),
        call(0, '{"x":'),
        call(0, "1}"),
        call(1, "{}", id="call_b", name="g"),
    ]
    chunks = [chat_chunk(delta, usage=None) for delta in deltas] + [chat_chunk({}, "tool_calls", usage=None)]
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    counts |= {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 1}}
    return sse([*chunks, chat_chunk(None) | {"choices": [], "usage": counts}], done=True)


RESP = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "model": "m",
    "output": [],
    "parallel_tool_calls": True,
    "temperature": 1,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1,
    "metadata": {},
    "usage": None,
}


def _responses() -> bytes:
    """Protocols page 13.2."""
    summary, text = {"type": "summary_text", "text": "think"}, "Hello world"
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [summary], "encrypted_content": "AAAA"}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    given = {"call_id": "call_a", "name": "f", "arguments": '{"x":1}'}
    function = {"id": "fc_1", "type": "function_call", "status": "completed", **given}
    counts = {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0}}
    counts |= {"output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}, "total_tokens": 7}
    at_summary = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    at_text = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    at_call = {"item_id": "fc_1", "output_index": 2}
    events = [
        ("created", {"response": RESP}),
        ("in_progress", {"response": RESP}),
        ("output_item.added", {"output_index": 0, "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        ("reasoning_summary_part.added", at_summary | {"part": summary | {"text": ""}}),
        ("reasoning_summary_text.delta", at_summary | {"delta": "think"}),
        ("reasoning_summary_text.done", at_summary | {"text": "think"}),
        ("reasoning_summary_part.done", at_summary | {"part": summary}),
        ("output_item.done", {"output_index": 0, "item": reasoning}),
        ("output_item.added", {"output_index": 1, "item": message | {"status": "in_progress", "content": []}}),
        ("content_part.added", at_text | {"part": part | {"text": ""}}),
        ("output_text.delta", at_text | {"delta": text, "logprobs": []}),
        ("output_text.done", at_text | {"text": text, "logprobs": []}),
        ("content_part.done", at_text | {"part": part}),
        ("output_item.done", {"output_index": 1, "item": message}),
        ("output_item.added", {"output_index": 2, "item": function | {"status": "in_progress", "arguments": ""}}),
        ("function_call_arguments.delta", at_call | {"delta": '{"x":1}'}),
        ("function_call_arguments.done", at_call | {"name": "f", "arguments": '{"x":1}'}),
        ("output_item.done", {"output_index": 2, "item": function}),
        ("completed", {"response": RESP | {"status": "completed", "output": [reasoning, message, function]}}),
    ]
    events[-1][1]["response"]["usage"] = counts
    return named({"type": f"response.{kind}", "sequence_number": at} | event for at, (kind, event) in enumerate(events))


def _messages() -> bytes:
    """Protocols page 13.3."""

    def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": content},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    message |= {"stop_sequence": None, "usage": {"input_tokens": 0, "output_tokens": 0}}
    thinking = [{"type": "thinking_delta", "thinking": "think"}, {"type": "signature_delta", "signature": "c2ln"}]
    given = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"x":', "1}")]
    counts = {"input_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 14}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    return named(
        [
            {"type": "message_start", "message": message},
            {"type": "ping"},
            *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thinking),
            *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello world"}),
            *block(2, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, *given),
            {"type": "message_delta", "delta": stop, "usage": counts},
            {"type": "message_stop"},
        ]
    )


def _gemini() -> bytes:
    """Protocols page 13.4."""
    call = {"functionCall": {"id": "call_a", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"}
    parts = [{"text": "plan", "thought": True}, {"text": "Hello world"}, call, {"text": ""}]
    counts = {"promptTokenCount": 5, "cachedContentTokenCount": 2, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], "modelVersion": "m"}
        for part in parts
    ]
    chunks[0]["usageMetadata"] = {"promptTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 8}
    chunks[-1]["usageMetadata"] = counts | {"totalTokenCount": 12}
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    return sse(chunk | {"responseId": "r1"} for chunk in chunks)


#: The golden streams of the reference.
GOLDEN = {"chat": _chat(), "responses": _responses(), "messages": _messages(), "gemini": _gemini()}


def bodies() -> dict[str, dict[str, Any]]:
    """Whole answers with the same content as the golden streams."""
    call = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    message = {"role": "assistant", "content": "Hello world", "reasoning_content": "think", "tool_calls": [call]}
    chat_usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    chat_usage |= {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 1}}
    content = [
        {"type": "thinking", "thinking": "think", "signature": "c2ln"},
        {"type": "text", "text": "Hello world"},
        {"type": "tool_use", "id": "call_a", "name": "f", "input": {"x": 1}},
    ]
    messages_usage = {"input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 2}
    parts = [
        {"text": "think", "thought": True},
        {"text": "Hello world"},
        {"functionCall": {"id": "call_a", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
    ]
    gemini_usage = {"promptTokenCount": 5, "cachedContentTokenCount": 3, "candidatesTokenCount": 1}
    gemini_usage |= {"thoughtsTokenCount": 1, "totalTokenCount": 7}
    response = next(event for event in payloads(GOLDEN["responses"]) if event["type"] == "response.completed")[
        "response"
    ]
    return {
        "chat": {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": chat_usage,
        },
        "responses": response,
        "messages": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": content,
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": messages_usage,
        },
        "gemini": {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": gemini_usage,
            "modelVersion": "m",
            "responseId": "r1",
        },
    }
