"""Checks: what must be true of one answer. Each is a function of a `Trial` that returns what is wrong, or None. Pure.

Where an answer may be right in several ways (an error event, a cut connection, both), every one of them passes: what
counts is that the client can tell. Events that came byte for byte are best; those that were written anew and say the
same are a choice; anything else is a fault.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.verdict import Finding, Verdict, departs, differs
from hoptrio.conform.wire import Ending, Event, as_json, read
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.conform.case import Check, Trial
    from hoptrio.conform.wire import Wire

#: An output limit beyond any model's.
FANTASY = 10**9
#: Between an error and the end of what it ended: a second, and a lingering read of two.
CLOSE_S = 3.0
_DONE = b"[DONE]"
_MARK = b"\xef\xbb\xbf"
_RESPONSE_ENDS = ("response.completed", "response.incomplete")
_RESPONSE_ERRORS = ("error", "response.failed")
_RESPONSE_CODES = ("server_error", "rate_limit_exceeded", "invalid_prompt")
#: A keep-alive may be so late.
_SLACK_S = 2.0
_DEADLINE_SLACK_S = 12.0
#: Five events 0.3 s apart.
_SPREAD_S = 1.0


# -- what an event is -------------------------------------------------------------------------------------------------


def is_terminal(protocol: Protocol, event: Event) -> bool:
    """Whether it tells the client that the answer is complete."""
    if protocol is Protocol.CHAT:
        return event.data == _DONE
    value = as_json(event.data)
    if not isinstance(value, dict):
        return False
    if protocol is Protocol.RESPONSES:
        return value.get("type") in _RESPONSE_ENDS
    if protocol is Protocol.MESSAGES:
        return value.get("type") == "message_stop"
    candidates = value.get("candidates")
    finished = isinstance(candidates, list) and any(
        isinstance(each, dict) and each.get("finishReason") for each in candidates
    )
    return finished or "promptFeedback" in value


def is_error(protocol: Protocol, event: Event) -> bool:
    """Whether it tells the client that there will be no complete answer."""
    value = as_json(event.data)
    if not isinstance(value, dict):
        return False
    if protocol is Protocol.RESPONSES:
        return value.get("type") in _RESPONSE_ERRORS
    if protocol is Protocol.MESSAGES:
        return value.get("type") == "error"
    return bool(value.get("error"))


def sent(trial: Trial, *, ended: bool = False) -> tuple[Event, ...]:
    """The events that the provider sent, to the last request; with `ended` the last one needs no blank line."""
    tail = b"\n\n" if ended else b""
    return read([(0.0, data) for data in (*trial.asked[-1].sent, tail)]).events if trial.asked else ()


def _errors(trial: Trial) -> list[Event]:
    return [event for event in trial.wire.events if is_error(trial.protocol, event)]


def _kind(event: Event) -> Any:
    value = as_json(event.data)
    return value.get("type") if isinstance(value, dict) else None


def _words(protocol: Protocol, events: Iterable[Event]) -> dict[tuple[int, str], str]:
    """What a model said in `events`, by the part of the answer."""
    words: dict[tuple[int, str], str] = {}
    for event in events:
        for said in RULES[protocol].said(event.data):
            for part, text in () if said.whole else said.pieces:
                words[said.group, part] = words.get((said.group, part), "") + text
    return words


# -- complete and broken ----------------------------------------------------------------------------------------------


def clean(trial: Trial) -> Finding | None:
    """200, and an end by the framing."""
    wire = trial.wire
    if wire.status != 200:
        return departs(_answered(wire))
    if wire.ending is not Ending.CLEAN:
        return departs(f"a complete stream ended {wire.ending}")
    return None


def complete(trial: Trial) -> Finding | None:
    """The client sees a whole answer, and no error."""
    found = clean(trial)
    if found is not None:
        return found
    if _errors(trial):
        return departs("a complete stream was told as an error")
    if not any(is_terminal(trial.protocol, event) for event in trial.wire.events):
        return departs("a complete stream came without its terminal")
    return None


def no_error(trial: Trial) -> Finding | None:
    """The client is told of no failure."""
    return departs("a complete stream was told as an error") if _errors(trial) else None


def no_terminal(trial: Trial) -> Finding | None:
    """Nothing says that a broken answer is complete."""
    if any(is_terminal(trial.protocol, event) for event in trial.wire.events):
        return departs("a broken stream got a terminal" + (" behind its error" if _errors(trial) else ""))
    return None


def broken(trial: Trial) -> Finding | None:
    """The client can tell that the answer is not complete: by a status, an error event, or a connection that broke."""
    wire = trial.wire
    if wire.ending is Ending.OPEN:
        return departs(f"the stream was still open after {wire.ended_s:.0f} s")
    if wire.status >= 400:
        return None
    found = no_terminal(trial)
    if found is None and wire.ending is Ending.CLEAN and not _errors(trial):
        return departs("a broken stream ended like a complete one")
    return found


def stalled(trial: Trial) -> Finding | None:
    """The stream was ended by its stall limit, and not long before it."""
    wire, settings = trial.wire, trial.settings
    if wire.ending is Ending.OPEN:
        return departs(f"the stream was still open after {wire.ended_s:.0f} s without progress")
    if wire.ended_s < settings.stall_s / 2:
        return differs(f"a silence of {wire.ended_s:.0f} s is taken for a stall")
    return None


def deadline_kept(trial: Trial) -> Finding | None:
    """A steady stream ends at the deadline, not before, and visibly."""
    wire, deadline_s = trial.wire, trial.settings.deadline_s
    if wire.status != 200:
        return departs(_answered(wire))
    if wire.ended_s < deadline_s - _DEADLINE_SLACK_S:
        return departs(f"a steady stream was cut after {wire.ended_s:.0f} s")
    if wire.ended_s > deadline_s + _DEADLINE_SLACK_S:
        return differs("it knows no deadline")
    return broken(trial)


def refused_page(trial: Trial) -> Finding | None:
    """What is no answer of a model is a 502, and none of it reaches the client."""
    if b"<html" in trial.wire.body:
        return departs("the page was relayed")
    if trial.wire.status == 200:
        return broken(trial) or differs("it is told as an error event behind a 200")
    return None if trial.wire.status >= 500 else departs(_answered(trial.wire))


def no_server_error(trial: Trial) -> Finding | None:
    """The answer, or an error of the client's protocol; never a crash."""
    wire = trial.wire
    if wire.status == 500 or not wire.status:
        return departs(_answered(wire))
    return departs("the stream was left open") if wire.ending is Ending.OPEN else None


