"""Reads a Responses answer: what each event means, what it proves about usage, and its bytes for the client.

Invariants. Data bytes go on unchanged, under an ``event:`` line that equals their ``type``, added where the provider
left it out; ``[DONE]`` is not of this protocol and dropped. Evidence is the usage of ``response.completed`` or
``response.incomplete`` alone, and these are given out as TERMINAL, never after an error. After ``error`` only
``response.failed`` is still read. Before the answer every event that is forwarded and moves nothing is OPENING, so that
order survives while openings are kept back.

The last response object is kept as the raw bytes it came in, for a failure of our own to repeat.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.limits import RESPONSES_FAILED_S
from hoptrio.protocols.events import Counts, Finish, Kind, ProviderError, SseEvent, Step
from hoptrio.protocols.members import ABSENT, UNREADABLE, is_filled, is_object, loads, split_members
from hoptrio.protocols.openai_errors import data_error, provider_error
from hoptrio.protocols.openai_usage import responses_counts
from hoptrio.protocols.responses.errors import error_event
from hoptrio.protocols.sse import data_event
from hoptrio.protocols.unary import UnaryAnswer

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Call

__all__ = ["ResponsesReader", "read", "reader"]

_DROPPED = Step(Kind.QUIET, b"")
#: Makes a named tuple in half the time of its own constructor; for the one place every delta passes.
_new = tuple.__new__

#: Output items that are hosted tool calls -> the name a price table has for them.
_HOSTED = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
}


class _Sort(Enum):
    """What an event's type alone says about it."""

    #: Carries the response object and moves nothing: created, queued, in_progress.
    LIFECYCLE = 1
    #: Moves the answer if its ``delta`` is not empty.
    DELTA = 2
    #: An item or a part of one begins or ends, or arrives whole: always moves the answer.
    PART = 3
    #: A hosted tool enters a phase: moves the answer unless it is said again.
    PHASE = 4
    TERMINAL = 5
    FAILED = 6
    ERROR = 7
    #: ``keepalive`` and whatever else says nothing about the answer.
    OTHER = 8


class _Shape(NamedTuple):
    """What every event of one type has in common: its sort, and its ``event:`` line."""

    sort: _Sort
    head: bytes


_SORTS = {
    "response.created": _Sort.LIFECYCLE,
    "response.queued": _Sort.LIFECYCLE,
    "response.in_progress": _Sort.LIFECYCLE,
    "response.completed": _Sort.TERMINAL,
    "response.incomplete": _Sort.TERMINAL,
    "response.failed": _Sort.FAILED,
    "response.cancelled": _Sort.FAILED,
    "error": _Sort.ERROR,
}
#: What such a response calls its status.
_FAILED = ("failed", "cancelled")
_PART_ENDS = (".added", ".done", ".partial_image")
_PHASE_ENDS = (".in_progress", ".searching", ".interpreting", ".generating", ".completed", ".failed", ".compacting")


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    sequence_number: int | None = None
    delta: msgspec.Raw = ABSENT
    response: msgspec.Raw = ABSENT
    item: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    item_id: str | None = None


class _Item(msgspec.Struct, gc=False):
    id: str | None = None
    type: str | None = None


class _Response(msgspec.Struct):
    """A response object, as far as it is evidence."""

    id: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    output: list[_Item] | None = None
    service_tier: msgspec.Raw = ABSENT
    tool_usage: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT


_EVENT = msgspec.json.Decoder(_Event)
_RESPONSE = msgspec.json.Decoder(_Response)
_ITEM = msgspec.json.Decoder(_Item)


