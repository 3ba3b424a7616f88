"""One small whole stream per protocol, as a provider sends it, with what it is and what it costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


def data(value: Any) -> bytes:
    """A Chat or Gemini event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def named(value: dict[str, Any]) -> bytes:
    """A Responses or Messages event."""
    return b"event: " + value["type"].encode() + b"\n" + data(value)


@dataclass(frozen=True)
class Sample:
    """Events in order: `opening` before the answer, `answer`, `closing` after it, then the terminal."""

    kind: str
    opening: list[bytes]
    answer: list[bytes]
    closing: list[bytes]
    terminal: list[bytes]
    #: The provider's own error event, whole.
    error: bytes
    input_tokens: int = 5
    output_tokens: int = 7
    #: A whole JSON answer with the same usage.
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def events(self) -> list[bytes]:
        """All of it."""
        return [*self.opening, *self.answer, *self.closing, *self.terminal]

    @property
    def charge_nanos(self) -> int:
        """At the harness's prices."""
        return self.input_tokens * 1000 + self.output_tokens * 2000


def _chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


_CHAT_USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
CHAT = Sample(
    kind="chat",
    opening=[_chunk({"role": "assistant", "content": ""})],
    answer=[_chunk({"content": "Hel"}), _chunk({"content": "lo"})],
    closing=[
        _chunk({}, "stop"),
        data({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": _CHAT_USAGE}),
    ],
    terminal=[b"data: [DONE]\n\n"],
    error=data({"error": {"message": "boom", "type": "server_error", "param": None, "code": None}}),
    body={
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": _CHAT_USAGE,
    },
)

_RESP: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m"}
_RESP |= {"output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None}
_RESP_USAGE = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
_DONE_ITEM = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}


def _r(kind: str, number: int, **members: Any) -> bytes:
    return named({"type": f"response.{kind}", "sequence_number": number, **members})


_AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
RESPONSES = Sample(
    kind="responses",
    opening=[_r("created", 0, response=_RESP), _r("in_progress", 1, response=_RESP)],
    answer=[
        _r("output_item.added", 2, output_index=0, item={**_DONE_ITEM, "status": "in_progress", "content": []}),
        _r("content_part.added", 3, **_AT, part={"type": "output_text", "text": "", "annotations": []}),
        _r("output_text.delta", 4, **_AT, delta="Hel", logprobs=[]),
        _r("output_text.delta", 5, **_AT, delta="lo", logprobs=[]),
    ],
    closing=[
        _r("output_text.done", 6, **_AT, text="Hello", logprobs=[]),
        _r("content_part.done", 7, **_AT, part=_DONE_ITEM["content"][0]),  # type: ignore[index]
        _r("output_item.done", 8, output_index=0, item=_DONE_ITEM),
    ],
    terminal=[
        _r("completed", 9, response={**_RESP, "status": "completed", "output": [_DONE_ITEM], "usage": _RESP_USAGE})
    ],
    error=_r("failed", 6, response={**_RESP, "status": "failed", "error": {"code": "server_error", "message": "boom"}}),
    body={**_RESP, "status": "completed", "output": [_DONE_ITEM], "usage": _RESP_USAGE},
)

_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
_MESSAGE |= {"stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 1}}
MESSAGES = Sample(
    kind="messages",
    opening=[named({"type": "message_start", "message": _MESSAGE}), named({"type": "ping"})],
    answer=[
        named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}}),
        named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}}),
    ],
    closing=[
        named({"type": "content_block_stop", "index": 0}),
        named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
    ],
    terminal=[named({"type": "message_stop"})],
    error=named({"type": "error", "error": {"type": "overloaded_error", "message": "boom"}}),
    body={
        **_MESSAGE,
        "content": [{"type": "text", "text": "Hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    },
)


def _candidate(parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **more}], "modelVersion": "m"}


_GEMINI_USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 12}
GEMINI = Sample(
    kind="gemini",
    opening=[],
    answer=[data(_candidate([{"text": "Hel"}])), data(_candidate([{"text": "lo"}]))],
    closing=[],
    terminal=[data({**_candidate([{"text": "!"}], finishReason="STOP"), "usageMetadata": _GEMINI_USAGE})],
    error=data({"error": {"code": 503, "message": "boom", "status": "UNAVAILABLE"}}),
    body={**_candidate([{"text": "Hello!"}], finishReason="STOP"), "usageMetadata": _GEMINI_USAGE},
)

SAMPLES = {sample.kind: sample for sample in (CHAT, RESPONSES, MESSAGES, GEMINI)}