def whole_or_broken(trial: Trial) -> Finding | None:
    """Everything arrived, or the client can tell that it did not."""
    if complete(trial) is None:
        return relayed(trial)
    return broken(trial)


def last_event_decided(trial: Trial) -> Finding | None:
    """A whole last event without its blank line completes the answer, or its lack is a failure; never neither."""
    if trial.wire.ending is Ending.CLEAN and trial.wire.status == 200 and not _errors(trial):
        if trial.protocol is Protocol.CHAT or any(is_terminal(trial.protocol, each) for each in trial.wire.events):
            return _compare(trial, list(sent(trial, ended=True)), trial.wire.events)
        return departs("the terminal was lost, and the stream ended like a complete one")
    return broken(trial) or differs("a last event without its blank line is a failure here")


def ended_within(seconds: float) -> Check:
    """The end of a failed answer comes by then, counted from its error, or else from its last byte."""

    def check(trial: Trial) -> Finding | None:
        wire = trial.wire
        errors = _errors(trial)
        since_s = errors[0].at_s if errors else max((at for at, _ in wire.pieces), default=0.0)
        if wire.ending is Ending.OPEN or (errors and wire.ended_s - since_s > seconds):
            return departs(f"the stream was open {wire.ended_s - since_s:.1f} s after its failure")
        return None

    return check


def _answered(wire: Wire) -> str:
    if not wire.status:
        return f"no answer: the connection ended {wire.ending} after {wire.ended_s:.1f} s"
    return f"answered {wire.status}"


# -- what was relayed -------------------------------------------------------------------------------------------------


def relayed(trial: Trial) -> Finding | None:
    """Every event of the provider reached the client as it was."""
    return _compare(trial, list(sent(trial)), trial.wire.events)


