"""Invariants: what must hold of every request, judged from outside, by the contract page alone.

Each function gets one request's `History` and yields what is wrong with it. `money` is asked at the settlement,
`answer` when the client is done.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bench.world import declared
from bench.world.books import Books
from bench.world.client import TERMINALS
from hoptrio.contract import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.world.history import History
    from bench.world.provider import Performance
    from tests.support.client import Response

#: After the deadline: delivery (60 s), a settlement (10 s) and closing, with the clock's own grain.
LAST_S = 60 + 10 + 10
_EPSILON_S = 1e-6
_KEEPALIVE = b": hopbase-keepalive"
_LEDGER_AWAY = re.compile(rb"ledger (cannot be written now|did not answer in time)|wait for the ledger")
_REFUSED = re.compile(rb"needs a hold of|as many streams at once as it may")
_COMPLETE = ("sse_terminal", "json_body")
_PRODUCED = (
    Reason.NO_EVIDENCE,
    Reason.PROVIDER_ERROR,
    Reason.TRUNCATED,
    Reason.STALLED,
    Reason.DEADLINE,
    Reason.SHUTDOWN,
)


# -- money ------------------------------------------------------------------------------------------------------------


def money(history: History, now: float, stall_s: float | None) -> Iterator[str]:
    """What is wrong with the settlement that has just been made."""
    record, performances = history.record, history.performances
    if record is None:
        yield "settled without a record"
        return
    # The record of an orphan was written at its hold: nobody had yet said what came after.
    said = record.attempts if record.reason not in (Reason.ORPHANED, "operator") else 1
    if len(performances) > 1 or said < len(performances):
        yield f"the provider was asked {len(performances)} times, the record says {record.attempts}"
    yield from _reason(history, now, stall_s)
    if record.state == "captured" and record.evidence in _COMPLETE:
        yield from _complete(history, performances)
    elif record.state == "captured":
        if history.contract.interrupted != "charge" or record.reason not in _PRODUCED:
            yield f"{record.evidence} was charged for {record.reason} under {history.contract.interrupted}"
    elif record.state == "released":
        yield from _released(history, performances)
    else:
        yield f"settled as {record.state}"


def _complete(history: History, performances: list[Performance]) -> Iterator[str]:
    record, row = history.record, history.row
    if record is None or row is None or not performances:
        yield "captured and never dispatched"
        return
    if record.reason is not None and not row.late:
        yield f"captured by {record.evidence} and yet {record.reason}"
    last = performances[-1]
    usage = declared.usage(last.prompt, last.script)
    if usage is None or not declared.completes(last.prompt, last.script, said=_said(history)):
        yield f"captured by {record.evidence}, which was never sent whole"
        return
    bounds = declared.bounds(last.prompt, last.seen.body)
    cost = min(usage.cost(Books.prices_of(history.prices), bounds), row.hold.amount_nanos)
    charge = row.charge_nanos + row.uncollected_nanos
    if charge != cost or record.charge_nanos != row.charge_nanos:
        yield f"charged {charge} ({record.charge_nanos} on record), {usage} costs {cost}"


def captured_late(history: History) -> Iterator[str]:
    """What is wrong with a capture that came after its hold was released without its gateway."""
    record, row = history.record, history.row
    if record is None or row is None:
        yield "captured late without a record"
        return
    if "late_capture" not in record.flags:
        yield f"captured late, flags {record.flags}"
    if record.evidence in _COMPLETE:
        yield from _complete(history, history.performances)


def dispatched(history: History) -> Iterator[str]:
    """What is wrong with a request that has just reached the provider."""
    row, last = history.row, history.performances[-1]
    if row is None:
        yield "dispatched without a hold"
        return
    if row.state != "open" and row.reason not in (Reason.ORPHANED, "operator"):
        yield f"dispatched when its hold was {row.state} for {row.reason}"
    wanted = declared.bounds(last.prompt, last.seen.body).cost(Books.prices_of(history.prices))
    if row.hold.amount_nanos != wanted:
        yield f"{row.hold.amount_nanos} held for what may cost {wanted}"


def _released(history: History, performances: list[Performance]) -> Iterator[str]:
    record = history.record
    if record is None or not performances:
        return
    if record.charge_nanos:
        yield f"released and charged {record.charge_nanos}"
    if record.reason is None:
        yield "released without a reason"
    last = performances[-1]
    whole = _said(history) and declared.completes(last.prompt, last.script)
    if whole and declared.usage(last.prompt, last.script) is not None:
        yield f"released for {record.reason} although the provider had said everything"


def _said(history: History) -> bool:
    """Whether the provider had said everything before the gateway stopped listening."""
    record, said_at = history.record, history.performances[-1].said_at
    ended_ms = dict((event, at_ms) for at_ms, event in record.timeline).get("ended") if record else None
    if ended_ms is None or said_at is None or history.started_at is None:
        # An end that the gateway had no part in has no such moment.
        return False
    return said_at < history.started_at + ended_ms / 1000 - _EPSILON_S


def _reason(history: History, now: float, stall_s: float | None) -> Iterator[str]:
    reason = None if history.record is None else history.record.reason
    asked_at = history.dispatched_at
    took_s = None if asked_at is None else now - asked_at
    if reason == Reason.INTERNAL:
        yield "internal: a bug"
    if reason in (Reason.SHUTDOWN, Reason.ORPHANED, "operator") and not history.disturbed:
        yield f"{reason} while nothing of the kind happened"
    if reason == Reason.STALLED and (stall_s is None or took_s is None or took_s < stall_s - _EPSILON_S):
        yield f"stalled after {took_s}, the limit is {stall_s}"
    if reason == Reason.DEADLINE and (took_s is None or took_s < history.contract.deadline_seconds - _EPSILON_S):
        yield f"deadline after {took_s}"
    if history.performances and stall_s is not None and not history.disturbed:
        silent_s = now - (history.performances[-1].sent_at or asked_at or now)
        if silent_s > stall_s + 1:
            yield f"not stalled after {silent_s} s of silence, the limit is {stall_s}"
    if took_s is not None and not history.disturbed and took_s > history.contract.deadline_seconds + 1:
        yield f"settled {took_s} after the dispatch"


# -- the answer -------------------------------------------------------------------------------------------------------


def unsettled_terminal(history: History, response: Response) -> bool:
    """A client sees an end although its gateway's resolution is not durable; asked at each piece it gets.

    That the hold was released by a sweep does not count: what the gateway knows is not in the ledger yet."""
    if response.status != 200 or history.settled_at is not None or history.hold is None:
        return False
    if not history.plan.stream:
        return True
    recent = response.pieces[-1][1]
    return any(mark in recent for mark in TERMINALS[history.plan.protocol])


def undispatched(history: History) -> Iterator[str]:
    """A client that was told that its hold was refused, or could not be had, never reached the provider."""
    for response in history.responses:
        if response.status in (402, 429, 503) and response.clean and history.performances and _refused_hold(response):
            yield f"reached the provider, and the client got {response.status} {response.body[:200]!r}"


def _refused_hold(response: Response) -> bool:
    """By what it says: after the dispatch a 503 may mean that the settlement failed, a 429 is the provider's own."""
    if response.status == 503:
        return _LEDGER_AWAY.search(response.body) is not None
    return _REFUSED.search(response.body) is not None


