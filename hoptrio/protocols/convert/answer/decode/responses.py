"""Reads Responses events for an encoder. Pure.

Deltas are what is passed on; what came without any (an item only in ``done``, or all of it only in the terminal) is
passed on whole then. Items of hosted tools are passed over, and so are custom calls of tools that the client has not:
xAI reports its own searches so. An item that asks the client to act in a way only this
protocol has (a shell, a patch) makes the answer inconvertible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.decode.lenient import Mending, read_leniently
from hoptrio.protocols.convert.answer.ends import FROM_INCOMPLETE, End
from hoptrio.protocols.convert.answer.vocabulary import Citation
from hoptrio.protocols.convert.carrier import Carried
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.members import ABSENT, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hoptrio.protocols.convert.answer.vocabulary import Encoder, Track
    from hoptrio.protocols.events import SseEvent

__all__ = ["ResponsesDecoder"]

#: Items by which the model asks the client for something no other protocol can ask.
_ACTIONS = frozenset(
    ("local_shell_call", "shell_call", "apply_patch_call", "computer_call", "mcp_approval_request", "tool_search_call")
)
#: What stands between two parts of a summary, which are paragraphs.
_PARAGRAPH = "\n\n"


class _Event(msgspec.Struct, gc=False):
    type: Any = None
    output_index: int | None = None
    summary_index: Any = None
    delta: Any = None
    logprobs: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    item: Any = None
    annotation: Any = None
    response: msgspec.Raw = ABSENT


class _LooseEvent(_Event, gc=False):
    """The same out of values that were read already."""

    response: Any = None


class _Response(msgspec.Struct, gc=False):
    output: Any = None
    incomplete_details: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_response = msgspec.json.Decoder(_Response).decode


class ResponsesDecoder:
    """See `vocabulary.Decoder`. `customs`: names of the client's tools of free-form input."""

    def __init__(self, encoder: Encoder, customs: Collection[str] = ()) -> None:
        self._encoder = encoder
        self._customs = customs
        self._track: Track = encoder.track(0)
        self._started = False
        #: Items of which something was passed on.
        self._said: set[Any] = set()
        #: Calls that are open.
        self._calls: dict[Any, _Call] = {}

    def feed(self, event: SseEvent) -> bytes:
        """One event."""
        try:
            read = _decode_event(event[1])
        except UNREADABLE:
            loose = read_leniently(event[1], _LooseEvent)
            if loose is None:
                return b""
            read = loose
            self._mend()
        kind = read.type or event[0].decode("utf-8", "replace")
        wire = b"" if self._started else self._start()
        if kind == "response.output_text.delta":
            self._said.add(read.output_index)
            text = read.delta
            if not text or type(text) is not str:
                return wire
            logprobs = _dicts(read.logprobs) if read.logprobs else None
            return wire + self._track.text(text, logprobs)
        handler = _HANDLERS.get(kind) if type(kind) is str else None
        return wire if handler is None else wire + handler(self, read)

    def whole(self, data: bytes) -> bytes:
        """One response object."""
        return self._encoder.start() + self._take_response(data)

    def _start(self) -> bytes:
        self._started = True
        return self._encoder.start()

    def _mend(self) -> None:
        if not isinstance(self._track, Mending):
            self._track = Mending(self._track)

    def _end_text(self, event: _Event) -> bytes:
        """A text is done: pass it on if its deltas did not."""
        wire = b""
        if event.output_index not in self._said and event.text and type(event.text) is str:
            self._said.add(event.output_index)
            wire = self._track.text(event.text)
        return wire

    def _end_part(self, event: _Event) -> bytes:
        return self._track.close()

    def _refusal(self, event: _Event) -> bytes:
        self._said.add(event.output_index)
        return self._track.refusal(event.delta) if event.delta and type(event.delta) is str else b""

    def _reasoning(self, event: _Event) -> bytes:
        self._said.add(event.output_index)
        return self._track.reasoning(event.delta) if event.delta and type(event.delta) is str else b""

    def _begin_summary(self, event: _Event) -> bytes:
        return self._track.reasoning(_PARAGRAPH) if event.summary_index and event.output_index in self._said else b""

    def _annotation(self, event: _Event) -> bytes:
        return _cite(self._track, event.annotation)

    def _begin_item(self, event: _Event) -> bytes:
        item = event.item if isinstance(event.item, dict) else {}
        return self._open_call(event.output_index, item) if self._is_call(item) and item.get("name") else b""

    def _is_call(self, item: dict[str, Any]) -> bool:
        """A call for the client."""
        kind = item.get("type")
        return kind == "function_call" or (kind == "custom_tool_call" and item.get("name") in self._customs)

    def _open_call(self, key: Any, item: dict[str, Any]) -> bytes:
        if key in self._calls:
            return b""
        call = self._calls[key] = _Call()
        self._said.add(key)
        call_id = _text(item.get("call_id")) or _text(item.get("id"))
        custom = item.get("type") == "custom_tool_call"
        return self._track.tool_open(call, call_id, _text(item.get("name")), custom=custom)

    def _arguments(self, event: _Event) -> bytes:
        call = self._calls.get(event.output_index)
        if call is None or not event.delta or type(event.delta) is not str:
            return b""
        call.began = True
        return self._track.tool_args(call, event.delta)

    def _end_arguments(self, event: _Event) -> bytes:
        return self._rest(self._calls.get(event.output_index), event.arguments or event.input)

    def _rest(self, call: _Call | None, arguments: Any) -> bytes:
        if call is None or call.began or not arguments or type(arguments) is not str:
            return b""
        call.began = True
        return self._track.tool_args(call, arguments)

    def _end_item(self, event: _Event) -> bytes:
        return self._take_item(event.output_index, event.item) if isinstance(event.item, dict) else b""

    def _take_item(self, key: Any, item: dict[str, Any]) -> bytes:
        """An item that is complete: what was not passed on yet, and its end."""
        # A stranger's type may be of any make, and a set refuses some.
        kind = _text(item.get("type"))
        if self._is_call(item):
            wire = self._open_call(key, item)
            call = self._calls[key]
            return wire + self._rest(call, item.get("arguments") or item.get("input")) + self._track.tool_close(call)
        if kind in _ACTIONS:
            self._encoder.refuse(f"an item that no other protocol has: {kind}")
        said = key in self._said
        self._said.add(key)
        if kind == "message":
            return (b"" if said else _message(self._track, item)) + self._track.close()
        if kind == "reasoning":
            return (b"" if said else _summary(self._track, item)) + self._end_reasoning(item)
        if kind == "image_generation_call" and isinstance(item.get("result"), str):
            return self._track.image(f"image/{_text(item.get('output_format')) or 'png'}", item["result"])
        return b""

    def _end_reasoning(self, item: dict[str, Any]) -> bytes:
        token = _text(item.get("encrypted_content"))
        return self._track.state(Carried(Protocol.RESPONSES, token)) if token else self._track.close()

    def _complete(self, event: _Event) -> bytes:
        """The terminal repeats what was said; if nothing was, it is the answer. Some providers leave items out of it,
        or let a call end with it."""
        return self._take_response(event.response)

    def _take_response(self, raw: bytes | msgspec.Raw | Any) -> bytes:
        response = _read_response(raw)
        if response is None:
            response = _loose_response(raw)
            self._mend()
        if response is None:
            return b""
        wire = b""
        if not self._said and isinstance(response.output, list):
            for at, item in enumerate(response.output):
                wire += self._take_item(at, item) if isinstance(item, dict) else b""
        details = response.incomplete_details
        reason = details.get("reason") if isinstance(details, dict) else None
        if isinstance(reason, str):
            self._track.finish(FROM_INCOMPLETE.get(reason, End.LENGTH))
        return wire


