"""Reads one Messages answer, streamed or whole. Sans-IO; never raises for what a provider sends.

``message_start``, content blocks one after another, one or more ``message_delta``, ``message_stop`` (protocols page
6.2). A stream is complete only with a ``message_delta`` that has a ``stop_reason`` and then ``message_stop``, and no
error; usage is evidence from that moment. Data bytes are never changed; the ``event:`` line is written always, equal
to the data's ``type``, because official clients drop events without it.

Events are decoded once at the top level, each member kept raw, and then only the member that matters: so a usage
object that is wrong cannot hide a stop reason beside it, and a type from a newer API is forwarded without being read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.error_object import ErrorObject, one_line, stream_error
from hoptrio.protocols.events import Finish, Kind, Step
from hoptrio.protocols.members import ABSENT, UNREADABLE, is_filled, loads
from hoptrio.protocols.messages.errors import error_data, provider_error
from hoptrio.protocols.messages.usage import UsageTally
from hoptrio.protocols.sse import data_event, named_event

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


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    delta: msgspec.Raw = ABSENT
    content_block: msgspec.Raw = ABSENT
    message: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class _BlockDelta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    estimated_tokens: int | float | None = None


class _Message(msgspec.Struct):
    """Of ``message_start``, and a whole answer; also the ``delta`` of a ``message_delta``."""

    content: msgspec.Raw = ABSENT
    stop_reason: Any = None
    usage: msgspec.Raw = ABSENT


_EVENT = msgspec.json.Decoder(_Event)
_BLOCK_DELTA = msgspec.json.Decoder(_BlockDelta)
_MESSAGE = msgspec.json.Decoder(_Message)

_PLAIN_DELTAS = frozenset(("text_delta", "input_json_delta", "thinking_delta", "signature_delta"))


def reader(call: Call, *, hide_usage: bool) -> MessagesReader:
    """A reader for one stream. Messages has no way to ask for usage, so there is none to hide."""
    return MessagesReader()


class MessagesReader:
    """See `protocols.rules.Reader`. Only `feed` writes the public fields."""

    __slots__ = (
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

    def __init__(self) -> None:
        self.patience_s: float | None = None
        self.answered = False
        self.counts: Counts | None = None
        self.error: ProviderError | None = None
        self.provider_ids: tuple[str, ...] = ()
        self._tally = UsageTally()
        self._estimated: int | float = 0
        self._reasoned = False
        self._stopped = False

    def feed(self, event: SseEvent) -> Step:
        """Classify one event; its wire form is ``event: TYPE`` and the data as received."""
        try:
            read = _EVENT.decode(event.data)
        except UNREADABLE:
            return self._unreadable(event)
        kind = read.type or event.name.decode("utf-8", "replace")
        if kind == "error" or is_filled(read.error):
            return self._failed(event, stream_error(event.data))
        if event.stray:
            return Step(Kind.QUIET, b"")
        step = Step(self._classify(kind, read), _wire(kind, event))
        self.answered = self.answered or step.kind is Kind.ANSWER
        return step

    def finish(self, *, clean: bool) -> Finish:
        """Complete with a stop reason and ``message_stop``, however the connection ended then."""
        return Finish(self._stopped and self._reasoned and self.error is None, b"")

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """``event: error`` (contract, "Error events")."""
        return named_event(b"error", error_data(reason, error))

    def _classify(self, kind: str, read: _Event) -> Kind:
        if kind == "content_block_delta":
            return Kind.ANSWER if self._moves(read.delta) else Kind.QUIET
        if kind == "content_block_start":
            return Kind.ANSWER if is_filled(read.content_block) else Kind.QUIET
        if kind == "content_block_stop":
            return Kind.ANSWER
        if kind == "message_start":
            return self._start(read.message)
        if kind == "message_delta":
            self._delta(read)
        elif kind == "message_stop":
            return self._stop()
        return Kind.QUIET

    def _start(self, raw: msgspec.Raw) -> Kind:
        """`Kind.ANSWER` if blocks are inside already, as code execution sends them when it goes on."""
        message = _message(raw)
        self._tally.start(bytes(message.usage))
        return Kind.ANSWER if is_filled(message.content) else Kind.OPENING

    def _delta(self, read: _Event) -> None:
        delta = _message(read.delta)
        self._tally.delta(bytes(read.usage))
        self._reasoned = self._reasoned or bool(delta.stop_reason)

    def _stop(self) -> Kind:
        self._stopped = True
        self.patience_s = 0
        if self._reasoned:
            self.counts = self._tally.counts()
        return Kind.TERMINAL

    def _moves(self, raw: msgspec.Raw) -> bool:
        """Whether a block's delta brings anything: text, arguments, a signature, or a higher thinking estimate."""
        try:
            delta = _BLOCK_DELTA.decode(raw)
        except UNREADABLE:
            return False
        if delta.text or delta.partial_json or delta.thinking or delta.signature:
            return True
        if delta.estimated_tokens is not None:
            grown = delta.estimated_tokens > self._estimated
            self._estimated = max(self._estimated, delta.estimated_tokens)
            return grown
        return delta.type not in _PLAIN_DELTAS and _has_content(raw)

    def _unreadable(self, event: SseEvent) -> Step:
        """Not a JSON object: ``[DONE]`` is dropped, a named error or a list that holds one fails, the rest is the
        client's to judge."""
        found = stream_error(event.data)
        if found is not None or event.name == b"error":
            return self._failed(event, found)
        if event.stray or event.data.strip() == b"[DONE]":
            return Step(Kind.QUIET, b"")
        return Step(Kind.QUIET, named_event(event.name, event.data) if event.name else data_event(event.data))

    def _failed(self, event: SseEvent, found: ErrorObject | None) -> Step:
        self.error = provider_error(found or ErrorObject())
        self.patience_s = 0
        return Step(Kind.FAILURE, named_event(b"error", one_line(event.data) if event.stray else event.data))


class _Whole(msgspec.Struct):
    """A `protocols.rules.Unary`."""

    counts: Counts | None = None
    error: ProviderError | None = None
    provider_ids: tuple[str, ...] = ()


def read(call: Call, body: bytes) -> _Whole:
    """Read a whole 2xx answer; a count of tokens has no usage, and an error inside a 200 is an error."""
    if (found := stream_error(body)) is not None:
        return _Whole(error=provider_error(found))
    tally = UsageTally()
    tally.delta(bytes(_message(body).usage))
    return _Whole(counts=tally.counts())


def _message(raw: bytes | msgspec.Raw) -> _Message:
    try:
        return _MESSAGE.decode(raw)
    except UNREADABLE:
        return _Message()


def _has_content(raw: msgspec.Raw) -> bool:
    delta = loads(raw)
    return isinstance(delta, dict) and any(value for name, value in delta.items() if name != "type")


def _wire(kind: str, event: SseEvent) -> bytes:
    name = _NAMES.get(kind)
    if name is None:
        name = kind.encode() if _NAME.fullmatch(kind) else event.name
    return named_event(name, event.data) if name else data_event(event.data)
