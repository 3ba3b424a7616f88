"""Chat Completions as the simulated provider speaks it (protocols page 3.1-3.6, golden stream 13.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.simulator.answer import distort
from hoptrio.simulator.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.answer import Answer, ToolCall
    from hoptrio.simulator.script import Failure

__all__ = ["ChatDialect", "chat_error"]

_encode = msgspec.json.encode
_FINISH = {"stop": "stop", "length": "length", "filter": "content_filter", "block": "content_filter"}
_FINISH["tools"] = "tool_calls"
#: Always the same second, so that a stream is a function of its request.
_CREATED = 1_780_000_000

_CODES = {
    401: "invalid_api_key",
    402: "insufficient_quota",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "server_is_overloaded",
}


def chat_error(status: int, message: str, code: str = "") -> dict[str, Any]:
    """OpenAI's error body, for both of its APIs (protocols page 8.1)."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code or _CODES.get(status)}}


class ChatDialect:
    """One answer as chat completion chunks. `usage_asked`: the request set ``include_usage``."""

    def __init__(self, answer: Answer, *, usage_asked: bool) -> None:
        self._answer = answer
        self._kind = answer.script.usage
        self._usage_asked = usage_asked
        self._id = f"chatcmpl-sim-{answer.serial}"
        self._prefix = (
            b'{"id":"%s","object":"chat.completion.chunk","created":%d,"model":%s,"service_tier":"default","choices":['
            % (self._id.encode(), _CREATED, _encode(answer.model))
        )
        self._tail = b'],"usage":null}' if usage_asked else b"]}"

    def opening(self) -> list[Frame]:
        role = {"role": "assistant", "content": ""}
        return [self._chunk(index, role) for index in range(self._answer.choices)]

    def content(self) -> Iterator[Frame]:
        for pieces in zip(*(self._pieces(index) for index in range(self._answer.choices)), strict=True):
            yield from pieces

    def closing(self) -> list[Frame]:
        indices = range(0 if self._answer.script.fails("no-finish") else self._answer.choices)
        return [self._finish(index) for index in indices] + self._usage_chunks()

    def terminal(self) -> list[Frame]:
        return [Frame(b"", b"[DONE]")]

    def body(self) -> dict[str, Any]:
        answer = self._answer
        body = {
            "id": self._id,
            "object": "chat.completion",
            "created": _CREATED,
            "model": answer.model,
            "choices": [self._whole(index) for index in range(answer.choices)],
        }
        return body if self._kind == "none" else body | {"usage": self._usage()}

    def errors(self, failure: Failure) -> list[Frame]:
        return [Frame(b"", _encode(chat_error(500, "simulated failure", failure.arg)))]

    def ping(self) -> Frame | None:
        return None

    def _pieces(self, index: int) -> Iterator[Frame]:
        answer = self._answer
        for piece in answer.reasoning():
            yield self._piece(index, b'"reasoning_content":', piece)
        for piece in answer.text():
            yield self._piece(index, b'"content":', piece)
        for number, call in enumerate(answer.calls):
            yield from self._tool_deltas(index, number, call)

    def _piece(self, index: int, key: bytes, piece: str) -> Frame:
        """The hot path: bytes are joined, no value is built."""
        tail = self._tail
        if self._kind == "running":
            tail = b'],"usage":%s}' % _encode(self._usage())
        data = b'%s{"index":%d,"delta":{%s%s},"finish_reason":null}%s' % (
            self._prefix,
            index,
            key,
            _encode(piece),
            tail,
        )
        return Frame(b"", data, piece=True)

    def _tool_deltas(self, index: int, number: int, call: ToolCall) -> Iterator[Frame]:
        first, second = call.fragments
        function = {"name": call.name, "arguments": first}
        opening = {"index": number, "id": call.id, "type": "function", "function": function}
        yield self._chunk(index, {"tool_calls": [opening]}, piece=True)
        rest = {"index": number, "function": {"arguments": second}}
        yield self._chunk(index, {"tool_calls": [rest]}, piece=True)

    def _finish(self, index: int) -> Frame:
        return self._chunk(index, {}, _FINISH[self._answer.finish], usage=self._kind in ("finish", "running"))

    def _usage_chunks(self) -> list[Frame]:
        """What stands behind the finish: nothing unless asked, but two chunks for a provider that repeats itself."""
        if self._kind in ("none", "finish") or not (self._usage_asked or self._kind in ("running", "twice")):
            return []
        chunk = Frame(b"", b'%s],"usage":%s}' % (self._prefix, _encode(self._usage())))
        return [chunk, chunk] if self._kind == "twice" else [chunk]

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        finish: str | None = None,
        *,
        usage: bool = False,
        piece: bool = False,
    ) -> Frame:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        tail = b'],"usage":%s}' % _encode(self._usage()) if usage else self._tail
        return Frame(b"", self._prefix + _encode(choice) + tail, piece)

    def _whole(self, index: int) -> dict[str, Any]:
        answer = self._answer
        message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text()) or None, "refusal": None}
        if answer.reasoning_count:
            message["reasoning_content"] = "".join(answer.reasoning())
        if answer.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in answer.calls
            ]
        return {"index": index, "message": message, "logprobs": None, "finish_reason": _FINISH[answer.finish]}

    def _usage(self) -> dict[str, Any] | None:
        answer = self._answer
        total = answer.total_tokens + (7 if self._kind == "mismatch" else 0)
        details = {"cached_tokens": answer.script.cached}
        if answer.script.cache_write:
            details["cache_write_tokens"] = answer.script.cache_write
        usage = {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": total,
            "prompt_tokens_details": details,
            "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        }
        return distort(usage, self._kind)
