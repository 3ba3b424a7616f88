"""Reads Messages events for an encoder. Pure.

Blocks of hosted tools, and citations, have no equal elsewhere and are passed over; what the model says of them is text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.decode.lenient import Mending, read_leniently, to_json
from hoptrio.protocols.convert.answer.ends import FROM_MESSAGES, End
from hoptrio.protocols.convert.carrier import Carried
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.members import UNREADABLE

if TYPE_CHECKING:
    from hoptrio.protocols.convert.answer.vocabulary import Encoder, Track
    from hoptrio.protocols.events import SseEvent

__all__ = ["MessagesDecoder"]


class _Delta(msgspec.Struct, gc=False):
    type: Any = None
    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    signature: Any = None
    stop_reason: Any = None
    stop_sequence: Any = None


class _Message(msgspec.Struct, gc=False):
    content: Any = None
    stop_reason: Any = None
    stop_sequence: Any = None


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    index: int = -1
    delta: _Delta | None = None
    content_block: Any = None
    message: _Message | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_message = msgspec.json.Decoder(_Message).decode


class MessagesDecoder:
    """See `vocabulary.Decoder`."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._track: Track = encoder.track(0)
        #: Index -> the block that is open there; of a kind that is passed over, none is.
        self._blocks: dict[int, _Block] = {}

    def feed(self, event: SseEvent) -> bytes:
        """One event."""
        try:
            read: _Event | None = _decode_event(event[1])
        except UNREADABLE:
            read = read_leniently(event[1], _Event)
            self._mend()
        if read is None:
            return b""
        kind = read.type or event[0].decode("utf-8", "replace")
        if kind == "content_block_delta":
            block, delta = self._blocks.get(read.index), read.delta
            if block is None or delta is None:
                return b""
            if block.kind == "text" and type(delta.text) is str:
                return self._track.text(delta.text) if delta.text else b""
            return self._continue(block, delta)
        if kind == "content_block_start":
            return self._begin(read.index, read.content_block)
        if kind == "content_block_stop":
            return self._end(read.index)
        if kind == "message_start":
            return self._encoder.start() + self._take(read.message)
        if kind == "message_delta" and read.delta is not None:
            self._finish(read.delta.stop_reason, read.delta.stop_sequence)
        return b""

    def whole(self, data: bytes) -> bytes:
        """One message."""
        try:
            message: _Message | None = _decode_message(data)
        except UNREADABLE:
            message = read_leniently(data, _Message)
            self._mend()
        return self._encoder.start() + self._take(message)

    def _mend(self) -> None:
        if not isinstance(self._track, Mending):
            self._track = Mending(self._track)

    def _take(self, message: _Message | None) -> bytes:
        """Blocks that a message has from its beginning: all of a whole one, some of one that goes on."""
        if message is None:
            return b""
        content = message.content if isinstance(message.content, list) else []
        wire = b"".join(self._begin(-1, block) + self._end(-1) for block in content)
        self._finish(message.stop_reason, message.stop_sequence)
        return wire

    def _finish(self, reason: Any, stop_sequence: Any) -> None:
        if isinstance(reason, str) and reason:
            met = stop_sequence if isinstance(stop_sequence, str) else None
            self._track.finish(FROM_MESSAGES.get(reason, End.STOP), met)

    def _begin(self, index: int, content: Any) -> bytes:
        kind = content.get("type") if isinstance(content, dict) else None
        if kind not in ("text", "thinking", "redacted_thinking", "tool_use"):
            return b""
        block = self._blocks[index] = _Block(kind)
        if kind == "tool_use":
            given = content.get("input")
            block.input = to_json(given) if isinstance(given, dict) and given else "{}"
            return self._track.tool_open(block, _text(content.get("id")), _text(content.get("name")))
        if kind == "redacted_thinking":
            block.carried = Carried(Protocol.MESSAGES, _text(content.get("data")), redacted=True)
            return b""
        delta = _Delta(text=content.get("text"), thinking=content.get("thinking"), signature=content.get("signature"))
        return self._continue(block, delta)

    def _continue(self, block: _Block, delta: _Delta) -> bytes:
        if block.kind == "text":
            return self._track.text(delta.text) if delta.text and type(delta.text) is str else b""
        if block.kind == "tool_use":
            if not delta.partial_json or type(delta.partial_json) is not str:
                return b""
            block.input = ""
            return self._track.tool_args(block, delta.partial_json)
        if delta.signature and type(delta.signature) is str:
            block.carried = Carried(Protocol.MESSAGES, delta.signature)
        return self._track.reasoning(delta.thinking) if delta.thinking and type(delta.thinking) is str else b""

    def _end(self, index: int) -> bytes:
        block = self._blocks.pop(index, None)
        if block is None:
            return b""
        if block.kind == "tool_use":
            given = self._track.tool_args(block, block.input) if block.input else b""
            return given + self._track.tool_close(block)
        return self._track.close() if block.carried is None else self._track.state(block.carried)


class _Block:
    """An open block."""

    __slots__ = ("carried", "input", "kind")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        #: Of a tool call: its arguments, unless they come in deltas.
        self.input = ""
        self.carried: Carried | None = None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
