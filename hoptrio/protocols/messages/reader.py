"""Reads one Messages answer, streamed or whole. Sans-IO; never raises for what a provider sends.

``message_start``, content blocks one after another, one or more ``message_delta``, ``message_stop`` (protocols page
6.2). A stream is complete only with a ``message_delta`` that has a ``stop_reason`` and then ``message_stop``, and no
error; usage is evidence from that moment. Data bytes are never changed; the ``event:`` line is written always, equal
to the data's ``type``, because official clients drop events without it.

An event is decoded once, into what its facts need. Where that fails, the members are decoded one by one, so that a
delta of an unknown make hides nothing beside it; usage is always raw here, since only `UsageTally` judges it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.alike import Alike, Text
from hoptrio.protocols.events import Finish, Kind, Step
from hoptrio.protocols.members import ABSENT, UNREADABLE, is_filled, loads
from hoptrio.protocols.messages.errors import error_data, provider_error
from hoptrio.protocols.messages.usage import UsageTally
from hoptrio.protocols.sse import data_event, named_event
from hoptrio.protocols.stream_error import one_line, stream_error
from hoptrio.protocols.unary import UnaryAnswer

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Call, Counts, ProviderError, SseEvent

__all__ = ["MessagesReader", "read", "reader"]

#: A type that may be written as an event name; anything else could smuggle a line into the stream (cases 92).
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_NAMES = {
    name: name.encode()
    for name in (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    )
}


class _Delta(msgspec.Struct, gc=False):
    """The ``delta`` of a block, or of a ``message_delta``."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    estimated_tokens: int | float = 0
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: _Delta | None = None
    content_block: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class _LooseEvent(msgspec.Struct, gc=False):
    """The same with an unread delta."""

    type: str = ""
    content_block: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class _Message(msgspec.Struct):
    """Of ``message_start``, and a whole answer."""

    content: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    stop_reason: msgspec.Raw = ABSENT


_EVENT = msgspec.json.Decoder(_Event)
_LOOSE_EVENT = msgspec.json.Decoder(_LooseEvent)
_MESSAGE = msgspec.json.Decoder(_Message)

_PLAIN_DELTAS = frozenset(("text_delta", "input_json_delta", "thinking_delta", "signature_delta"))

# Kind is an enum: a global is a lookup, an attribute of the class four times that.
_QUIET = Kind.QUIET
_ANSWER = Kind.ANSWER


def reader(call: Call, *, hide_usage: bool) -> MessagesReader:
    """A reader for one stream. Messages has no way to ask for usage, so there is none to hide."""
    return MessagesReader()