def answer(history: History) -> Iterator[str]:
    """What is wrong with what the client got, once it is done."""
    for response in history.responses:
        if response.status < 200:
            continue
        if "x-request-id" not in response.headers:
            yield "an answer without X-Request-Id"
        if response.status != 200:
            yield from _refusal(history, response)
        elif history.plan.stream:
            yield from _stream(history, response)
        else:
            yield from _whole(history, response)
    if len(history.responses) > 1:
        yield "two answers to one request"


def _refusal(history: History, response: Response) -> Iterator[str]:
    record = history.record
    refused = 400 <= response.status < 500 or history.disturbed
    if history.plan.fate == "bad" and (history.hold is not None or not refused):
        yield f"a bad request got {response.status}"
    if record is not None and record.state == "captured" and not history.disturbed:
        yield f"captured, and the client got {response.status}"
    if response.clean:
        try:
            found = json.loads(response.body)
        except ValueError:
            yield f"a body that is not JSON: {response.body[:100]!r}"
        else:
            if not isinstance(found, dict) or "error" not in found:
                yield f"an error body without an error: {response.body[:100]!r}"
    if response.status == 500:
        yield "internal: a bug"


def _whole(history: History, response: Response) -> Iterator[str]:
    if not response.clean:
        return
    record = history.record
    without = record is not None and record.reason in (Reason.ORPHANED, "operator") and history.settled_at is not None
    if record is None or not (without or record.reason in (None, Reason.NO_EVIDENCE)):
        yield f"a whole answer for {record and record.reason}"
    if history.performances and response.body != history.performances[-1].body:
        yield "the body is not the provider's"


