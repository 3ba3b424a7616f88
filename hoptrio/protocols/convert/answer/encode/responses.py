"""Writes Responses events in the canonical order (protocols page 4.5): numbers without gaps, an item after the other.

A message stays open over its parts, so that text the provider cut into blocks is one message of several parts. Every
``done`` repeats what its deltas said, and the terminal repeats every item (cases 41). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer import items
from hoptrio.protocols.convert.answer.blocks import Block, Blocks, Sort
from hoptrio.protocols.convert.answer.ends import refined
from hoptrio.protocols.responses.errors import error_event
from hoptrio.protocols.sse import named_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Origin, Weighed

__all__ = ["ResponsesEncoder"]

_encode = msgspec.json.Encoder().encode

#: Looking a member up in its enum costs 60 ns.
_TEXT = Sort.TEXT
_DELTA = b'event: %b\ndata: {"type":"%b","sequence_number":'
_TEXT_DELTA = b"response.output_text.delta"
_REASONING_DELTA = b"response.reasoning_summary_text.delta"
_REFUSAL_DELTA = b"response.refusal.delta"
_ARGUMENTS_DELTA = b"response.function_call_arguments.delta"


class ResponsesEncoder(Blocks):
    """See `vocabulary.Encoder`; it is its only track."""

    def __init__(self, origin: Origin, body: Mapping[str, Any]) -> None:
        super().__init__()
        self._origin = origin
        self._response = items.opened(origin, body)
        self.unconvertible = ""
        self._number = 0
        #: The first number that was not sent, if something is held back.
        self._sent: int | None = None
        self._output: list[Any] = []
        self._item_id = ""
        #: Parts of the message that is open; None if none is.
        self._parts: list[Any] | None = None
        self._annotations: list[Any] = []
        self._logprobs: list[Any] = []
        self._head = self._place = self._rest = b""

    def start(self) -> bytes:
        """``response.created`` and ``response.in_progress``."""
        created = self._event("response.created", response=self._response)
        return created + self._event("response.in_progress", response=self._response)

    def track(self, choice: int) -> ResponsesEncoder:
        """There is one response."""
        if choice:
            self.refuse("more than one choice")
        return self

    def end(self, usage: Weighed | None) -> bytes:
        """``response.completed`` or ``response.incomplete``."""
        wire = self.wind_up() + self._end_message()
        end = refined(self.finished, called=self.called, refused=self.refused)
        response = items.ended(self._response, end, self._output, usage)
        return wire + self._event(f"response.{response['status']}", response=response)

    def mark(self) -> None:
        """See `vocabulary.Encoder`."""
        self._sent = self._number

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """``response.failed``."""
        number = self._number if self._sent is None else self._sent
        return error_event(
            error,
            model=self._origin.model,
            response=_encode(self._response),
            sequence_number=number,
            created=number > 0,
        )

    def refuse(self, why: str) -> None:
        """See `Blocks`."""
        self.unconvertible = self.unconvertible or why

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """See `vocabulary.Track`. Nearly every event comes here: what `_add` does for an open text, without the way."""
        block = self.block
        if block is None or block.sort is not _TEXT or logprobs:
            return super().text(text, logprobs)
        block.pieces.append(text)
        number = self._number
        self._number = number + 1
        return b"".join((self._head, _encode(number), self._place, _encode(text), self._rest))

    def _begin(self, block: Block) -> bytes:
        if block.sort is Sort.TEXT or block.sort is Sort.REFUSAL:
            return self._begin_part(block)
        wire = self._end_message()
        if block.sort is Sort.REASONING:
            return wire + self._begin_reasoning(block)
        if block.sort is Sort.TOOL:
            return wire + self._begin_call(block)
        self._new_item("ig")
        item = items.image_item(self._item_id, block.text)
        return wire + self._add_item(item | {"status": "in_progress", "result": None}) + self._end_item(item)

    def _begin_part(self, block: Block) -> bytes:
        wire = b""
        if self._parts is None:
            self._parts = []
            self._new_item("msg")
            wire = self._add_item(items.message_item(self._item_id, "in_progress", []))
        self._annotations, self._logprobs = [], []
        part = items.refusal_part("") if block.sort is Sort.REFUSAL else items.text_part("", [], [])
        wire += self._event("response.content_part.added", **self._here(), part=part)
        if block.sort is Sort.REFUSAL:
            return wire + self._deltas(_REFUSAL_DELTA, self._here())
        return wire + self._deltas(_TEXT_DELTA, self._here(), b',"logprobs":[]}\n\n')

    def _begin_reasoning(self, block: Block) -> bytes:
        self._new_item("rs")
        wire = self._add_item({"id": self._item_id, "type": "reasoning", "summary": []})
        # The part is announced with its first text: reasoning that is not shown has none.
        return wire + self._deltas(_REASONING_DELTA, self._here("summary_index"))

    def _begin_call(self, block: Block) -> bytes:
        self._new_item("ctc" if items.is_custom(block, self._origin) else "fc")
        item = items.call_item(self._item_id, block, self._origin, status="in_progress", arguments="")
        return self._add_item(item) + self._deltas(_ARGUMENTS_DELTA, self._here(None))

    def _add(self, block: Block, text: str) -> bytes:
        wire = b""
        if block.sort is Sort.TOOL:
            if items.is_custom(block, self._origin):
                return b""
        else:
            if block.sort is Sort.REASONING and not block.pieces:
                part = {"type": "summary_text", "text": ""}
                wire = self._event("response.reasoning_summary_part.added", **self._here("summary_index"), part=part)
            block.pieces.append(text)
        number = self._number
        self._number = number + 1
        return wire + b"".join((self._head, _encode(number), self._place, _encode(text), self._rest))

    def _add_measured(self, block: Block, text: str, logprobs: list[Any]) -> bytes:
        block.pieces.append(text)
        self._logprobs += logprobs
        return self._event("response.output_text.delta", **self._here(), delta=text, logprobs=logprobs)

    def _cite(self, block: Block, citation: Citation) -> bytes:
        annotation = items.annotation(citation)
        at = len(self._annotations)
        self._annotations.append(annotation)
        kind = "response.output_text.annotation.added"
        return self._event(kind, **self._here(), annotation_index=at, annotation=annotation)

    def _shut(self, block: Block) -> bytes:
        if block.sort is Sort.TEXT or block.sort is Sort.REFUSAL:
            return self._end_part(block)
        if block.sort is Sort.REASONING:
            return self._end_reasoning(block)
        return self._end_call(block) if block.sort is Sort.TOOL else b""

    def _end_part(self, block: Block) -> bytes:
        text = block.text
        if block.sort is Sort.REFUSAL:
            part = items.refusal_part(text)
            wire = self._event("response.refusal.done", **self._here(), refusal=text)
        else:
            part = items.text_part(text, self._annotations, self._logprobs)
            wire = self._event("response.output_text.done", **self._here(), text=text, logprobs=self._logprobs)
        wire += self._event("response.content_part.done", **self._here(), part=part)
        if self._parts is not None:
            self._parts.append(part)
        return wire

    def _end_message(self) -> bytes:
        if self._parts is None:
            return b""
        parts, self._parts = self._parts, None
        return self._end_item(items.message_item(self._item_id, "completed", parts))

    def _end_reasoning(self, block: Block) -> bytes:
        wire = b""
        if text := block.text:
            here, part = self._here("summary_index"), {"type": "summary_text", "text": text}
            wire = self._event("response.reasoning_summary_text.done", **here, text=text)
            wire += self._event("response.reasoning_summary_part.done", **here, part=part)
        return wire + self._end_item(items.reasoning_item(self._item_id, block))

    def _end_call(self, block: Block) -> bytes:
        wire = b""
        if items.is_custom(block, self._origin):
            text, name, kind = items.custom_input(block), "input", "response.custom_tool_call_input"
            wire = self._event(f"{kind}.delta", **self._here(None), delta=text) if text else b""
        else:
            name, kind = "arguments", "response.function_call_arguments"
            if not block.text.strip():
                # Clients parse what they get: no arguments are the empty object.
                block.pieces.append("{}")
                wire = self._add(block, "{}")
            text = block.text
        item = items.call_item(self._item_id, block, self._origin, status="completed", arguments=text)
        wire += self._event(f"{kind}.done", **self._here(None), name=item["name"], **{name: text})
        return wire + self._end_item(item)

    def _new_item(self, prefix: str) -> None:
        self._item_id = f"{prefix}_{self._origin.token}_{len(self._output)}"

    def _add_item(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _end_item(self, item: dict[str, Any]) -> bytes:
        wire = self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        return wire

    def _here(self, part: str | None = "content_index") -> dict[str, Any]:
        """Where an event of the open item belongs."""
        here: dict[str, Any] = {"item_id": self._item_id, "output_index": len(self._output)}
        if part is not None:
            here[part] = len(self._parts or ()) if part == "content_index" else 0
        return here

    def _deltas(self, kind: bytes, here: dict[str, Any], rest: bytes = b"}\n\n") -> bytes:
        """Prepare what every delta of the block that begins has in common; writes nothing itself."""
        self._head = _DELTA % (kind, kind)
        self._place = b"," + _encode(here)[1:-1] + b',"delta":'
        self._rest = rest
        return b""

    def _event(self, kind: str, **members: Any) -> bytes:
        number = self._number
        self._number = number + 1
        return named_event(kind.encode(), _encode({"type": kind, "sequence_number": number, **members}))
