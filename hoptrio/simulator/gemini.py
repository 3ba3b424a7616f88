"""Gemini's generateContent as the simulated provider speaks it (protocols page 7.2-7.5, golden stream 13.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.simulator.answer import distort
from hoptrio.simulator.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.answer import Answer
    from hoptrio.simulator.script import Failure

__all__ = ["GeminiDialect", "gemini_error"]

_encode = msgspec.json.encode
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY", "tools": "STOP"}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SIGNATURE = "c2ltdWxhdGVk"


def gemini_error(status: int, message: str) -> dict[str, Any]:
    """Google's error body; its code is an integer, or SDKs fail on it (protocols page 7.5)."""
    name = _STATUS.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
    return {"error": {"code": status, "message": message, "status": name}}


class GeminiDialect:
    """One answer as candidates."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._kind = answer.script.usage
        self._identity = {"modelVersion": answer.model, "responseId": f"sim-{answer.serial}"}
        self._tail = b'"modelVersion":%s,"responseId":"sim-%d"' % (_encode(answer.model), answer.serial)

    def opening(self) -> list[Frame]:
        return []

    def content(self) -> Iterator[Frame]:
        if self._answer.finish == "block":
            return
        for pieces in zip(*(self._pieces(index) for index in range(self._answer.choices)), strict=True):
            yield from pieces

    def closing(self) -> list[Frame]:
        return []

    def terminal(self) -> list[Frame]:
        """The finish reason, and the usage with it or behind it."""
        answer = self._answer
        if answer.finish == "block":
            return [Frame(b"", _encode(self._blocked()))]
        reason = None if answer.script.fails("no-finish") else _FINISH[answer.finish]
        candidates = [self._candidate(index, [{"text": ""}], reason) for index in range(answer.choices)]
        chunk = {"candidates": candidates, **self._identity}
        frames = [Frame(b"", _encode(chunk if self._kind == "late" else self._with_usage(chunk)))]
        if self._kind in ("late", "twice"):
            frames.append(Frame(b"", _encode(self._with_usage(self._identity))))
        return frames

    def body(self) -> dict[str, Any]:
        answer = self._answer
        if answer.finish == "block":
            return self._blocked()
        parts: list[dict[str, Any]] = []
        if answer.reasoning_count:
            parts.append({"text": "".join(answer.reasoning()), "thought": True})
        if answer.text_count:
            parts.append({"text": "".join(answer.text())})
        parts += self._calls()
        candidates = [self._candidate(index, parts, _FINISH[answer.finish]) for index in range(answer.choices)]
        return self._with_usage({"candidates": candidates, **self._identity})

    def errors(self, failure: Failure) -> list[Frame]:
        status = int(failure.arg) if failure.arg.isdecimal() else 503
        return [Frame(b"", _encode(gemini_error(status, "simulated failure")))]

    def ping(self) -> Frame | None:
        return Frame(b"", b"{%s}" % self._tail)

    def _pieces(self, index: int) -> Iterator[Frame]:
        answer = self._answer
        for piece in answer.reasoning():
            yield self._piece(index, piece, b',"thought":true')
        for piece in answer.text():
            yield self._piece(index, piece, b"")
        for part in self._calls():
            chunk: dict[str, Any] = {"candidates": [self._candidate(index, [part])], **self._identity}
            yield Frame(b"", _encode(self._with_usage(chunk) if self._kind == "running" else chunk), piece=True)

    def _piece(self, index: int, piece: str, thought: bytes) -> Frame:
        """The hot path: bytes are joined, no value is built."""
        tail = self._tail
        if self._kind == "running":
            tail = b'%s,"usageMetadata":%s' % (tail, _encode(self._usage()))
        data = b'{"candidates":[{"content":{"parts":[{"text":%s%s}],"role":"model"},"index":%d}],%s}' % (
            _encode(piece),
            thought,
            index,
            tail,
        )
        return Frame(b"", data, piece=True)

    def _candidate(self, index: int, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}}
        if finish is not None:
            candidate["finishReason"] = finish
        return {**candidate, "index": index}

    def _calls(self) -> list[dict[str, Any]]:
        """Calls come whole here."""
        return [
            {
                "functionCall": {"id": call.id, "name": call.name, "args": msgspec.Raw(call.arguments.encode())},
                "thoughtSignature": _SIGNATURE,
            }
            for call in self._answer.calls
        ]

    def _blocked(self) -> dict[str, Any]:
        usage = {"promptTokenCount": self._answer.input_tokens, "totalTokenCount": self._answer.input_tokens}
        feedback = {"promptFeedback": {"blockReason": "SAFETY"}, **self._identity}
        return feedback if self._kind == "none" else feedback | {"usageMetadata": distort(usage, self._kind)}

    def _with_usage(self, chunk: dict[str, Any]) -> dict[str, Any]:
        return chunk if self._kind == "none" else chunk | {"usageMetadata": self._usage()}

    def _usage(self) -> dict[str, Any] | None:
        """Thoughts stand beside the candidates here, cached tokens inside the prompt."""
        answer = self._answer
        usage = {
            "promptTokenCount": answer.input_tokens,
            "candidatesTokenCount": max(0, answer.output_tokens - answer.reasoning_tokens),
            "totalTokenCount": answer.total_tokens + (7 if self._kind == "mismatch" else 0),
        }
        if answer.script.cached:
            usage["cachedContentTokenCount"] = answer.script.cached
        if answer.reasoning_tokens:
            usage["thoughtsTokenCount"] = answer.reasoning_tokens
        return distort(usage, self._kind)
