"""Anthropic Messages as the simulated provider speaks it (protocols page 6.2-6.5, golden stream 13.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.simulator.answer import distort
from hoptrio.simulator.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.answer import Answer, ToolCall
    from hoptrio.simulator.script import Failure

__all__ = ["MessagesDialect", "messages_error"]

_encode = msgspec.json.encode
_STOP = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal", "block": "refusal", "tools": "tool_use"}
_SIGNATURE = "c2ltdWxhdGVk"
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def messages_error(status: int, message: str) -> dict[str, Any]:
    """Anthropic's error body (protocols page 8.1)."""
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_sim"}


class MessagesDialect:
    """One answer as content blocks."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._kind = answer.script.usage
        self._id = f"msg_sim_{answer.serial}"

    def opening(self) -> list[Frame]:
        message = self._message([])
        if self._kind != "none":
            message |= {"usage": self._usage(1)}
        return [_frame({"type": "message_start", "message": message}), _frame({"type": "ping"})]

    def content(self) -> Iterator[Frame]:
        """Blocks are sequential; `index` is the position in the final content."""
        answer = self._answer
        index = 0
        if answer.reasoning_count:
            yield from self._thinking_block(index)
            index += 1
        if answer.text_count:
            yield _start(index, {"type": "text", "text": ""})
            for piece in answer.text():
                yield _piece(index, b'"text_delta","text":', piece)
            yield _stop(index)
            index += 1
        for call in answer.calls:
            yield from self._tool_block(index, call)
            index += 1

    def closing(self) -> list[Frame]:
        if self._answer.script.fails("no-finish"):
            return []
        delta = _frame(self._delta())
        return [delta, delta] if self._kind == "twice" else [delta]

    def terminal(self) -> list[Frame]:
        return [_frame({"type": "message_stop"})]

    def body(self) -> dict[str, Any]:
        answer = self._answer
        content: list[dict[str, Any]] = []
        if answer.reasoning_count:
            thinking = "".join(answer.reasoning())
            content.append({"type": "thinking", "thinking": thinking, "signature": _SIGNATURE})
        if answer.text_count:
            content.append({"type": "text", "text": "".join(answer.text())})
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": msgspec.Raw(call.arguments.encode())}
            for call in answer.calls
        ]
        body = {**self._message(content), "stop_reason": _STOP[answer.finish]}
        return body if self._kind == "none" else body | {"usage": self._usage(answer.output_tokens)}

    def errors(self, failure: Failure) -> list[Frame]:
        kind = failure.arg or "overloaded_error"
        error = {"type": kind, "message": "simulated failure"}
        return [_frame({"type": "error", "error": error, "request_id": f"req_{self._id}"})]

    def ping(self) -> Frame | None:
        return _frame({"type": "ping"})

    def _thinking_block(self, index: int) -> Iterator[Frame]:
        yield _start(index, {"type": "thinking", "thinking": "", "signature": ""})
        for piece in self._answer.reasoning():
            yield _piece(index, b'"thinking_delta","thinking":', piece)
        signature = {"type": "signature_delta", "signature": _SIGNATURE}
        yield _frame({"type": "content_block_delta", "index": index, "delta": signature})
        yield _stop(index)

    def _tool_block(self, index: int, call: ToolCall) -> Iterator[Frame]:
        yield _start(index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        for fragment in call.fragments:
            yield _piece(index, b'"input_json_delta","partial_json":', fragment)
        yield _stop(index)

    def _message(self, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._answer.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _delta(self) -> dict[str, Any]:
        delta = {"stop_reason": _STOP[self._answer.finish], "stop_sequence": None}
        event: dict[str, Any] = {"type": "message_delta", "delta": delta}
        return event if self._kind in ("none", "start") else event | {"usage": self._usage(self._answer.output_tokens)}

    def _usage(self, output_tokens: int) -> dict[str, Any] | None:
        """Cached and written tokens stand beside ``input_tokens`` here, not in it."""
        script = self._answer.script
        usage = {
            "input_tokens": max(0, self._answer.input_tokens - script.cached - script.cache_write),
            "cache_creation_input_tokens": script.cache_write,
            "cache_read_input_tokens": script.cached,
            "output_tokens": output_tokens,
        }
        return distort(usage, self._kind)


def _frame(event: dict[str, Any]) -> Frame:
    return Frame(event["type"].encode(), _encode(event))


def _start(index: int, block: dict[str, Any]) -> Frame:
    return _frame({"type": "content_block_start", "index": index, "content_block": block})


def _stop(index: int) -> Frame:
    return _frame({"type": "content_block_stop", "index": index})


def _piece(index: int, opening: bytes, piece: str) -> Frame:
    """The hot path: bytes are joined, no value is built."""
    data = b'{"type":"content_block_delta","index":%d,"delta":{"type":%s%s}}' % (index, opening, _encode(piece))
    return Frame(b"content_block_delta", data, piece=True)
