"""Writes Gemini chunks, as ``data:`` events or as elements of a JSON array. Pure.

A function call is one part with whole arguments, so it is written when it is complete; one whose arguments are no
object, which a limit may cut, is not written at all: half a command must never be run (cases 40). Thoughts are shown to
a client that asked for them. A channel's opaque token goes in the ``thoughtSignature`` of the next part, where Gemini
itself has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import proxy

import msgspec

from hoptrio.limits import CHOICES_MAX
from hoptrio.protocols.convert.answer.amounts import gemini_usage
from hoptrio.protocols.convert.answer.blocks import Block, Blocks, Sort
from hoptrio.protocols.convert.answer.ends import GEMINI, End, refined
from hoptrio.protocols.convert.carrier import Carried, pack
from hoptrio.protocols.gemini.array import ArrayFraming
from hoptrio.protocols.gemini.errors import error_data
from hoptrio.protocols.members import loads
from hoptrio.protocols.sse import data_event

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Origin, Weighed

__all__ = ["GeminiEncoder", "call_part", "finish_reason", "grounding"]

_encode = msgspec.json.Encoder().encode
#: Looking a member up in its enum costs 60 ns.
_TEXT = Sort.TEXT
_DATA = b"data: "


class GeminiEncoder:
    """See `vocabulary.Encoder`. `array`: the client did not ask for SSE."""

    def __init__(self, origin: Origin, *, show_thoughts: bool, array: bool) -> None:
        self.origin = origin
        self.show_thoughts = show_thoughts
        self.unconvertible = ""
        self.sse = not array
        self._array = ArrayFraming() if array else None
        #: Elements of the array that are held back; None if nothing is.
        self._held: int | None = None
        self._tracks: dict[int, _GeminiTrack] = {}
        self._common = _encode({"modelVersion": origin.model, "responseId": origin.token})[1:]
        #: What follows a part that is a chunk's only one.
        self.part_end = b"]}}]," + self._common

    def start(self) -> bytes:
        """Nothing: a chunk without content says nothing."""
        self.track(0)
        return b""

    def track(self, choice: int) -> _GeminiTrack:
        """A candidate."""
        if choice >= CHOICES_MAX:
            self.refuse("too many candidates")
            return self.track(0)
        if choice not in self._tracks:
            self._tracks[choice] = _GeminiTrack(self, choice)
        return self._tracks[choice]

    def refuse(self, why: str) -> None:
        """See `vocabulary.Encoder`."""
        self.unconvertible = self.unconvertible or why

    def end(self, usage: Weighed | None) -> bytes:
        """A last chunk with every finish reason and the usage, and the end of the array."""
        wire = b"".join(track.wind_up() for track in self._tracks.values())
        more = b"" if usage is None else b'"usageMetadata":' + _encode(gemini_usage(usage)) + b","
        candidates = [track.last() for track in self._tracks.values()]
        wire += self.frame(b'{"candidates":' + _encode(candidates) + b"," + more + self._common)
        return wire + (self._array.close() if self._array else b"")

    def mark(self) -> None:
        """See `vocabulary.Encoder`."""
        self._held = 0

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """An event or element with the error."""
        if self._array is not None:
            for _ in range(self._held or 0):
                self._array.discard()
        self._held = None
        return self.frame(error_data(error))

    def frame(self, data: bytes) -> bytes:
        """One event or element."""
        if self._array is None:
            return data_event(data)
        if self._held is not None:
            self._held += 1
        return self._array.element(data)


class _GeminiTrack(Blocks):
    """See `vocabulary.Track`."""

    def __init__(self, owner: GeminiEncoder, choice: int) -> None:
        super().__init__()
        # Not owned: a cycle would wait for the collector.
        self._owner: GeminiEncoder = proxy(owner)
        self._choice = choice
        self._calls = 0
        #: A call was left out.
        self._malformed = False
        self._citations: list[Citation] = []
        #: A token that waits for its part.
        self._carried: Carried | None = None
        self._head = b'{"candidates":[{"index":%d,"content":{"role":"model","parts":[' % choice
        self._text = self._head + b'{"text":'
        self._rest = b"}" + owner.part_end
        self._sse = owner.sse

    def refuse(self, why: str) -> None:
        """See `Blocks`."""
        self._owner.refuse(why)

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """See `vocabulary.Track`. Nearly every event comes here: what `_add` does for an open text, without the way."""
        block = self.block
        if block is None or block.sort is not _TEXT or self._carried is not None:
            return super().text(text)
        if self._sse:
            return b"".join((_DATA, self._text, _encode(text), self._rest, b"\n\n"))
        return self._owner.frame(self._text + _encode(text) + self._rest)

    def last(self) -> dict[str, Any]:
        """The candidate of the last chunk."""
        part: dict[str, Any] = {"text": ""}
        self._sign(part)
        return {
            "index": self._choice,
            "content": {"role": "model", "parts": [part]},
            "finishReason": finish_reason(self, malformed=self._malformed),
            **grounding(self._citations),
        }

    def _cite(self, block: Block, citation: Citation) -> bytes:
        self._citations.append(citation)
        return b""

    def _begin(self, block: Block) -> bytes:
        return b""

    def _add(self, block: Block, text: str) -> bytes:
        if block.sort is Sort.TOOL:
            return b""
        if block.sort is Sort.REASONING:
            block.pieces.append(text)
            return self._part({"text": text, "thought": True}) if self._owner.show_thoughts else b""
        if self._carried is not None:
            return self._part({"text": text}, signed=True)
        return self._owner.frame(self._text + _encode(text) + self._rest)

    def _shut(self, block: Block) -> bytes:
        if block.sort is Sort.IMAGE:
            return self._part({"inlineData": {"mimeType": block.name, "data": block.text}}, signed=True)
        if block.sort is Sort.REASONING:
            return self._keep(block)
        if block.sort is not Sort.TOOL:
            return b""
        part = call_part(block, self._owner.origin, f"{self._choice}_{self._calls}")
        self._calls += 1
        self._malformed = self._malformed or part is None
        return b"" if part is None else self._part(part, signed=True)

    def _keep(self, block: Block) -> bytes:
        """A token that waits for its part; with the reasoning it was made for, unless the client has that. One that
        waits already gets an empty part."""
        if block.carried is None:
            return b""
        wire = b"" if self._carried is None else self._part({"text": ""}, signed=True)
        text = None if self._owner.show_thoughts else block.text or None
        self._carried = msgspec.structs.replace(block.carried, text=block.carried.text or text)
        return wire

    def _part(self, part: dict[str, Any], *, signed: bool = False) -> bytes:
        if signed:
            self._sign(part)
        return self._owner.frame(self._head + _encode(part) + self._owner.part_end)

    def _sign(self, part: dict[str, Any]) -> None:
        if self._carried is not None:
            part["thoughtSignature"] = pack(self._carried)
            self._carried = None


def call_part(block: Block, origin: Origin, place: str) -> dict[str, Any] | None:
    """The part of a whole function call; None if its arguments are no object."""
    args = loads((block.text.strip() or "{}").encode())
    if not isinstance(args, dict):
        return None
    tool = origin.names.get(block.name)
    call_id = block.id or f"call_{origin.token}_{place}"
    return {"functionCall": {"id": call_id, "name": tool.name if tool else block.name, "args": args}}


def grounding(citations: Iterable[Citation]) -> dict[str, Any]:
    """The candidate's member for sources, each page once. Which words they are for is not said: Gemini counts bytes."""
    titles = {each.url: each.title for each in citations}
    chunks = [{"web": {"uri": url, "title": title}} for url, title in titles.items()]
    return {"groundingMetadata": {"groundingChunks": chunks}} if chunks else {}


def finish_reason(track: Blocks, *, malformed: bool) -> str:
    """Gemini's word; a call that was left out is one that the limit cut, or malformed."""
    end = refined(track.finished, called=track.called, refused=track.refused)
    if malformed and end is not End.LENGTH:
        return "MALFORMED_FUNCTION_CALL"
    return GEMINI[end]