def relayed_so_far(trial: Trial) -> Finding | None:
    """Every whole event that came before a failure reached the client, before it was told of the failure."""
    errors = _errors(trial)
    got = trial.wire.events[: trial.wire.events.index(errors[0])] if errors else trial.wire.events
    if trial.wire.status >= 400:
        return departs(f"the output before the failure was lost: {_answered(trial.wire)}")
    expected = [event for event in sent(trial) if not is_error(trial.protocol, event)]
    return _compare(trial, expected, tuple(event for event in got if not is_terminal(trial.protocol, event)))


def _compare(trial: Trial, expected: list[Event], got: Iterable[Event]) -> Finding | None:
    got = list(got)
    if trial.wire.status != 200:
        return departs(_answered(trial.wire))
    if _data(expected) == _data(got):
        return None
    told, heard = _words(trial.protocol, expected), _words(trial.protocol, got)
    if told == heard:
        return differs("events were written anew; they say the same")
    missing = sum(map(len, told.values())) - sum(map(len, heard.values()))
    return departs(f"the answer was changed ({missing:+d} characters missing)" if missing else "the answer was changed")


def _data(events: Iterable[Event]) -> list[bytes]:
    """A chat stream may be given the ``[DONE]`` that it lacks."""
    return [event.data for event in events if event.data != _DONE]


def text_is_whole(trial: Trial) -> Finding | None:
    """Responses: what is *done* repeats its deltas."""
    deltas: dict[Any, str] = {}
    for event in trial.wire.events:
        value = as_json(event.data) or {}
        if value.get("type") == "response.output_text.delta":
            item = value.get("item_id")
            deltas[item] = deltas.get(item, "") + str(value.get("delta"))
        elif value.get("type") == "response.output_text.done" and value.get("text") != deltas.get(value.get("item_id")):
            return departs("the text that is done is not the sum of its deltas")
    return None if deltas else departs("no text came")


def one_opening(trial: Trial) -> Finding | None:
    """A failure before the answer did not make a second beginning."""
    openings = {Protocol.RESPONSES: "response.created", Protocol.MESSAGES: "message_start"}
    kind = openings.get(trial.protocol)
    begun = [event for event in trial.wire.events if kind is not None and _kind(event) == kind]
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
    if any(as_json(event.data) is None and event.data != _DONE for event in reading.events):
        return departs("an event came that is no JSON")
    return None


# -- what was added ---------------------------------------------------------------------------------------------------


def blocks_in_order(trial: Trial) -> Finding | None:
    """Messages: the arguments of both calls are whole, each in its own block."""
    calls: dict[int, str] = {}
    for event in trial.wire.events:
        value = as_json(event.data)
        delta = value.get("delta") if isinstance(value, dict) else None
        if isinstance(delta, dict) and delta.get("type") == "input_json_delta":
            calls[value["index"]] = calls.get(value["index"], "") + str(delta.get("partial_json"))
    if sorted(calls.values()) == ['{"x":1}', '{"y":2}']:
        return None
    return departs("the arguments of two calls by turns were mixed up")


def no_smuggled_event(trial: Trial) -> Finding | None:
    """No line of the stream was begun by a string of the provider."""
    names = {event.name for event in trial.wire.events} | {event.data for event in trial.wire.events}
    return departs("a string of the provider forged an event") if {b"forged", b"{}"} & names else None


def no_mark(trial: Trial) -> Finding | None:
    """The byte order mark is gone."""
    if trial.wire.body.count(_MARK) == 0:
        return None
    first = trial.wire.body.startswith(_MARK)
    return differs("the byte order mark was passed on") if first else departs("a byte order mark is inside the stream")


def unbuffered(trial: Trial) -> Finding | None:
    """Proxies are told not to collect, and the events come as they are sent."""
    times = [event.at_s for event in trial.wire.events]
    if not times:
        return departs(_answered(trial.wire))
    if times[-1] - times[0] < _SPREAD_S:
        return departs(f"events sent over 1.2 s came within {times[-1] - times[0]:.1f} s")
    control = trial.wire.headers.get("cache-control", "")
    if trial.wire.headers.get("x-accel-buffering") != "no":
        return departs("X-Accel-Buffering: no is missing")
    return (
        None if "no-cache" in control and "no-transform" in control else departs("Cache-Control lets proxies change it")
    )


