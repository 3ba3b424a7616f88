"""What a client may ask of a Responses answer afterwards: its id, and the response object. Pure, over our own bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from hoptrio.protocols.members import ABSENT, UNREADABLE, loads

__all__ = ["LatestResponse", "broken_off", "name_of"]


class _Id(msgspec.Struct, gc=False):
    id: str = ""


class _Told(msgspec.Struct, gc=False):
    """A whole body, or an event's data."""

    id: str = ""
    response: _Id | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    response: msgspec.Raw = ABSENT
    output_index: Any = None
    item: Any = None
    content_index: Any = None
    part: Any = None
    delta: Any = None


_TOLD = msgspec.json.Decoder(_Told)
_EVENT = msgspec.json.Decoder(_Event)
#: What a delta goes on with: a member of its item, or of a part of that item's content.
_GROWS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "text",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_GOES_ON = ("in_progress", "queued")


def name_of(told: bytes) -> str:
    """The response's id, from the first event or a whole body; "" if it does not say."""
    try:
        found = _TOLD.decode(told if told.startswith(b"{") else _data(told.partition(b"\n\n")[0]))
    except UNREADABLE:
        return ""
    return found.id if found.response is None else found.response.id


class _Item:
    """An item of the output, as far as it has come; its deltas are joined when it is asked for."""

    def __init__(self, item: dict[str, Any]) -> None:
        self._item = item
        #: By index, and what was told of each member since then.
        self._parts: dict[int, dict[str, Any]] = {}
        self._grown: dict[tuple[int | None, str], list[str]] = {}

    def part(self, index: int, part: dict[str, Any]) -> None:
        self._parts[index] = part
        for key in [key for key in self._grown if key[0] == index]:
            del self._grown[key]

    def grow(self, index: int | None, member: str, delta: str) -> None:
        self._grown.setdefault((index, member), []).append(delta)

    def value(self) -> dict[str, Any]:
        parts = {index: dict(part) for index, part in self._parts.items()}
        item = dict(self._item)
        for (index, member), deltas in self._grown.items():
            holder = item if index is None else parts.get(index, {})
            holder[member] = str(holder.get(member) or "") + "".join(deltas)
        return item | {"content": [parts[index] for index in sorted(parts)]} if parts else item


class LatestResponse:
    """The response object of a stream as it stands: `tell` is for `numbering.Replay`, and tells nothing; `body` is that
    of the newest event that has one, b"" before, and while it runs with the output that has been told. It is final in
    ``response.completed`` and its like."""

    def __init__(self) -> None:
        self._response = b""
        self._items: dict[int, _Item] = {}

    @property
    def body(self) -> bytes:
        """See the class."""
        members = loads(self._response) if self._items else None
        if not isinstance(members, dict) or members.get("status") not in _GOES_ON or members.get("output"):
            return self._response
        return msgspec.json.encode(members | {"output": [self._items[at].value() for at in sorted(self._items)]})

    def tell(self, _number: int, block: bytes) -> bytes:
        """One event, without its blank line."""
        with suppress(*UNREADABLE):
            event = _EVENT.decode(_data(block))
            if event.response is not ABSENT and event.type.startswith("response."):
                self._response = bytes(event.response)
            if type(event.output_index) is int:
                self._output(event, event.output_index)
        return b""

    def _output(self, event: _Event, at: int) -> None:
        index = event.content_index if type(event.content_index) is int else None
        if event.type in ("response.output_item.added", "response.output_item.done"):
            if isinstance(event.item, dict):
                self._items[at] = _Item(event.item)
        elif at not in self._items:
            return
        elif event.type in ("response.content_part.added", "response.content_part.done"):
            if index is not None and isinstance(event.part, dict):
                self._items[at].part(index, event.part)
        elif event.type in _GROWS and isinstance(event.delta, str):
            self._items[at].grow(index, _GROWS[event.type], event.delta)


def broken_off(body: bytes) -> bytes:
    """A response object whose stream ended without saying how: it has failed, where it says that it goes on."""
    members = loads(body)
    if not isinstance(members, dict) or members.get("status") not in _GOES_ON:
        return body
    error = {"code": "server_error", "message": "The answer broke off before its end."}
    return msgspec.json.encode(members | {"status": "failed", "error": error})


def _data(block: bytes) -> bytes:
    return b"\n".join(line[6:] for line in block.split(b"\n") if line.startswith(b"data: "))