def _stream(history: History, response: Response) -> Iterator[str]:
    got, wrong = _payloads(history, response)
    yield from wrong
    yield from _relayed(history, response, got)
    yield from _ending(history, response, got)
    if history.read_all and not history.disturbed:
        yield from _alive(history, response)


def _relayed(history: History, response: Response, got: list[bytes]) -> Iterator[str]:
    """Events are the provider's, unchanged and in order; at the end there may be an error of ours."""
    sent = _expected(history)
    same = 0
    while same < min(len(sent), len(got)) and sent[same] == got[same]:
        same += 1
    ours = got[same:]
    if history.plan.kind == "chat" and ours == [b"[DONE]"]:
        return
    if history.plan.protocol == "responses" and len(ours) == 2 and _type(ours[0]) == "response.created":
        del ours[0]
    if len(ours) > 1 or (ours and not is_error(history, ours[0])):
        wanted = sent[same] if same < len(sent) else None
        yield f"event {same} is {ours[0][:200]!r}, the provider sent {wanted and wanted[:200]!r} ({len(ours)} more)"
    errors = [each for each in got if is_error(history, each)]
    if errors and history.contract.failure == "truncate":
        yield f"an error event under truncate: {errors[0][:100]!r}"


def _ending(history: History, response: Response, got: list[bytes]) -> Iterator[str]:
    record, contract = history.record, history.contract
    terminal = is_terminal(history, response, got)
    if record is None:
        yield "a stream without a record"
        return
    marks = [at for at, each in enumerate(got) if _is_mark(history, each)]
    if marks and marks[0] != len(got) - 1:
        yield f"{len(got) - 1 - marks[0]} events after the terminal"
    if terminal and record.reason not in (None, Reason.NO_EVIDENCE) and not history.disturbed:
        yield f"a terminal for {record.reason}"
    if terminal and record.reason == Reason.NO_EVIDENCE and contract.failure == "truncate":
        yield "a terminal without evidence under truncate"
    said = (
        contract.failure == "event" and history.plan.kind != "gemini_array" and bool(got) and is_error(history, got[-1])
    )
    if response.clean and not terminal and not said:
        yield f"a clean end without a terminal ({record.reason})"
    if not response.clean and history.read_all and not history.disturbed:
        if record.reason is None or (record.reason == Reason.NO_EVIDENCE and contract.failure != "truncate"):
            yield f"an abort for {record.reason}"
        elif contract.failure == "event" and history.plan.kind != "gemini_array":
            yield "an abort under event"


def _alive(history: History, response: Response) -> Iterator[str]:
    """Keep-alives come as the contract says, on a stream that its client reads at once."""
    contract = history.contract
    silent = contract.keepalive == "off" or (history.plan.protocol == "gemini" and "user-agent" in history.plan.headers)
    silent = silent and history.plan.kind != "gemini_array"
    silent = silent or contract.keepalive == "off"
    quiet = [at for at, piece in response.pieces if _is_keepalive(history, piece)]
    if silent:
        if quiet:
            yield f"a keep-alive at {quiet[0]} where there is none"
        return
    limit_s = contract.keepalive_seconds + _EPSILON_S
    # Silence counts from the hold, before which nothing may be said; a pause from the last byte, or the request.
    heard, last = history.held_at, history.started_at
    for at, piece in response.pieces:
        if heard is not None and at - heard > limit_s:
            yield f"silent from {heard:.3f} to {at:.3f}"
        early = last is not None and at - last < contract.keepalive_seconds - _EPSILON_S
        if early and contract.keepalive == "idle" and _is_keepalive(history, piece):
            yield f"a keep-alive at {at:.3f}, {at - (last or 0):.3f} after the last byte"
        heard = last = at


def _is_keepalive(history: History, piece: bytes) -> bool:
    if history.plan.protocol == "gemini":
        return not piece.strip()
    return piece == _KEEPALIVE + b"\n\n"


