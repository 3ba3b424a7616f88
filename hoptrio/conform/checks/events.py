"""Events: what one means to a client, and what the provider sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.conform.wire import Event, as_json, read
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.conform.case import Trial
    from hoptrio.conform.wire import Wire

__all__ = [
    "DONE",
    "answered",
    "data_of",
    "errors_in",
    "is_error",
    "is_terminal",
    "kind_of",
    "member",
    "sent",
    "words_of",
]

DONE = b"[DONE]"
_RESPONSE_ENDS = ("response.completed", "response.incomplete")
_RESPONSE_ERRORS = ("error", "response.failed")


def member(event: Event, *path: str) -> Any:
    """What stands at `path` in the event's JSON object; None if there is nothing, or no object."""
    value = as_json(event.data)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def is_terminal(protocol: Protocol, event: Event) -> bool:
    """Whether it tells the client that the answer is complete."""
    if protocol is Protocol.CHAT:
        return event.data == DONE
    if protocol is Protocol.RESPONSES:
        return kind_of(event) in _RESPONSE_ENDS
    if protocol is Protocol.MESSAGES:
        return bool(kind_of(event) == "message_stop")
    candidates = member(event, "candidates")
    finished = isinstance(candidates, list) and any(
        isinstance(each, dict) and each.get("finishReason") for each in candidates
    )
    return finished or member(event, "promptFeedback") is not None


def is_error(protocol: Protocol, event: Event) -> bool:
    """Whether it tells the client that there will be no complete answer."""
    if protocol is Protocol.RESPONSES:
        return kind_of(event) in _RESPONSE_ERRORS
    if protocol is Protocol.MESSAGES:
        return bool(kind_of(event) == "error")
    return bool(member(event, "error"))


def sent(trial: Trial, *, ended: bool = False) -> tuple[Event, ...]:
    """The events that the provider sent, to the last request; with `ended` the last one needs no blank line."""
    tail = b"\n\n" if ended else b""
    return read([(0.0, data) for data in (*trial.asked[-1].sent, tail)]).events if trial.asked else ()


def errors_in(trial: Trial) -> list[Event]:
    """The events that told the client of a failure."""
    return [event for event in trial.wire.events if is_error(trial.protocol, event)]


def kind_of(event: Event) -> Any:
    """The member ``type``."""
    return member(event, "type")


def words_of(protocol: Protocol, events: Iterable[Event]) -> dict[tuple[int, str], str]:
    """What a model said in `events`, by the part of the answer."""
    words: dict[tuple[int, str], str] = {}
    for event in events:
        if as_json(event.data) is None:
            continue
        for said in RULES[protocol].said(event.data):
            for part, text in () if said.whole else said.pieces:
                words[said.group, part] = words.get((said.group, part), "") + text
    return words


def data_of(events: Iterable[Event]) -> list[bytes]:
    """Their data; a Chat stream may be given the ``[DONE]`` that it lacks."""
    return [event.data for event in events if event.data != DONE]


def answered(wire: Wire) -> str:
    """How it answered, in words."""
    if not wire.status:
        return f"no answer: the connection ended {wire.ending} after {wire.ended_s:.1f} s"
    return f"answered {wire.status}"
