"""Reads a Chat Completions answer: what each chunk means, what it proves about usage, and its bytes for the client.

Invariants. Data bytes go on unchanged, except that usage is withheld from a client that did not ask for it; a chunk
never carries ``event:``. ``[DONE]`` is given out as TERMINAL and never after an error. Evidence is the last valid usage
object with a total above zero, else the last valid one, wherever it stands (contract, "Evidence per protocol"). Before
the answer every event that is forwarded and moves nothing is OPENING, so that order survives while openings are kept
back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.alike import Alike, Text
from hoptrio.protocols.chat.errors import error_event
from hoptrio.protocols.events import Counts, Finish, Kind, Operation, ProviderError, SseEvent, Step
from hoptrio.protocols.members import ABSENT, EMPTY_BYTES_MAX, UNREADABLE, cut_usage, is_filled, loads, split_members
from hoptrio.protocols.openai_errors import data_error
from hoptrio.protocols.openai_usage import chat_counts, embedding_counts, responses_counts
from hoptrio.protocols.sse import data_event
from hoptrio.protocols.unary import UnaryAnswer

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Call

__all__ = ["ChatReader", "read", "reader"]

_DROPPED = Step(Kind.QUIET, b"")
_DONE = b"[DONE]"
#: Makes a named tuple in half the time of its own constructor; for the one place every delta passes.
_new = tuple.__new__


class _Delta(msgspec.Struct, gc=False):
    """The members of a delta that are the model's answer, in every dialect of protocols page 3.5."""

    content: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    tool_calls: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    reasoning_details: msgspec.Raw = ABSENT
    reasoning_text: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT
    images: msgspec.Raw = ABSENT
    annotations: msgspec.Raw = ABSENT
    executed_tools: msgspec.Raw = ABSENT


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    #: Some providers send a whole message in place of a delta.
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    service_tier: str | None = None


_CHUNK = msgspec.json.Decoder(_Chunk)
_CHOICES = msgspec.json.Decoder(list[msgspec.Raw])
_CHOICE = msgspec.json.Decoder(_Choice)
_DELTA = msgspec.json.Decoder(_Delta)


class _Function(msgspec.Struct, gc=False):
    arguments: msgspec.Raw = ABSENT


class _ToolCall(msgspec.Struct, gc=False):
    id: msgspec.Raw = ABSENT
    function: _Function | None = None


_TOOL_CALLS = msgspec.json.Decoder(list[_ToolCall])


