"""Reads one Gemini answer, streamed or whole. Sans-IO; never raises for what a provider sends.

Gemini has no terminal event (protocols page 7.2): the body just ends, and any event may be the last from the first
``finishReason`` or ``promptFeedback.blockReason`` on. So from there every event is `Kind.TERMINAL`, of which the stream
holds back the newest. A stream is complete when every candidate seen has a finish reason, or the prompt was blocked,
and no error came, inside ``data:`` or outside; then silence counts as the end of the body. While another candidate is
unfinished there is no such patience, and the stream's own clocks decide.

Events are ``data:`` only, bytes unchanged: official clients fail on names, ids, comments and ``[DONE]``. In the array
form the same bytes are elements (`array.ArrayFraming`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.limits import GEMINI_TAIL_S
from hoptrio.protocols.events import Finish, Framing, Kind, Step
from hoptrio.protocols.gemini.array import ArrayFraming
from hoptrio.protocols.gemini.errors import error_data, provider_error
from hoptrio.protocols.gemini.usage import UsageMetadata, counts_of, read_usage
from hoptrio.protocols.members import ABSENT, UNREADABLE, is_filled
from hoptrio.protocols.sse import data_event
from hoptrio.protocols.stream_error import one_line, stream_error
from hoptrio.protocols.unary import UnaryAnswer

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Call, Counts, ProviderError, SseEvent

__all__ = ["GeminiReader", "read", "reader"]


class _Content(msgspec.Struct):
    parts: list[dict[str, msgspec.Raw]] | None = None


class _Candidate(msgspec.Struct):
    index: int | None = None
    content: _Content | None = None
    finish_reason: str | None = msgspec.field(default=None, name="finishReason")
    grounding: msgspec.Raw = msgspec.field(default=ABSENT, name="groundingMetadata")


class _Feedback(msgspec.Struct, gc=False):
    block_reason: str | None = msgspec.field(default=None, name="blockReason")


class _Chunk(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = msgspec.field(default=None, name="promptFeedback")
    usage: msgspec.Raw = msgspec.field(default=ABSENT, name="usageMetadata")
    error: msgspec.Raw = ABSENT


class _LooseChunk(msgspec.Struct, gc=False):
    """What is still read of a chunk whose candidates or feedback are of an unknown make."""

    usage: msgspec.Raw = msgspec.field(default=ABSENT, name="usageMetadata")
    error: msgspec.Raw = ABSENT


class _Blob(msgspec.Struct, gc=False):
    mime_type: str = msgspec.field(default="", name="mimeType")


class _Grounding(msgspec.Struct):
    queries: list[str] | None = msgspec.field(default=None, name="webSearchQueries")


_CHUNK = msgspec.json.Decoder(_Chunk)
_LOOSE_CHUNK = msgspec.json.Decoder(_LooseChunk)
_BLOB = msgspec.json.Decoder(_Blob)
_GROUNDING = msgspec.json.Decoder(_Grounding)

#: What a proto enum is when it was never set.
_UNSET = frozenset({None, "", "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})


class _Tally:
    """What the chunks of an answer add up to. `by_image`: images are counted."""

    __slots__ = ("_finished", "_images", "_open", "_queries", "_thoughts", "_usage", "_usage_raw", "blocked")

    def __init__(self, *, by_image: bool) -> None:
        self.blocked = False
        #: None = they are not counted.
        self._images: int | None = 0 if by_image else None
        self._open: set[int] = set()
        self._finished: set[int] = set()
        self._usage: UsageMetadata | None = None
        self._usage_raw = b""
        self._queries: set[str] = set()
        self._thoughts = 0

    @property
    def ending(self) -> bool:
        """A finish or block reason was seen."""
        return self.blocked or bool(self._finished)

    @property
    def ended(self) -> bool:
        """Nothing is unfinished."""
        return self.blocked or (bool(self._finished) and not self._open)

    def take(self, chunk: _Chunk | _LooseChunk) -> bool:
        """Add one chunk; True if it moved the answer, which growing thoughts do even without a text."""
        moved = False
        if isinstance(chunk, _Chunk):
            for candidate in chunk.candidates or ():
                moved = self._take_candidate(candidate) or moved
            if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason not in _UNSET:
                self.blocked = True
        if chunk.usage is not ABSENT and is_filled(chunk.usage):
            moved = self._take_usage(chunk.usage) or moved
        return moved

    def counts(self) -> Counts | None:
        """The last usage reported, if it is valid."""
        if self._usage is None:
            return None
        tool_calls = {"google_search": len(self._queries)} if self._queries else {}
        return counts_of(self._usage, self._usage_raw, tool_calls, self._images)

    def _take_candidate(self, candidate: _Candidate) -> bool:
        index = candidate.index or 0
        if candidate.finish_reason not in _UNSET:
            self._finished.add(index)
            self._open.discard(index)
        elif index not in self._finished:
            self._open.add(index)
        if candidate.grounding is not ABSENT:
            self._queries.update(_queries(candidate.grounding))
        if self._images is not None and candidate.content is not None:
            self._images += sum(map(_is_image, candidate.content.parts or ()))
        return candidate.content is not None and _moves(candidate.content.parts)

    def _take_usage(self, raw: msgspec.Raw) -> bool:
        usage = read_usage(raw)
        if usage is None:
            return False
        self._usage = usage
        # A copy: a raw value keeps its whole event alive, which may be an image.
        self._usage_raw = bytes(raw)
        thoughts = usage.thoughts or 0
        grown = thoughts > self._thoughts
        self._thoughts = max(self._thoughts, thoughts)
        return grown


def reader(call: Call, *, hide_usage: bool) -> GeminiReader:
    """A reader for one stream. Gemini has no way to ask for usage, so there is none to hide."""
    return GeminiReader(ArrayFraming() if call.framing is Framing.JSON_ARRAY else None, by_image=call.by_image)


class GeminiReader:
    """See `protocols.rules.Reader`. Only `feed` writes the public fields.

    `array` frames the wire bytes as array elements; None is SSE. `by_image`: images are counted.
    """

    __slots__ = ("_array", "_holding", "_tally", "answered", "counts", "error", "patience_s", "provider_ids")

    #: A client of the same protocol is told everything.
    unconvertible = ""

    def __init__(self, array: ArrayFraming | None, *, by_image: bool) -> None:
        self.patience_s: float | None = None
        self.answered = False
        self.counts: Counts | None = None
        self.error: ProviderError | None = None
        self.provider_ids: tuple[str, ...] = ()
        self._array = array
        self._tally = _Tally(by_image=by_image)
        #: The newest wire bytes are held back by the stream.
        self._holding = False

    def feed(self, event: SseEvent) -> Step:
        """Classify one event; its wire form is its data as received, as a ``data:`` event or an element."""
        chunk = _chunk(event.data)
        if chunk is None:
            return self._unreadable(event)
        if chunk.error is not ABSENT and is_filled(chunk.error):
            return self._failed(event, stream_error(event.data))
        if event.stray:
            return Step(Kind.QUIET, b"")
        moved = self._tally.take(chunk)
        if moved:
            self.answered = True
        return Step(self._kind(moved), self._frame(event.data))

    def alike(self) -> None:
        """Nearly every event reports usage anew."""

    def finish(self, *, clean: bool) -> Finish:
        """Complete as the module says; an array is still to be closed. A body that broke off is complete only with its
        usage: without it, there is nothing to say that the newest event was the last."""
        complete = self._tally.ended and self.error is None and (clean or self.counts is not None)
        return Finish(complete, self._array.close() if complete and self._array else b"")

    @property
    def reported(self) -> Counts | None:
        """See `rules.Reader`."""
        return self._tally.counts()

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our own error event or element, fit to follow everything but the event that is held back."""
        if self._array and self._holding:
            self._array.discard()
        self._holding = False
        return self._frame(error_data(error))

    def _kind(self, moved: bool) -> Kind:
        if self._tally.ending:
            ended = self._tally.ended
            self.patience_s = GEMINI_TAIL_S if ended else None
            self.counts = self._tally.counts() if ended else None
            self._holding = True
            return Kind.TERMINAL
        if moved:
            return Kind.ANSWER
        return Kind.QUIET if self.answered else Kind.OPENING

    def _frame(self, data: bytes) -> bytes:
        return data_event(data) if self._array is None else self._array.element(data)

    def _unreadable(self, event: SseEvent) -> Step:
        """Not a JSON object: ``[DONE]`` is dropped, a list that holds an error fails, the rest is the client's to
        judge, in its place among the events."""
        found = stream_error(event.data)
        if found is not None:
            return self._failed(event, found)
        if event.stray or event.data.strip() == b"[DONE]":
            return Step(Kind.QUIET, b"")
        return Step(Kind.TERMINAL if self._holding else Kind.QUIET, self._frame(event.data))

    def _failed(self, event: SseEvent, found: Any) -> Step:
        self.error = provider_error(found)
        self.counts = None
        self.patience_s = 0
        self._holding = False
        return Step(Kind.FAILURE, self._frame(one_line(event.data) if event.stray else event.data))