def is_terminal(history: History, response: Response, got: list[bytes]) -> bool:
    """The client may take the stream for complete."""
    if not got:
        return False
    if history.plan.protocol == "gemini":
        finished = any(b'"finishReason"' in each or b'"blockReason"' in each for each in got)
        return response.clean and finished and not is_error(history, got[-1])
    return _is_mark(history, got[-1])


def _is_mark(history: History, data: bytes) -> bool:
    if history.plan.protocol == "chat":
        return data.strip() == b"[DONE]"
    return _type(data) in ("response.completed", "response.incomplete", "message_stop")


def is_error(history: History, data: bytes) -> bool:
    """An error event, by the shapes of the contract page."""
    try:
        value = json.loads(data)
    except ValueError:
        return False
    if history.plan.protocol == "responses":
        return value.get("type") in ("error", "response.failed")
    if history.plan.protocol == "messages":
        return bool(value.get("type") == "error" and isinstance(value.get("error"), dict))
    return isinstance(value.get("error"), dict)


def _type(data: bytes) -> str | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value.get("type") if isinstance(value, dict) else None


# -- bytes ------------------------------------------------------------------------------------------------------------


def _payloads(history: History, response: Response) -> tuple[list[bytes], list[str]]:
    """The data of each event a client got, and what is wrong with how they were written."""
    if history.plan.kind == "gemini_array":
        return _elements(response.body), []
    found: list[bytes] = []
    wrong: list[str] = []
    if response.body and not response.body.endswith(b"\n"):
        wrong.append("half an event")
    for block in response.body.split(b"\n\n"):
        text = block.strip(b"\n")
        if not text or text == _KEEPALIVE:
            continue
        lines = text.split(b"\n")
        name = lines.pop(0)[7:].decode() if lines[0].startswith(b"event: ") else None
        if not lines or any(not line.startswith(b"data: ") for line in lines):
            wrong.append(f"a block that is no event: {text[:100]!r}")
            continue
        data = b"\n".join(line[6:] for line in lines)
        named = history.plan.protocol in ("responses", "messages")
        if (name is not None) != named or (named and name != _type(data)):
            wrong.append(f"event: {name} before {data[:100]!r}")
        found.append(data)
    return found, wrong


def _elements(body: bytes) -> list[bytes]:
    found = (line.strip(b"[], ") for line in re.split(rb"[\r\n]+", body))
    return [each for each in found if each]


def _expected(history: History) -> list[bytes]:
    """The data of each event the provider sent, as the contract lets the client have it."""
    if not history.performances:
        return []
    performance = history.performances[-1]
    found = events(performance.body, ended=performance.ended)
    if history.plan.protocol != "chat":
        return [data for data in found if data.strip() != b"[DONE]"]
    if history.plan.usage_asked or not performance.prompt.usage_asked:
        return found
    return [shown for data in found if (shown := _without_usage(data)) is not None]


def _without_usage(data: bytes) -> bytes | None:
    """A chunk without its usage, which the simulator always puts last; None for one that has nothing else."""
    try:
        value: Any = json.loads(data)
    except ValueError:
        return data
    if "usage" not in value:
        return data
    if isinstance(value["usage"], dict) and value["usage"] and value.get("choices") == []:
        return None
    return data[: data.rindex(b',"usage":')] + b"}"


def events(body: bytes, *, ended: bool) -> list[bytes]:
    """WHATWG HTML 9.2.6, word for word and not fast; an event at a clean end of body counts without its blank line."""
    text = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, rest = text.split(b"\n")
    if ended:
        lines += [rest, b""]
    found: list[bytes] = []
    data: list[bytes] = []
    for line in lines:
        if not line:
            if data and any(data):
                found.append(b"\n".join(data))
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    return found


# -- for the table ----------------------------------------------------------------------------------------------------


def end(history: History) -> str:
    """How a stream ended, in two words: what its client saw."""
    if not history.responses or not history.responses[-1].status:
        left = history.plan.fate in ("leaver", "resetter", "stuck")
        return "client left before an answer" if left else "connection broken before an answer"
    response = history.responses[-1]
    if response.status != 200:
        return f"refused or failed: {response.status}"
    if not history.plan.stream:
        return "whole answer" if response.clean else "answer broken off"
    got, _ = _payloads(history, response)
    if is_terminal(history, response, got):
        return "stream to its terminal"
    if got and is_error(history, got[-1]):
        return "stream to an error event"
    return "stream cut off, or its client left"