class ResponsesReader:
    """One stream's reader; see `rules.Reader` for the meaning of its attributes."""

    __slots__ = (
        "_complete",
        "_created",
        "_model",
        "_over",
        "_phases",
        "_response",
        "_sequence_number",
        "answered",
        "counts",
        "error",
        "patience_s",
        "provider_ids",
    )

    #: A client of the same protocol is told everything.
    unconvertible = ""

    def __init__(self, *, model: str) -> None:
        self._model = model
        #: The last response object as received.
        self._response = ABSENT
        #: ``response.created`` was forwarded.
        self._created = False
        #: What our own next event would be numbered; a terminal that is held back does not count.
        self._sequence_number = 0
        #: Item id -> the type of its last phase, so that a phase said again is no progress.
        self._phases: dict[str, str] = {}
        self._complete = False
        #: A terminal or ``response.failed`` was read: whatever follows is neither read nor forwarded.
        self._over = False
        self.patience_s: float | None = None
        self.answered = False
        self.counts: Counts | None = None
        self.error: ProviderError | None = None
        self.provider_ids: tuple[str, ...] = ()

    def feed(self, event: SseEvent) -> Step:
        """Classify one event and give its bytes for the client."""
        name, data, stray = event
        if self._over or (data[:1] != b"{" and _is_foreign(data)):
            return _DROPPED
        try:
            facts = _EVENT.decode(data)
        except UNREADABLE:
            if not is_object(data):
                return self._pass_on(name, data)
            facts = _read_leniently(data)
        kind = facts.type or name.decode("utf-8", "replace")
        if facts.error is not ABSENT and not kind and is_filled(facts.error):
            kind = "error"
        if self.error is not None and kind != "response.failed":
            return _DROPPED
        if stray and kind != "error":
            return _DROPPED
        sort, head = _shape(kind)
        wire = head + data_event(data)
        if sort is _Sort.DELTA:
            return self._forward(facts, wire, moves=is_filled(facts.delta))
        if sort is _Sort.TERMINAL:
            return self._end(facts, wire)
        if sort is _Sort.FAILED or sort is _Sort.ERROR:
            return self._fail(sort, facts, data, wire)
        return self._read_item(sort, kind, facts, wire)

    def alike(self) -> None:
        """Every event has a number of its own."""

    def finish(self, *, clean: bool) -> Finish:
        """Judge the end: complete with ``response.completed`` or ``response.incomplete``, however the body ended."""
        return Finish(self._complete, b"")

    @property
    def reported(self) -> Counts | None:
        """See `rules.Reader`."""
        return self.counts

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our own ``response.failed``, continuing ids and numbers of what was forwarded."""
        return error_event(
            error,
            model=self._model,
            response=self._response,
            sequence_number=self._sequence_number,
            created=self._created,
        )

    def _pass_on(self, name: bytes, data: bytes) -> Step:
        """Data that is no JSON object goes on under its name, and proves nothing but an error."""
        if self.error is not None:
            return _DROPPED
        wire = _shape(name.decode("utf-8", "replace")).head + data_event(data)
        if name == b"error":
            return self._fail(_Sort.ERROR, _Event(), data, wire)
        return self._forward(_Event(), wire, moves=False)

    def _read_item(self, sort: _Sort, kind: str, facts: _Event, wire: bytes) -> Step:
        """Everything between deltas and the end: openings, items, parts, phases of hosted tools."""
        if sort is _Sort.LIFECYCLE:
            self._take_response(facts.response)
            self._created = self._created or kind == "response.created"
        if facts.item is not ABSENT:
            self._remember(_ids_of(_read_item(facts.item)))
        moves = sort is _Sort.PART
        if sort is _Sort.PHASE:
            item_id = facts.item_id or ""
            moves = self._phases.get(item_id) != kind
            self._phases[item_id] = kind
        return self._forward(facts, wire, moves=moves)

    def _forward(self, facts: _Event, wire: bytes, *, moves: bool) -> Step:
        number = facts.sequence_number
        self._sequence_number = (self._sequence_number if number is None else number) + 1
        if moves:
            self.answered = True
            return _new(Step, (Kind.ANSWER, wire))
        return Step(Kind.QUIET if self.answered else Kind.OPENING, wire)

    def _end(self, facts: _Event, wire: bytes) -> Step:
        response = self._take_response(facts.response)
        self.counts = _counts(response)
        self._complete = self._over = True
        self.patience_s = 0.0
        return Step(Kind.TERMINAL, wire)

    def _fail(self, sort: _Sort, facts: _Event, data: bytes, wire: bytes) -> Step:
        """`error` announces ``response.failed``, which is awaited; the first error's own words are kept."""
        self._forward(facts, wire, moves=False)
        if sort is _Sort.FAILED:
            response = self._take_response(facts.response)
            self.counts = _counts(response)
            found = provider_error(loads(response.error))
            self._over = True
            self.patience_s = 0.0
        else:
            found = data_error(data)
            self.patience_s = RESPONSES_FAILED_S
        self.error = self.error or found
        return Step(Kind.FAILURE, wire)

    def _take_response(self, raw: msgspec.Raw) -> _Response:
        if raw is not ABSENT:
            self._response = raw
        response = _read_response(raw)
        self._remember(_ids(response))
        return response

    def _remember(self, ids: tuple[str, ...]) -> None:
        self.provider_ids = tuple(dict.fromkeys(self.provider_ids + ids))