def usage_chunk_is_bare(trial: Trial) -> Finding | None:
    """Chat: the usage comes in a chunk whose choices are empty."""
    values = [as_json(event.data) for event in trial.wire.events]
    chunks = [value for value in values if isinstance(value, dict) and value.get("usage")]
    if not chunks:
        return departs("the usage that was asked for did not come")
    return departs("the usage stands on a chunk with choices") if chunks[-1].get("choices") else None


def usage_withheld(trial: Trial) -> Finding | None:
    """Chat: no usage for a client that did not ask; or a clear refusal, before the provider is asked."""
    if trial.wire.status == 400 and not trial.asked:
        return None
    values = [as_json(event.data) for event in trial.wire.events]
    if any(isinstance(value, dict) and value.get("usage") for value in values):
        return departs("usage that the client did not ask for was sent to it")
    return complete(trial)


def limit_lowered(trial: Trial) -> Finding | None:
    """An output limit beyond any model's was lowered, or refused by a 4xx."""
    if 400 <= trial.wire.status < 500:
        return None
    if trial.asked and str(FANTASY).encode() in trial.asked[-1].seen.body:
        return complete(trial) or differs("an output limit of any size is passed on")
    return complete(trial)


def stranger_refused(trial: Trial) -> Finding | None:
    """An id that the account never got is refused, and the provider not asked."""
    if trial.asked:
        return differs("an id of unknown origin is passed on to the provider")
    return None if 400 <= trial.wire.status < 500 else departs(_answered(trial.wire))


def no_noise(trial: Trial) -> Finding | None:
    """No comment of the provider reached the client, least of all as data."""
    theirs = {comment for asked in trial.asked for comment in read([(0.0, each) for each in asked.sent]).comments}
    if any(event.data in theirs for event in trial.wire.events):
        return departs("a comment of the provider became data")
    if theirs & set(trial.wire.reading.comments):
        words = "comments of the provider were passed on"
        return departs(words + ", which Google's SDKs fail on") if trial.protocol is Protocol.GEMINI else differs(words)
    return None


def no_forged_events_but_errors(trial: Trial) -> Finding | None:
    """Nothing but the failure itself was added."""
    theirs = _data(sent(trial))
    added = [event for event in trial.wire.events if event.data not in theirs and not is_error(trial.protocol, event)]
    if not _words(trial.protocol, added) and not any(is_terminal(trial.protocol, event) for event in added):
        return differs("events were written anew") if added else None
    return departs("output was invented")


def no_forged_events(trial: Trial) -> Finding | None:
    """A silence was filled with nothing that a client takes for the model's."""
    if trial.protocol is Protocol.GEMINI and trial.wire.reading.comments:
        return departs("comments were written, which Google's SDKs fail on")
    theirs = {event.data for event in sent(trial)}
    known = _words(trial.protocol, sent(trial))
    for event in trial.wire.events:
        if event.data in theirs or event.data == _DONE:
            continue
        if trial.protocol is Protocol.MESSAGES and _kind(event) == "ping":
            return differs("pings that the provider never sent keep the stream alive")
        if not _words(trial.protocol, [event]) and known == _words(trial.protocol, trial.wire.events):
            continue
        return departs("an event came that the provider never sent")
    return None


def kept_alive(count: int) -> Check:
    """So many times something was written while the provider was silent."""

    def check(trial: Trial) -> Finding | None:
        wire, settings = trial.wire, trial.settings
        if wire.status != 200:
            return departs(_answered(wire))
        times = [0.0, *(at for at, _ in wire.pieces)]
        gap = max((later - at for at, later in pairwise(times)), default=0.0)
        if gap <= settings.keepalive_s + _SLACK_S:
            return None
        quiet = settings.idle_s if count == 1 else settings.long_idle_s
        if gap >= quiet - _SLACK_S:
            return differs(f"nothing was written in {gap:.0f} s of silence: it keeps no stream alive here")
        return departs(f"{gap:.0f} s passed without a byte, and the interval is {settings.keepalive_s:g} s")

    return check


def no_interim(trial: Trial) -> Finding | None:
    """Keep-alives are body bytes: proxies do not count a 1xx as life."""
    return departs(f"an interim {trial.wire.interim[0]} was sent") if trial.wire.interim else None