class _Call:
    """A call under way; its own key."""

    __slots__ = ("began",)

    def __init__(self) -> None:
        #: Arguments came.
        self.began = False


_HANDLERS: dict[str, Callable[[ResponsesDecoder, _Event], bytes]] = {
    "response.output_text.done": ResponsesDecoder._end_text,
    "response.output_text.annotation.added": ResponsesDecoder._annotation,
    "response.content_part.done": ResponsesDecoder._end_part,
    "response.refusal.delta": ResponsesDecoder._refusal,
    "response.reasoning_summary_text.delta": ResponsesDecoder._reasoning,
    "response.reasoning_text.delta": ResponsesDecoder._reasoning,
    "response.reasoning_summary_part.added": ResponsesDecoder._begin_summary,
    "response.output_item.added": ResponsesDecoder._begin_item,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments,
    "response.custom_tool_call_input.delta": ResponsesDecoder._arguments,
    "response.function_call_arguments.done": ResponsesDecoder._end_arguments,
    "response.custom_tool_call_input.done": ResponsesDecoder._end_arguments,
    "response.output_item.done": ResponsesDecoder._end_item,
    "response.completed": ResponsesDecoder._complete,
    "response.incomplete": ResponsesDecoder._complete,
}


def _read_response(raw: Any) -> _Response | None:
    try:
        return None if isinstance(raw, dict | str) else _decode_response(raw)
    except (TypeError, *UNREADABLE):
        return None


def _loose_response(raw: Any) -> _Response | None:
    """Out of values that were read already, or leniently out of bytes."""
    if isinstance(raw, dict):
        return _Response(output=raw.get("output"), incomplete_details=raw.get("incomplete_details"))
    return read_leniently(bytes(raw), _Response) if isinstance(raw, bytes | msgspec.Raw) else None


def _message(track: Track, item: dict[str, Any]) -> bytes:
    wire = b""
    for part in _dicts(item.get("content")):
        if text := _text(part.get("text")):
            wire += track.text(text, _dicts(part.get("logprobs")) or None)
            wire += b"".join(_cite(track, each) for each in _dicts(part.get("annotations")))
        elif refusal := _text(part.get("refusal")):
            wire += track.refusal(refusal)
        wire += track.close()
    return wire


def _summary(track: Track, item: dict[str, Any]) -> bytes:
    """The summary, or the reasoning itself where a provider shows that."""
    parts = _dicts(item.get("summary")) or _dicts(item.get("content"))
    text = _PARAGRAPH.join(_text(part.get("text")) for part in parts)
    return track.reasoning(text) if text else b""


def _cite(track: Track, value: Any) -> bytes:
    if not isinstance(value, dict) or value.get("type") != "url_citation" or not isinstance(value.get("url"), str):
        return b""
    start, end = value.get("start_index"), value.get("end_index")
    places = (start if isinstance(start, int) else 0, end if isinstance(end, int) else 0)
    return track.citation(Citation(value["url"], _text(value.get("title")), *places))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