class MessagesReader:
    """See `protocols.rules.Reader`. Only `feed` writes the public fields."""

    __slots__ = (
        "_alike",
        "_born_complete",
        "_estimated",
        "_reasoned",
        "_stopped",
        "_tally",
        "answered",
        "counts",
        "error",
        "patience_s",
        "provider_ids",
    )

    #: A client of the same protocol is told everything.
    unconvertible = ""

    def __init__(self) -> None:
        self.patience_s: float | None = None
        self.answered = False
        self.counts: Counts | None = None
        self.error: ProviderError | None = None
        self.provider_ids: tuple[str, ...] = ()
        self._tally = UsageTally()
        self._alike: Alike | None = None
        self._estimated: int | float = 0
        #: ``message_start`` held the whole answer, its stop reason included.
        self._born_complete = False
        self._reasoned = False
        self._stopped = False

    def feed(self, event: SseEvent) -> Step:
        """Classify one event; its wire form is ``event: TYPE`` and the data as received."""
        if self._alike is not None:
            self._alike.forget()
        read = _event(event.data)
        if read is None:
            return self._unreadable(event)
        name = read.type or event.name.decode("utf-8", "replace")
        if name == "error" or (read.error is not ABSENT and is_filled(read.error)):
            return self._failed(event, stream_error(event.data))
        if event.stray:
            return Step(_QUIET, b"")
        kind = self._kind(name, read, event)
        wire = _wire(name, event)
        if kind is _ANSWER:
            # Not an answer's first event, since many an answer has but one.
            if self._alike is not None and self.answered and name == "content_block_delta":
                self._alike.follow(wire, wire, _text_of, read)
            self.answered = True
        return Step(kind, wire)

    def alike(self) -> Alike:
        """Deltas of text; see `rules.Reader`."""
        self._alike = Alike()
        return self._alike

    def finish(self, *, clean: bool) -> Finish:
        """Complete with a stop reason and ``message_stop``, however the connection ended then."""
        stopped = self._stopped and (self._reasoned or self._born_complete)
        return Finish(stopped and self.error is None, b"")

    @property
    def reported(self) -> Counts | None:
        """See `rules.Reader`."""
        return self._tally.reported()

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """``event: error`` (contract, "Error events")."""
        return named_event(b"error", error_data(reason, error))

    def _kind(self, name: str, read: _Event | _LooseEvent, event: SseEvent) -> Kind:
        if name == "content_block_delta":
            return _ANSWER if self._moves(read, event) else _QUIET
        if name == "content_block_start":
            return _ANSWER if is_filled(read.content_block) else _QUIET
        if name == "content_block_stop":
            return _ANSWER
        if name == "message_start":
            return self._start(read.message)
        if name == "message_delta":
            self._tally.delta(bytes(read.usage))
            self._reasoned = self._reasoned or _has_stop_reason(read, event)
        elif name == "message_stop":
            return self._stop()
        return _QUIET

    def _start(self, raw: msgspec.Raw) -> Kind:
        """`Kind.ANSWER` if blocks are inside already, as code execution sends them when it goes on; with a stop reason
        they are all there is. Such an answer is complete, but no evidence: that takes a ``message_delta``."""
        message = _message(raw)
        self._tally.start(bytes(message.usage))
        self._born_complete = is_filled(message.stop_reason)
        return _ANSWER if is_filled(message.content) else Kind.OPENING

    def _stop(self) -> Kind:
        self._stopped = True
        self.patience_s = 0
        if self._reasoned:
            self.counts = self._tally.counts()
        return Kind.TERMINAL

    def _moves(self, read: _Event | _LooseEvent, event: SseEvent) -> bool:
        """Whether a block's delta brings anything: text, arguments, a signature, or a higher thinking estimate."""
        delta = read.delta if isinstance(read, _Event) else None
        if delta is None:
            return _has_content(event)
        if delta.text or delta.partial_json or delta.thinking or delta.signature:
            return True
        if delta.estimated_tokens > self._estimated:
            self._estimated = delta.estimated_tokens
            return True
        return delta.type not in _PLAIN_DELTAS and _has_content(event)

    def _unreadable(self, event: SseEvent) -> Step:
        """Not a JSON object: ``[DONE]`` is dropped, a named error or a list that holds one fails, the rest is the
        client's to judge."""
        found = stream_error(event.data)
        if found is not None or event.name == b"error":
            return self._failed(event, found)
        if event.stray or event.data.strip() == b"[DONE]":
            return Step(_QUIET, b"")
        return Step(_QUIET, named_event(event.name, event.data) if event.name else data_event(event.data))

    def _failed(self, event: SseEvent, found: Any) -> Step:
        self.error = provider_error(loads(event.data) if found is None else found)
        self.patience_s = 0
        return Step(Kind.FAILURE, named_event(b"error", one_line(event.data) if event.stray else event.data))


def read(call: Call, body: bytes) -> UnaryAnswer:
    """Read a whole 2xx answer; a count of tokens has no usage, and an error inside a 200 is an error."""
    tally = UsageTally()
    tally.delta(bytes(_message(body).usage))
    if (found := stream_error(body)) is not None:
        return UnaryAnswer(reported=tally.reported(), error=provider_error(found))
    return UnaryAnswer(counts=tally.counts(), reported=tally.reported())


def _event(data: bytes) -> _Event | _LooseEvent | None:
    """One JSON object, with its delta if that is of a known make; None if it is none."""
    try:
        return _EVENT.decode(data)
    except UNREADABLE:
        pass
    try:
        return _LOOSE_EVENT.decode(data)
    except UNREADABLE:
        return None


def _text_of(read: _Event | _LooseEvent) -> Text | None:
    """The text of a block's delta that has one."""
    delta = read.delta if isinstance(read, _Event) else None
    if delta is None or not (delta.text or delta.thinking):
        return None
    return Text(b'"text":', _quoted(delta.text)) if delta.text else Text(b'"thinking":', _quoted(delta.thinking))


def _quoted(text: str) -> bytes:
    return b'"%b"' % text.encode()


def _message(raw: bytes | msgspec.Raw) -> _Message:
    try:
        return _MESSAGE.decode(raw)
    except UNREADABLE:
        return _Message()


def _loose_delta(event: SseEvent) -> dict[str, Any]:
    """The delta of an event, whatever that is: one read as an object may still hold bytes that are no text."""
    value = loads(event.data)
    delta = value.get("delta") if isinstance(value, dict) else None
    return delta if isinstance(delta, dict) else {}


def _has_content(event: SseEvent) -> bool:
    return any(value for name, value in _loose_delta(event).items() if name not in ("type", "estimated_tokens"))


def _has_stop_reason(read: _Event | _LooseEvent, event: SseEvent) -> bool:
    if isinstance(read, _Event):
        return read.delta is not None and bool(read.delta.stop_reason)
    return bool(_loose_delta(event).get("stop_reason"))


def _wire(kind: str, event: SseEvent) -> bytes:
    name = _NAMES.get(kind)
    if name is None:
        name = kind.encode() if _NAME.fullmatch(kind) else event.name
    return named_event(name, event.data) if name else data_event(event.data)