class ChatReader:
    """One stream's reader; see `rules.Reader` for the meaning of its attributes."""

    __slots__ = (
        "_alike",
        "_announced",
        "_finished",
        "_hide_usage",
        "_over",
        "_tier",
        "answered",
        "counts",
        "error",
        "patience_s",
        "provider_ids",
    )

    #: A client of the same protocol is told everything.
    unconvertible = ""

    def __init__(self, *, hide_usage: bool) -> None:
        self._hide_usage = hide_usage
        #: Choice index -> whether its finish_reason was seen.
        self._finished: dict[int, bool] = {}
        #: Tool calls that were begun: choice, index, id and name.
        self._announced: set[tuple[Any, ...]] = set()
        #: ``[DONE]`` or an error was read: whatever follows is neither read nor forwarded.
        self._over = False
        self._tier: str | None = None
        self._alike: Alike | None = None
        self.patience_s: float | None = None
        self.answered = False
        self.counts: Counts | None = None
        self.error: ProviderError | None = None
        self.provider_ids: tuple[str, ...] = ()

    def feed(self, event: SseEvent) -> Step:
        """Classify one event and give its bytes for the client."""
        name, data, stray = event
        if self._over:
            return _DROPPED
        if self._alike is not None:
            self._alike.forget()
        if data[:1] != b"{":
            text = data.strip()
            if not text:
                return _DROPPED
            if text.startswith(_DONE):
                self._end()
                return Step(Kind.TERMINAL, data_event(data))
        try:
            chunk = _CHUNK.decode(data)
        except UNREADABLE:
            chunk = _read_leniently(data)
        if chunk.error is ABSENT and chunk.choices is not None and not name and not stray:
            return self._read_chunk(chunk, data, None)
        error = _find_error(chunk, event)
        if stray and error is None:
            return _DROPPED
        return self._read_chunk(chunk, data, error)

    def alike(self) -> Alike:
        """Deltas of text; see `rules.Reader`."""
        self._alike = Alike()
        return self._alike

    def finish(self, *, clean: bool) -> Finish:
        """Judge the end: complete with ``[DONE]``, or with a finish_reason on every choice and a clean end, for which
        ``[DONE]`` is then supplied; never after an error."""
        if self.error is not None:
            return Finish(False, b"")
        if self._over:
            return Finish(True, b"")
        if clean and self._finished and all(self._finished.values()):
            return Finish(True, data_event(_DONE))
        return Finish(False, b"")

    @property
    def reported(self) -> Counts | None:
        """See `rules.Reader`."""
        return self.counts

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our own error event. Chat has no ids or numbers to fit."""
        return error_event(error)

    def _read_chunk(self, chunk: _Chunk, data: bytes, error: ProviderError | None) -> Step:
        read = data
        delta = None
        moved = False
        for choice in chunk.choices or ():
            if choice.finish_reason:
                if choice.finish_reason == "error":
                    error = error or ProviderError(status=502, code="error")
                self._finished[choice.index] = True
            elif choice.index not in self._finished:
                self._finished[choice.index] = False
            delta = choice.delta or choice.message
            moved = (delta is not None and (_moves(delta) or self._calls(choice.index, delta))) or moved
        if chunk.service_tier is not None and chunk.service_tier != self._tier:
            self._take_tier(chunk.service_tier)
        if chunk.usage is not ABSENT:
            self._take_usage(chunk.usage)
            if self._hide_usage:
                if error is None and not chunk.choices and is_filled(chunk.usage):
                    return _DROPPED
                data = cut_usage(data, chunk.usage)
        if error is not None:
            return self._fail(error, data)
        if moved:
            told = data_event(data)
            # Not an answer's first event, since many an answer has but one.
            if self._alike is not None and self.answered and len(chunk.choices or ()) == 1:
                self._alike.follow(told, told if data is read else data_event(read), _text_of, delta)
            self.answered = True
            return _new(Step, (Kind.ANSWER, told))
        return Step(Kind.QUIET if self.answered else Kind.OPENING, data_event(data))

    def _calls(self, choice: int, delta: _Delta) -> bool:
        """Whether a delta moves a tool call: it has arguments, or begins one. Some providers repeat id and name for as
        long as there is nothing to say, which is no progress (contract, "Clocks")."""
        if not is_filled(delta.tool_calls) and not is_filled(delta.function_call):
            return False
        calls = _dicts(loads(delta.tool_calls)) or [{"function": loads(delta.function_call)}]
        return any([self._call(choice, call) for call in calls])

    def _call(self, choice: int, call: dict[str, Any]) -> bool:
        body = call.get("function") or call.get("custom")
        body = body if isinstance(body, dict) else {}
        if call.get("id") or body.get("name"):
            begun = (choice, *(str(value) for value in (call.get("index"), call.get("id"), body.get("name"))))
            if begun not in self._announced:
                self._announced.add(begun)
                return True
        return bool(body.get("arguments") or body.get("input")) or not _CALL.issuperset(call)

    def _take_usage(self, raw: msgspec.Raw) -> None:
        counts = chat_counts(raw, self._tier) if is_filled(raw) else None
        if counts is not None and (self.counts is None or _total(counts) or not _total(self.counts)):
            self.counts = counts

    def _take_tier(self, tier: str) -> None:
        self._tier = tier or None
        if self.counts is not None:
            self.counts = msgspec.structs.replace(self.counts, tier=self._tier)

    def _fail(self, error: ProviderError, data: bytes) -> Step:
        self.error = error
        self._end()
        return Step(Kind.FAILURE, data_event(data))

    def _end(self) -> None:
        self._over = True
        self.patience_s = 0.0


def reader(call: Call, *, hide_usage: bool) -> ChatReader:
    """A reader for one stream; `hide_usage` withholds usage from a client that did not ask for it."""
    return ChatReader(hide_usage=hide_usage)


class _Body(msgspec.Struct):
    """A whole answer of the surface that Chat serves: a completion, embeddings or images."""

    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    data: msgspec.Raw = ABSENT


_BODY = msgspec.json.Decoder(_Body)
#: Counted only: each may be several MiB.
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def read(call: Call, body: bytes) -> UnaryAnswer:
    """Read a whole 2xx body of the operation that was called."""
    try:
        answer = _BODY.decode(body)
    except UNREADABLE:
        members = split_members(body)
        answer = _Body(**{name: members[name] for name in _Body.__struct_fields__ if name in members})
    counts = _body_counts(call, answer)
    error = data_error(body) if is_filled(answer.error) else None
    return UnaryAnswer(counts=counts, reported=counts, error=error)


def _body_counts(call: Call, answer: _Body) -> Counts | None:
    if call.operation == Operation.EMBEDDINGS:
        return embedding_counts(answer.usage)
    tier = _text(answer.service_tier)
    if call.operation != Operation.IMAGES:
        return chat_counts(answer.usage, tier)
    counts = responses_counts(answer.usage, tier, tool_calls={})
    if not call.by_image:
        return counts
    try:
        images = _LIST.decode(answer.data)
    except UNREADABLE:
        return None
    return msgspec.structs.replace(counts or Counts(), images=len(images))


def _text_of(delta: _Delta | None) -> Text | None:
    """The text of a delta that has one."""
    if delta is None:
        return None
    for name in ("content", "reasoning_content", "reasoning"):
        if is_filled(value := getattr(delta, name)):
            return Text(b'"%b":' % name.encode(), bytes(value))
    return None


def _moves(delta: _Delta) -> bool:
    """Whether a delta says anything but that a tool call begins, the frequent members first; for a text of some length
    without a further call."""
    return (
        len(delta.content) > EMPTY_BYTES_MAX
        or is_filled(delta.content)
        or is_filled(delta.reasoning_content)
        or is_filled(delta.reasoning)
        or (len(delta.tool_calls) > EMPTY_BYTES_MAX and _continues(delta.tool_calls))
        or any(is_filled(getattr(delta, name)) for name in _DELTA_RARE)
    )


#: What a delta of a tool call has; one that has more is of a kind that only the client knows.
_CALL = frozenset(("index", "id", "type", "function", "custom"))
_DELTA_RARE = ("refusal", "reasoning_text", "audio", "images", "annotations", "executed_tools", "reasoning_details")


def _continues(raw: msgspec.Raw) -> bool:
    """Whether this is more of one call's arguments and nothing else: nearly every delta of tool calls."""
    try:
        calls = _TOOL_CALLS.decode(raw)
    except UNREADABLE:
        return False
    if len(calls) != 1 or calls[0].id is not ABSENT or calls[0].function is None:
        return False
    return is_filled(calls[0].function.arguments)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _total(counts: Counts) -> int:
    return max(counts.total or 0, (counts.input or 0) + (counts.output or 0))


