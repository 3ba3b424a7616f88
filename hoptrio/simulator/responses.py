"""The Responses API as the simulated provider speaks it (protocols page 4.1-4.6, golden stream 13.2)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.simulator.answer import distort
from hoptrio.simulator.frames import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.answer import Answer, ToolCall
    from hoptrio.simulator.script import Failure

__all__ = ["ResponsesDialect"]

_encode = msgspec.json.encode
_CREATED = 1_780_000_000
_REASONS = {"length": "max_output_tokens", "filter": "content_filter", "block": "content_filter"}


class ResponsesDialect:
    """One answer as output items. Every event has the next sequence number, whoever makes it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._kind = answer.script.usage
        self._id = f"resp_sim_{answer.serial}"
        self._sequence = count()
        #: The items finished so far, which the terminal repeats.
        self._output: list[dict[str, Any]] = []

    def opening(self) -> list[Frame]:
        response = self._response("in_progress")
        return [self._event(f"response.{name}", response=response) for name in ("created", "in_progress")]

    def content(self) -> Iterator[Frame]:
        answer = self._answer
        if answer.reasoning_count:
            yield from self._reasoning()
        if answer.text_count:
            yield from self._message()
        for number, call in enumerate(answer.calls):
            yield from self._call(number, call)

    def closing(self) -> list[Frame]:
        return []

    def terminal(self) -> list[Frame]:
        if self._answer.script.fails("no-finish"):
            return []
        response = self._finished(self._output)
        return [self._event(f"response.{response['status']}", response=response)]

    def body(self) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        answer = self._answer
        if answer.reasoning_count:
            output.append(self._reasoning_item("".join(answer.reasoning())))
        if answer.text_count:
            output.append(self._message_item("".join(answer.text())))
        output += [self._call_item(number, call, call.arguments) for number, call in enumerate(answer.calls)]
        return self._finished(output)

    def errors(self, failure: Failure) -> list[Frame]:
        """`error` is the flat event, `failed` and `failed-usage` the terminal one."""
        if failure.kind == "error":
            code = failure.arg or "server_error"
            fields = {"code": code, "message": "simulated failure", "param": None}
            return [self._event("error", **fields)]
        error = {"code": failure.arg or "server_error", "message": "simulated failure"}
        response = self._response("failed") | {"error": error}
        if failure.kind == "failed-usage":
            response |= {"usage": self._usage()}
        return [self._event("response.failed", response=response)]

    def ping(self) -> Frame | None:
        return Frame(b"keepalive", b'{"type":"keepalive","sequence_number":%d}' % next(self._sequence))

    def _reasoning(self) -> Iterator[Frame]:
        index, item_id = len(self._output), self._item_id("rs")
        at: dict[str, Any] = {"item_id": item_id, "output_index": index, "summary_index": 0}
        started = {"id": item_id, "type": "reasoning", "summary": []}
        yield self._event("response.output_item.added", output_index=index, item=started)
        part = {"type": "summary_text", "text": ""}
        yield self._event("response.reasoning_summary_part.added", **at, part=part)
        for piece in self._answer.reasoning():
            yield self._piece("response.reasoning_summary_text.delta", at, piece)
        text = "".join(self._answer.reasoning())
        yield self._event("response.reasoning_summary_text.done", **at, text=text)
        part = {"type": "summary_text", "text": text}
        yield self._event("response.reasoning_summary_part.done", **at, part=part)
        yield self._done(self._reasoning_item(text))

    def _message(self) -> Iterator[Frame]:
        index, item_id = len(self._output), self._item_id("msg")
        at: dict[str, Any] = {"item_id": item_id, "output_index": index, "content_index": 0}
        started = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        yield self._event("response.output_item.added", output_index=index, item=started)
        yield self._event("response.content_part.added", **at, part=_text_part(""))
        for piece in self._answer.text():
            yield self._piece("response.output_text.delta", at, piece, b',"logprobs":[]')
        text = "".join(self._answer.text())
        yield self._event("response.output_text.done", **at, text=text, logprobs=[])
        yield self._event("response.content_part.done", **at, part=_text_part(text))
        yield self._done(self._message_item(text))

    def _call(self, number: int, call: ToolCall) -> Iterator[Frame]:
        item = self._call_item(number, call, "", "in_progress")
        index = len(self._output)
        at = {"item_id": item["id"], "output_index": index}
        yield self._event("response.output_item.added", output_index=index, item=item)
        event = "response.custom_tool_call_input" if call.tool.custom else "response.function_call_arguments"
        for fragment in call.fragments:
            yield self._piece(f"{event}.delta", at, fragment)
        done = {"input": call.arguments} if call.tool.custom else {"name": call.name, "arguments": call.arguments}
        yield self._event(f"{event}.done", **at, **done)
        yield self._done(self._call_item(number, call, call.arguments))

    def _done(self, item: dict[str, Any]) -> Frame:
        self._output.append(item)
        return self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)

    def _piece(self, name: str, at: dict[str, Any], piece: str, tail: bytes = b"") -> Frame:
        """The hot path: one small value and one string are encoded."""
        kind = name.encode()
        place = _encode(at)[1:-1]
        data = b'{"type":"%s","sequence_number":%d,%s,"delta":%s%s}' % (
            kind,
            next(self._sequence),
            place,
            _encode(piece),
            tail,
        )
        return Frame(kind, data, piece=True)

    def _event(self, kind: str, **fields: Any) -> Frame:
        event = {"type": kind, "sequence_number": next(self._sequence), **fields}
        return Frame(kind.encode(), _encode(event))

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_sim_{self._answer.serial}"

    def _reasoning_item(self, text: str) -> dict[str, Any]:
        return {"id": self._item_id("rs"), "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}

    def _message_item(self, text: str) -> dict[str, Any]:
        return {
            "id": self._item_id("msg"),
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [_text_part(text)],
        }

    def _call_item(self, number: int, call: ToolCall, arguments: str, status: str = "completed") -> dict[str, Any]:
        custom = call.tool.custom
        item = {
            "id": f"{self._item_id('ctc' if custom else 'fc')}_{number}",
            "type": "custom_tool_call" if custom else "function_call",
            "status": status,
            "call_id": call.id,
            "name": call.name,
            "input" if custom else "arguments": arguments,
        }
        return item | {"namespace": call.tool.namespace} if call.tool.namespace else item

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": _CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": self._answer.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": 1,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1,
            "metadata": {},
            "service_tier": "default",
            "usage": None,
        }

    def _finished(self, output: list[dict[str, Any]]) -> dict[str, Any]:
        status = "incomplete" if self._answer.finish in _REASONS else "completed"
        response = self._response(status) | {"output": output}
        if status == "incomplete":
            response |= {"incomplete_details": {"reason": _REASONS[self._answer.finish]}}
        if self._kind == "none":
            del response["usage"]
            return response
        return response | {"usage": self._usage()}

    def _usage(self) -> dict[str, Any] | None:
        answer = self._answer
        usage = {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {
                "cached_tokens": answer.script.cached,
                "cache_write_tokens": answer.script.cache_write,
            },
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
            "total_tokens": answer.total_tokens + (7 if self._kind == "mismatch" else 0),
        }
        return distort(usage, self._kind)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