def array_is_json(trial: Trial) -> Finding | None:
    """Gemini's other form: one JSON array of what the provider sent."""
    wire = trial.wire
    if wire.status == 400:
        return differs("it does not offer the JSON array")
    if wire.status != 200:
        return departs(_answered(wire))
    value = as_json(wire.body)
    if not isinstance(value, list) or wire.ending is not Ending.CLEAN:
        return departs("the answer is no JSON array")
    got = [Event(b"", msgspec.json.encode(each), 0.0) for each in value]
    theirs = as_json(b"".join(trial.asked[-1].sent)) if trial.asked else None
    told = sent(trial) or [Event(b"", msgspec.json.encode(each), 0.0) for each in theirs or ()]
    return None if _words(trial.protocol, got) == _words(trial.protocol, told) else departs("the answer was changed")


# -- errors -----------------------------------------------------------------------------------------------------------


def error_is_whole(trial: Trial) -> Finding | None:
    """The failure is told in the client's protocol, in one event."""
    errors = _errors(trial)
    if not errors:
        return None if trial.wire.status >= 400 else differs("failures are told by the cut connection alone")
    value = as_json(errors[0].data)
    error = value.get("error") if isinstance(value, dict) else None
    if trial.protocol is Protocol.RESPONSES:
        return None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return departs("the error event has no message")
    if trial.protocol is Protocol.MESSAGES and errors[0].name != b"error":
        return departs("the error event lacks its name, by which the SDKs know it")
    if trial.protocol is Protocol.GEMINI and not isinstance(error.get("code"), int):
        return departs("the error's code is no integer, which Google's SDKs fail on")
    return departs("the failure was told twice") if len(errors) > 1 else None


def failed_response_goes_on(trial: Trial) -> Finding | None:
    """Responses clients know ``response.failed`` alone, as the next event of their own response."""
    failed = [event for event in trial.wire.events if _kind(event) == "response.failed"]
    if not failed:
        return departs("an error event that clients ignore") if _errors(trial) else error_is_whole(trial)
    value, begun = as_json(failed[0].data), [as_json(event.data) for event in trial.wire.events[:-1]]
    response = value.get("response") or {}
    if response.get("id") != (begun[0].get("response") or {}).get("id"):
        return departs("response.failed is of another response")
    if value.get("sequence_number") != begun[-1].get("sequence_number", -2) + 1:
        return departs("response.failed has not the next sequence number")
    code = (response.get("error") or {}).get("code")
    return None if code in _RESPONSE_CODES else departs("response.failed has a code that clients do not know")


def forwarded_failure(trial: Trial) -> Finding | None:
    """The provider's own error reached the client, once."""
    theirs = [event for event in sent(trial) if is_error(trial.protocol, event)]
    errors = _errors(trial)
    if not errors:
        if trial.wire.ending in (Ending.TRUNCATED, Ending.RESET):
            return differs("the provider's error is told by the cut connection alone")
        return departs("the provider's error was lost")
    # What Responses clients know is response.failed, so that it may follow an event named error.
    added = [event for event in errors[len(theirs) :] if _kind(event) != "response.failed"]
    if added or (len(errors) > len(theirs) and _kind(theirs[-1]) == "response.failed"):
        return departs("the failure was told twice")
    if trial.protocol in (Protocol.RESPONSES, Protocol.MESSAGES) and errors[0].name != str(_kind(errors[0])).encode():
        return departs("the error event lacks its name, by which the SDKs know it")
    return (
        None
        if _data(theirs) == _data(errors[: len(theirs)])
        else differs("the provider's error was told in other words")
    )


# -- the provider's side ----------------------------------------------------------------------------------------------


def asked_once(trial: Trial) -> Finding | None:
    """One request was made of the provider, since each is paid for."""
    return None if len(trial.asked) == 1 else departs(f"the provider was asked {len(trial.asked)} times")


def drained_unread(trial: Trial) -> Finding | None:
    """The provider was heard to its end though nobody read."""
    if trial.asked and trial.asked[-1].seen.outcome == "open":
        return departs("a client that does not read holds up the provider")
    return drained(trial)


def drained(trial: Trial) -> Finding | None:
    """The provider was heard to its end though the client had left."""
    if not trial.asked:
        return departs("the provider was not asked")
    outcome = trial.asked[-1].seen.outcome
    if outcome == "open":
        return Finding(Verdict.FAIL, "the provider's stream was neither read to its end nor closed")
    return None if trial.asked[-1].drained else differs("it leaves the provider when its client leaves")