def _find_error(chunk: _Chunk, event: SseEvent) -> ProviderError | None:
    """The provider's error in an event, in whatever way it says so."""
    if (
        not is_filled(chunk.error)
        and event.name != b"error"
        and (chunk.choices is not None or not _is_bare_error(event.data))
    ):
        return None
    return data_error(event.data)


def _read_leniently(data: bytes) -> _Chunk:
    """The facts of a chunk one of whose members has an unexpected type, so that the others are not lost for it."""
    members = split_members(data)
    chunk = _Chunk(usage=members.get("usage", ABSENT), error=members.get("error", ABSENT))
    chunk.service_tier = _text(members.get("service_tier", ABSENT))
    try:
        choices = _CHOICES.decode(members["choices"])
    except (KeyError, *UNREADABLE):
        return chunk
    chunk.choices = [_read_choice_leniently(choice) for choice in choices]
    return chunk


def _read_choice_leniently(raw: msgspec.Raw) -> _Choice:
    try:
        return _CHOICE.decode(raw)
    except UNREADABLE:
        members = split_members(raw)
    index = loads(members.get("index", ABSENT))
    choice = _Choice(
        index=index if isinstance(index, int) else 0,
        finish_reason=_text(members.get("finish_reason", ABSENT)),
    )
    try:
        choice.delta = _DELTA.decode(members["delta"])
    except (KeyError, *UNREADABLE):
        choice.delta = None
    return choice


def _text(raw: msgspec.Raw) -> str | None:
    value: Any = loads(raw)
    return value if isinstance(value, str) and value else None


def _is_bare_error(data: bytes) -> bool:
    """An error that is the event itself: ``{"object":"error",...}`` (older vLLM, Mistral), ``{"message":,"code":}``."""
    members = split_members(data)
    if _text(members.get("object", ABSENT)) == "error":
        return True
    return "message" in members and ("code" in members or "type" in members) and "id" not in members
