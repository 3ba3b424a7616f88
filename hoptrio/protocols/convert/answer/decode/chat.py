"""Reads Chat Completions chunks, in every dialect of protocols page 3.5 and 11, for an encoder. Pure.

Only the leaves are untyped, so that a member of an odd make is passed over and hides nothing beside it. A whole body is
read as one chunk, its ``message`` as the delta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.decode.lenient import Mending, read_leniently, to_json
from hoptrio.protocols.convert.answer.ends import FROM_CHAT, End
from hoptrio.protocols.convert.answer.vocabulary import Citation
from hoptrio.protocols.events import SseEvent
from hoptrio.protocols.members import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.protocols.convert.answer.vocabulary import Encoder, Track

__all__ = ["ChatDecoder"]


class _Delta(msgspec.Struct, gc=False):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    annotations: Any = None
    images: Any = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: Any = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: Any = None
    logprobs: Any = None
    #: vLLM: the stop string that was met.
    stop_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatDecoder:
    """See `vocabulary.Decoder`."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._tracks: dict[int, Track] = {}
        self._calls: dict[int, _Calls] = {}
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
        for choice in chunk.choices or ():
            index = choice.index
            track = self._tracks.get(index) if type(index) is int else None
            if track is None or ragged:
                track = self._track(index, ragged)
            delta = choice.delta or choice.message
            if delta is not None:
                wire += self._take(track, delta, choice)
            if choice.finish_reason:
                _finish(track, choice)
        return wire

    def whole(self, data: bytes) -> bytes:
        """One body."""
        return self.feed(SseEvent(b"", data))

    def _take(self, track: Track, delta: _Delta, choice: _Choice) -> bytes:
        content = delta.content
        thought = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        wire = track.reasoning(thought) if thought and type(thought) is str else b""
        if content:
            if type(content) is str:
                wire += track.text(content, _logprobs(choice.logprobs) if choice.logprobs else None)
            else:
                wire += _parts(track, content)
        # Before the calls: sources belong to the text.
        if delta.refusal or delta.annotations or delta.images or delta.function_call or delta.audio:
            wire += self._take_rare(track, delta, choice)
        if delta.tool_calls:
            wire += self._calls_of(choice.index).take(track, delta.tool_calls)
        return wire

    def _take_rare(self, track: Track, delta: _Delta, choice: _Choice) -> bytes:
        wire = track.refusal(delta.refusal) if delta.refusal and type(delta.refusal) is str else b""
        for each in _dicts(delta.annotations):
            wire += _annotation(track, each)
        for each in _dicts(delta.images):
            wire += _image(track, each)
        if isinstance(delta.function_call, dict):
            call = {"index": "function_call", "function": delta.function_call}
            wire += self._calls_of(choice.index).take(track, [call])
        if delta.audio:
            self._encoder.refuse("audio in an answer")
        return wire

    def _track(self, index: Any, ragged: bool) -> Track:
        index = index if type(index) is int and index >= 0 else 0
        track = self._tracks.get(index) or self._encoder.track(index)
        if ragged and not isinstance(track, Mending):
            track = Mending(track)
        self._tracks[index] = track
        return track

    def _calls_of(self, index: Any) -> _Calls:
        return self._calls.setdefault(index if type(index) is int else 0, _Calls())