def reader(call: Call, *, hide_usage: bool) -> ResponsesReader:
    """A reader for one stream. Usage stands in the terminal and is never withheld."""
    return ResponsesReader(model=call.model)


def read(call: Call, body: bytes) -> UnaryAnswer:
    """Read a whole 2xx body: a response object, or an error in its place. One that says it has failed has, whether or
    not it says why."""
    response = _read_response(body)
    failed = is_filled(response.error) or loads(response.status) in _FAILED
    counts = _counts(response)
    return UnaryAnswer(
        counts=counts,
        reported=counts,
        error=provider_error(loads(response.error)) if failed else None,
        provider_ids=_ids(response),
    )


@lru_cache(maxsize=256)
def _shape(kind: str) -> _Shape:
    """Bounded, since a provider chooses the types. A type with a line end in it would forge events: it gets no name."""
    sort = _SORTS.get(kind) or _sort_by_form(kind)
    name = kind.encode("utf-8", "replace")
    if not kind or b"\n" in name or b"\r" in name:
        return _Shape(sort, b"")
    return _Shape(sort, b"event: " + name + b"\n")


def _sort_by_form(kind: str) -> _Sort:
    """By the forms of protocols page 4.3, so that event types still to come are read by the same rule."""
    if not kind.startswith("response.") or kind.count(".") < 2:
        return _Sort.OTHER
    if kind.endswith(".delta"):
        return _Sort.DELTA
    if kind.endswith(_PART_ENDS):
        return _Sort.PART
    return _Sort.PHASE if kind.endswith(_PHASE_ENDS) else _Sort.OTHER


def _is_foreign(data: bytes) -> bool:
    """Nothing, or Chat's ``[DONE]``."""
    text = data.strip()
    return not text or text.startswith(b"[DONE]")


def _read_leniently(data: bytes) -> _Event:
    """The facts of an event one of whose members has an unexpected type."""
    members = split_members(data)
    kind, number, item_id = (loads(members.get(name, ABSENT)) for name in ("type", "sequence_number", "item_id"))
    return _Event(
        type=kind if isinstance(kind, str) else "",
        sequence_number=number if isinstance(number, int) else None,
        item_id=item_id if isinstance(item_id, str) else None,
        **{name: members[name] for name in ("delta", "response", "item", "error") if name in members},
    )


def _read_response(raw: bytes | msgspec.Raw) -> _Response:
    try:
        return _RESPONSE.decode(raw)
    except UNREADABLE:
        members = split_members(raw)
    response = _Response()
    for name in _RESPONSE_RAW & members.keys():
        setattr(response, name, members[name])
    items = loads(members.get("output", ABSENT))
    if isinstance(items, list):
        response.output = [_Item(id=_text(item, "id"), type=_text(item, "type")) for item in items]
    return response


_RESPONSE_RAW = frozenset(_Response.__struct_fields__) - {"output"}


def _read_item(raw: msgspec.Raw) -> _Item:
    try:
        return _ITEM.decode(raw)
    except UNREADABLE:
        return _Item()


def _counts(response: _Response) -> Counts | None:
    tier = loads(response.service_tier)
    return responses_counts(response.usage, tier if isinstance(tier, str) else None, tool_calls=_tool_calls(response))


def _tool_calls(response: _Response) -> dict[str, int]:
    """Hosted tool calls: the items of the output, and for web searches ``tool_usage`` where it is reported, since an
    item may be a page that was only opened."""
    calls: dict[str, int] = {}
    for item in response.output or ():
        name = _HOSTED.get(item.type or "")
        if name is not None:
            calls[name] = calls.get(name, 0) + 1
    usage = loads(response.tool_usage)
    searches = usage.get("web_search") if isinstance(usage, dict) else None
    reported = searches.get("num_requests") if isinstance(searches, dict) else None
    if isinstance(reported, int) and reported >= 0:
        calls["web_search"] = reported
    return calls


def _ids(response: _Response) -> tuple[str, ...]:
    """What later requests may refer to: the response, its conversation, and its items (``item_reference``)."""
    conversation = loads(response.conversation)
    own = (loads(response.id), _text(conversation, "id") if isinstance(conversation, dict) else conversation)
    return tuple(each for each in own if isinstance(each, str) and each) + _ids_of(*(response.output or ()))


def _ids_of(*items: _Item) -> tuple[str, ...]:
    return tuple(item.id for item in items if item.id)


def _text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
