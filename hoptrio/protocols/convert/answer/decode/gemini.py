"""Reads Gemini chunks for an encoder. Pure. A whole body is a chunk.

What the provider ran itself (code, searches) is passed over. A ``thoughtSignature`` is needed back where it stood at a
function call (protocols page 7.2), so it is passed on before the call; that of a text or thought comes with its end,
and is passed on behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.decode.lenient import Mending, read_leniently, to_json
from hoptrio.protocols.convert.answer.decode.partial_args import put
from hoptrio.protocols.convert.answer.ends import FROM_GEMINI, End
from hoptrio.protocols.convert.carrier import Carried
from hoptrio.protocols.events import Protocol, SseEvent
from hoptrio.protocols.members import UNREADABLE

if TYPE_CHECKING:
    from hoptrio.protocols.convert.answer.vocabulary import Encoder, Track

__all__ = ["GeminiDecoder"]

#: What a proto enum is when it was never set.
_UNSET = ("", "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")


class _Part(msgspec.Struct, gc=False):
    text: Any = None
    thought: Any = None
    thought_signature: Any = msgspec.field(default=None, name="thoughtSignature")
    function_call: Any = msgspec.field(default=None, name="functionCall")
    inline_data: Any = msgspec.field(default=None, name="inlineData")


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, gc=False):
    index: Any = None
    content: _Content | None = None
    finish_reason: Any = msgspec.field(default=None, name="finishReason")


class _Feedback(msgspec.Struct, gc=False):
    block_reason: Any = msgspec.field(default=None, name="blockReason")


class _Chunk(msgspec.Struct, gc=False):
    candidates: list[_Candidate] | None = None
    feedback: _Feedback | None = msgspec.field(default=None, name="promptFeedback")


_decode = msgspec.json.Decoder(_Chunk).decode


class GeminiDecoder:
    """See `vocabulary.Decoder`."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._candidates: dict[int, _Parts] = {}
        self._started = False

    def feed(self, event: SseEvent) -> bytes:
        """One chunk."""
        data = event[1]
        ragged = False
        try:
            chunk: _Chunk | None = _decode(data)
        except UNREADABLE:
            chunk, ragged = read_leniently(data, _Chunk), True
        if chunk is None:
            return b""
        wire = b""
        if not self._started:
            self._started = True
            wire = self._encoder.start()
        for candidate in chunk.candidates or ():
            parts = self._parts(candidate.index)
            if ragged:
                parts.mend()
            if candidate.content is not None and candidate.content.parts:
                wire += parts.take(candidate.content.parts)
            if _is_set(candidate.finish_reason):
                wire += parts.finish(FROM_GEMINI.get(candidate.finish_reason, End.LENGTH))
        if chunk.feedback is not None and _is_set(chunk.feedback.block_reason):
            wire += self._parts(0).finish(End.FILTERED)
        return wire

    def whole(self, data: bytes) -> bytes:
        """One body."""
        return self.feed(SseEvent(b"", data))

    def _parts(self, index: Any) -> _Parts:
        index = index if type(index) is int and index >= 0 else 0
        found = self._candidates.get(index)
        if found is None:
            found = self._candidates[index] = _Parts(self._encoder.track(index))
        return found


class _Parts:
    """One candidate's parts."""

    def __init__(self, track: Track) -> None:
        self._track = track
        self._calls = 0
        #: Arguments of a call that comes in pieces; None between such calls.
        self._args: dict[str, Any] | None = None

    def mend(self) -> None:
        """What follows may hold half characters."""
        if not isinstance(self._track, Mending):
            self._track = Mending(self._track)

    def take(self, parts: list[_Part]) -> bytes:
        """The parts of one chunk."""
        wire = b""
        for part in parts:
            text = part.text
            if text and type(text) is str:
                wire += self._track.reasoning(text) if part.thought else self._track.text(text)
            elif isinstance(part.function_call, dict):
                wire += self._call(part.function_call, part.thought_signature)
                continue
            elif isinstance(part.inline_data, dict):
                wire += self._inline(part.inline_data)
            if part.thought_signature:
                wire += self._state(part.thought_signature)
        return wire

    def finish(self, end: End) -> bytes:
        """The candidate's reason to stop."""
        self._track.finish(end)
        return self._end_call()

    def _call(self, call: dict[str, Any], signature: Any) -> bytes:
        wire = b""
        name, args = call.get("name"), call.get("args")
        if isinstance(name, str) and name:
            wire += self._end_call()
            wire += self._state(signature)
            self._calls += 1
            wire += self._track.tool_open(self._calls, _text(call.get("id")), name)
            self._args = {}
        if self._args is None:
            return wire
        if isinstance(args, dict):
            self._args.update(args)
        for piece in call.get("partialArgs") or () if isinstance(call.get("partialArgs"), list) else ():
            put(self._args, piece)
        return wire if call.get("willContinue") else wire + self._end_call()

    def _state(self, signature: Any) -> bytes:
        return self._track.state(Carried(Protocol.GEMINI, signature)) if _text(signature) else b""

    def _end_call(self) -> bytes:
        if self._args is None:
            return b""
        args, self._args = self._args, None
        text = to_json(args)
        return self._track.tool_args(self._calls, text) + self._track.tool_close(self._calls)

    def _inline(self, data: dict[str, Any]) -> bytes:
        return self._track.image(_text(data.get("mimeType")), _text(data.get("data")))


def _is_set(reason: Any) -> bool:
    return isinstance(reason, str) and reason not in _UNSET


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
