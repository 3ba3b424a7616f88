"""Relaying: whether what the provider said is what the client got, whole and in its form. Pure.

Events that came byte for byte are best; those that were written anew and say the same are a choice; anything else is a
fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.checks.endings import broken, complete
from hoptrio.conform.checks.events import (
    DONE,
    answered,
    data_of,
    errors_in,
    is_error,
    is_terminal,
    kind_of,
    member,
    sent,
    words_of,
)
from hoptrio.conform.verdict import Finding, Verdict, departs, differs
from hoptrio.conform.wire import Ending, Event, as_json
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.conform.case import Trial

__all__ = [
    "WRITTEN_ANEW",
    "array_is_json",
    "blocks_in_order",
    "compare",
    "last_event_decided",
    "no_mark",
    "nothing_empty",
    "one_opening",
    "relayed",
    "relayed_so_far",
    "text_is_whole",
    "unbuffered",
    "whole_or_broken",
]

#: Said where it is no fault.
WRITTEN_ANEW = "events were written anew; they say the same"
_MARK = b"\xef\xbb\xbf"
#: Of the time that it took to send the events, what it takes at least until all are there.
_SPREAD = 0.6


def relayed(trial: Trial) -> Finding | None:
    """Every event of the provider reached the client as it was."""
    return compare(trial, list(sent(trial)), trial.wire.events)


def relayed_so_far(trial: Trial) -> Finding | None:
    """Every whole event that came before a failure reached the client, before it was told of the failure."""
    errors = errors_in(trial)
    got = trial.wire.events[: trial.wire.events.index(errors[0])] if errors else trial.wire.events
    if trial.wire.status >= 400:
        return departs(f"the output before the failure was lost: {answered(trial.wire)}")
    expected = [event for event in sent(trial) if not is_error(trial.protocol, event)]
    return compare(trial, expected, tuple(event for event in got if not is_terminal(trial.protocol, event)))


def whole_or_broken(trial: Trial) -> Finding | None:
    """Everything arrived, or the client can tell that it did not."""
    if complete(trial) is None:
        return relayed(trial)
    return broken(trial)


def last_event_decided(trial: Trial) -> Finding | None:
    """A whole last event without its blank line completes the answer, or its lack is a failure; never neither."""
    if trial.wire.ending is Ending.CLEAN and trial.wire.status == 200 and not errors_in(trial):
        if trial.protocol is Protocol.CHAT or any(is_terminal(trial.protocol, each) for each in trial.wire.events):
            return compare(trial, list(sent(trial, ended=True)), trial.wire.events)
        return departs("the terminal was lost, and the stream ended like a complete one")
    return broken(trial) or differs("a last event without its blank line is a failure here")


def compare(trial: Trial, expected: list[Event], got: Iterable[Event]) -> Finding | None:
    """Whether `got` is `expected`, byte for byte or in what it says."""
    got = list(got)
    if trial.wire.status != 200:
        return departs(answered(trial.wire))
    if data_of(expected) == data_of(got):
        return None
    told, heard = words_of(trial.protocol, expected), words_of(trial.protocol, got)
    if told == heard:
        return Finding(Verdict.PASS, WRITTEN_ANEW)
    missing = sum(map(len, told.values())) - sum(map(len, heard.values()))
    return departs(f"the answer was changed ({missing:+d} characters missing)" if missing else "the answer was changed")


def text_is_whole(trial: Trial) -> Finding | None:
    """Responses: what is *done* repeats its deltas."""
    deltas: dict[Any, str] = {}
    for event in trial.wire.events:
        item = member(event, "item_id")
        if kind_of(event) == "response.output_text.delta":
            deltas[item] = deltas.get(item, "") + str(member(event, "delta"))
        elif kind_of(event) == "response.output_text.done" and member(event, "text") != deltas.get(item):
            return departs("the text that is done is not the sum of its deltas")
    return None if deltas else departs("no text came")


def one_opening(trial: Trial) -> Finding | None:
    """A failure before the answer did not make a second beginning."""
    openings = {Protocol.RESPONSES: "response.created", Protocol.MESSAGES: "message_start"}
    kind = openings.get(trial.protocol)
    begun = [event for event in trial.wire.events if kind is not None and kind_of(event) == kind]
    if len(begun) > 1:
        return departs(f"the answer began {len(begun)} times")
    if len({event.data for event in trial.wire.events}) < len(trial.wire.events):
        return departs("an event came twice")
    return None


def nothing_empty(trial: Trial) -> Finding | None:
    """No parser is given an event without data, or one that is no JSON."""
    reading = trial.wire.reading
    if reading.empty_events:
        return departs("comments behind an id make empty events in the OpenAI SDK for Python")
    if any(as_json(event.data) is None and event.data != DONE for event in reading.events):
        return departs("an event came that is no JSON")
    return None


def blocks_in_order(trial: Trial) -> Finding | None:
    """Messages: the arguments of both calls are whole, each in its own block."""
    calls: dict[Any, str] = {}
    for event in trial.wire.events:
        if member(event, "delta", "type") == "input_json_delta":
            block = member(event, "index")
            calls[block] = calls.get(block, "") + str(member(event, "delta", "partial_json"))
    if sorted(calls.values()) == ['{"x":1}', '{"y":2}']:
        return None
    return departs("the arguments of two calls by turns were mixed up")


def array_is_json(trial: Trial) -> Finding | None:
    """Gemini's other form: one JSON array of what the provider sent."""
    wire = trial.wire
    if wire.status == 400:
        return differs("it does not offer the JSON array")
    if wire.status != 200:
        return departs(answered(wire))
    value = as_json(wire.body)
    if not isinstance(value, list) or wire.ending is not Ending.CLEAN:
        return departs("the answer is no JSON array")
    got = [Event(b"", msgspec.json.encode(each), 0.0) for each in value]
    theirs = as_json(b"".join(trial.asked[-1].sent)) if trial.asked else None
    told = sent(trial) or [Event(b"", msgspec.json.encode(each), 0.0) for each in theirs or ()]
    return (
        None if words_of(trial.protocol, got) == words_of(trial.protocol, told) else departs("the answer was changed")
    )


def no_mark(trial: Trial) -> Finding | None:
    """The byte order mark is gone."""
    if trial.wire.body.count(_MARK) == 0:
        return None
    first = trial.wire.body.startswith(_MARK)
    return differs("the byte order mark was passed on") if first else departs("a byte order mark is inside the stream")


def unbuffered(trial: Trial) -> Finding | None:
    """Proxies are told not to collect, and the events come as they are sent."""
    times = [event.at_s for event in trial.wire.events]
    if not times or not trial.asked:
        return departs(answered(trial.wire))
    sent_s, came_s = trial.asked[-1].sent_s, times[-1] - times[0]
    if came_s < (sent_s[-1] - sent_s[0]) * _SPREAD:
        return departs(f"events sent over {sent_s[-1] - sent_s[0]:.1f} s came within {came_s:.1f} s")
    control = trial.wire.headers.get("cache-control", "")
    if trial.wire.headers.get("x-accel-buffering") != "no":
        return departs("X-Accel-Buffering: no is missing")
    if "no-cache" in control and "no-transform" in control:
        return None
    return differs("Cache-Control lets proxies change the stream")