def read(call: Call, body: bytes) -> UnaryAnswer:
    """Read a whole 2xx answer; a count of tokens has no usage, and an error inside a 200 is an error."""
    tally = _Tally(by_image=call.by_image)
    if (chunk := _chunk(body)) is not None:
        tally.take(chunk)
    counts = tally.counts()
    if (found := stream_error(body)) is not None:
        return UnaryAnswer(reported=counts, error=provider_error(found))
    return UnaryAnswer(counts=counts, reported=counts)


def _chunk(data: bytes) -> _Chunk | _LooseChunk | None:
    """One JSON object, as far as its makes are known; None if it is none."""
    try:
        return _CHUNK.decode(data)
    except UNREADABLE:
        pass
    try:
        return _LOOSE_CHUNK.decode(data)
    except UNREADABLE:
        return None


def _moves(parts: list[dict[str, msgspec.Raw]] | None) -> bool:
    """Whether a part brings anything: a text, a signature, or any other kind of part; ``thought`` only says what the
    text is."""
    for part in parts or ():
        for name, value in part.items():
            if name != "thought" and is_filled(value):
                return True
    return False


def _is_image(part: dict[str, msgspec.Raw]) -> bool:
    """Whether a part is an image of the answer, not one that was only thought of."""
    raw = part.get("inlineData") or part.get("inline_data")
    if raw is None or is_filled(part.get("thought", ABSENT)):
        return False
    try:
        return _BLOB.decode(raw).mime_type.lower().startswith("image/")
    except UNREADABLE:
        return False


def _queries(raw: msgspec.Raw) -> list[str]:
    """The web searches behind a grounded answer, which are priced by the query."""
    try:
        return _GROUNDING.decode(raw).queries or []
    except UNREADABLE:
        return []