class _Calls:
    """Tool calls of one choice: which delta belongs to which.

    Some providers leave the index out, or give several calls the same one; a new id with a name begins a call.
    """

    def __init__(self) -> None:
        #: The provider's index -> our number of its newest call.
        self._numbers: dict[Any, int] = {}
        self._ids: list[str] = []
        #: Calls whose name has not come yet, with their arguments so far.
        self._nameless: dict[int, str] = {}

    def take(self, track: Track, deltas: Any) -> bytes:
        """The ``tool_calls`` of one delta."""
        return b"".join(self._take(track, delta) for delta in _dicts(deltas))

    def _take(self, track: Track, delta: dict[str, Any]) -> bytes:
        custom = isinstance(delta.get("custom"), dict)
        body = delta["custom"] if custom else delta.get("function")
        body = body if isinstance(body, dict) else {}
        call_id, name = _text(delta.get("id")), _text(body.get("name"))
        arguments = _arguments(body.get("input" if custom else "arguments"))
        number, new = self._number(delta.get("index"), call_id, name)
        if new or number in self._nameless:
            if not name:
                self._nameless[number] = self._nameless.get(number, "") + arguments
                return b""
            arguments = self._nameless.pop(number, "") + arguments
            opened = track.tool_open(number, self._ids[number], name, custom=custom)
            return opened + (track.tool_args(number, arguments) if arguments else b"")
        return track.tool_args(number, arguments) if arguments else b""

    def _number(self, index: Any, call_id: str, name: str) -> tuple[int, bool]:
        """The call a delta belongs to, and whether it begins it."""
        if index is None:
            number = self._ids.index(call_id) if call_id and call_id in self._ids else len(self._ids) - 1
            if number < 0 or (call_id and call_id not in self._ids):
                return self._new(f"#{len(self._ids)}", call_id), True
            return number, False
        key = index if isinstance(index, int | str) else str(index)
        known = self._numbers.get(key)
        if known is None or (name and call_id and self._ids[known] and call_id != self._ids[known]):
            return self._new(key, call_id), True
        self._ids[known] = self._ids[known] or call_id
        return known, False

    def _new(self, key: Any, call_id: str) -> int:
        self._numbers[key] = len(self._ids)
        self._ids.append(call_id)
        return self._numbers[key]


def _finish(track: Track, choice: _Choice) -> None:
    end = FROM_CHAT.get(choice.finish_reason, End.STOP) if type(choice.finish_reason) is str else End.STOP
    met = choice.stop_reason if type(choice.stop_reason) is str else None
    if end is End.STOP and met and met != choice.finish_reason:
        track.finish(End.STOP_SEQUENCE, met)
    else:
        track.finish(end)


def _parts(track: Track, content: Any) -> bytes:
    """Content in typed parts, thinking among them (Mistral, Databricks)."""
    wire = b""
    for part in _dicts(content):
        kind = part.get("type")
        if kind == "thinking":
            thinking = part.get("thinking")
            pieces = [thinking] if isinstance(thinking, str) else [each.get("text") for each in _dicts(thinking)]
            wire += b"".join(track.reasoning(each) for each in pieces if each and isinstance(each, str))
        elif kind == "reasoning":
            pieces = [each.get("text") for each in _dicts(part.get("summary"))]
            wire += b"".join(track.reasoning(each) for each in pieces if each and isinstance(each, str))
        elif isinstance(part.get("text"), str) and part["text"]:
            wire += track.text(part["text"])
    return wire


def _annotation(track: Track, value: dict[str, Any]) -> bytes:
    cited = value.get("url_citation")
    if not isinstance(cited, dict) or not isinstance(cited.get("url"), str):
        return b""
    start, end = cited.get("start_index"), cited.get("end_index")
    places = (start if isinstance(start, int) else 0, end if isinstance(end, int) else 0)
    return track.citation(Citation(cited["url"], _text(cited.get("title")), *places))


def _image(track: Track, value: dict[str, Any]) -> bytes:
    """A data URL; a link elsewhere is no part of the answer."""
    holder: Callable[[str], Any] = value.get
    url = holder("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if not isinstance(url, str) or not url.startswith("data:"):
        return b""
    head, _, data = url[5:].partition(",")
    return track.image(head.partition(";")[0], data)


def _arguments(value: Any) -> str:
    """A fragment; some providers send the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value)


def _logprobs(value: Any) -> list[Any] | None:
    content = value.get("content") if isinstance(value, dict) else None
    return _dicts(content) or None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
