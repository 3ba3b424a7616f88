"""Writes Messages events: content blocks strictly one after another. Pure.

Usage is only known at the end, so ``message_start`` has zeros and the last ``message_delta`` the numbers, which
overwrite (protocols page 6.3, 13.3). Thinking is shown to a client that asked for it and to no other: code that takes
the first block for the text would break on it. Its signature is the channel's own token in our box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.amounts import messages_usage
from hoptrio.protocols.convert.answer.blocks import Block, Blocks, Sort
from hoptrio.protocols.convert.answer.ends import MESSAGES, End, refined
from hoptrio.protocols.convert.carrier import pack
from hoptrio.protocols.messages.errors import error_data
from hoptrio.protocols.sse import named_event

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Origin, Weighed
    from hoptrio.protocols.convert.carrier import Carried

__all__ = ["MessagesEncoder"]

_encode = msgspec.json.Encoder().encode

#: Looking a member up in its enum costs 60 ns.
_TEXT = Sort.TEXT
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'
#: Sort -> the type of its delta, and the member that has the text.
_DELTAS = {
    Sort.TEXT: b'{"type":"text_delta","text":',
    Sort.REFUSAL: b'{"type":"text_delta","text":',
    Sort.REASONING: b'{"type":"thinking_delta","thinking":',
    Sort.TOOL: b'{"type":"input_json_delta","partial_json":',
}
_CLOSE = b"}}\n\n"


class MessagesEncoder(Blocks):
    """See `vocabulary.Encoder`; it is its only track."""

    def __init__(self, origin: Origin, *, show_thinking: bool) -> None:
        super().__init__()
        self._origin = origin
        self._show_thinking = show_thinking
        self.unconvertible = ""
        self._index = -1
        #: What every delta of the open block begins with.
        self._head = b""

    def start(self) -> bytes:
        """``message_start`` and a ping, as the vendor does."""
        message: dict[str, Any] = {
            "id": f"msg_{self._origin.token}",
            "type": "message",
            "role": "assistant",
            "model": self._origin.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": messages_usage(None),
        }
        return _event("message_start", message=message) + _event("ping")

    def track(self, choice: int) -> MessagesEncoder:
        """There is one message."""
        if choice:
            self.refuse("more than one choice")
        return self

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """See `vocabulary.Track`. Nearly every event comes here: what `_add` does for an open text, without the way."""
        block = self.block
        if block is None or block.sort is not _TEXT:
            return super().text(text)
        return self._head + _encode(text) + _CLOSE

    def reasoning(self, text: str) -> bytes:
        """A thinking block, for those who want it."""
        return super().reasoning(text) if self._show_thinking else b""

    def state(self, carried: Carried) -> bytes:
        """The signature of a thinking block, which may be an empty one."""
        return super().state(carried) if self._show_thinking else b""

    def end(self, usage: Weighed | None) -> bytes:
        """``message_delta`` with the stop reason and the usage, ``message_stop``."""
        wire = self.wind_up()
        end = refined(self.finished, called=self.called, refused=self.refused)
        delta = {
            "stop_reason": MESSAGES[end],
            "stop_sequence": self.stop_sequence if end is End.STOP_SEQUENCE else None,
        }
        return wire + _event("message_delta", delta=delta, usage=messages_usage(usage)) + _event("message_stop")

    def mark(self) -> None:
        """An error event fits behind anything."""

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """``event: error``."""
        return named_event(b"error", error_data(reason, error))

    def refuse(self, why: str) -> None:
        """See `Blocks`."""
        self.unconvertible = self.unconvertible or why

    def _begin(self, block: Block) -> bytes:
        if block.sort is Sort.IMAGE:
            self.refuse("an image in an answer")
            return b""
        self._index += 1
        self._head = _DELTA % self._index + _DELTAS[block.sort]
        return _event("content_block_start", index=self._index, content_block=self._content(block))

    def _content(self, block: Block) -> dict[str, Any]:
        if block.sort is Sort.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        if block.sort is not Sort.TOOL:
            return {"type": "text", "text": ""}
        tool = self._origin.names.get(block.name)
        call_id = block.id or f"toolu_{self._origin.token}_{self._index}"
        return {"type": "tool_use", "id": call_id, "name": tool.name if tool else block.name, "input": {}}

    def _add(self, block: Block, text: str) -> bytes:
        return self._head + _encode(text) + _CLOSE

    def _shut(self, block: Block) -> bytes:
        if block.sort is Sort.IMAGE:
            return b""
        wire = b""
        if block.carried is not None:
            delta = {"type": "signature_delta", "signature": pack(block.carried)}
            wire = _event("content_block_delta", index=self._index, delta=delta)
        return wire + _event("content_block_stop", index=self._index)


def _event(kind: str, **members: Any) -> bytes:
    return named_event(kind.encode(), _encode({"type": kind, **members}))
