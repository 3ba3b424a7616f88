"""Failures: whether a client can read what it is told of one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.checks.endings import broken
from hoptrio.conform.checks.events import answered, data_of, errors_in, is_error, kind_of, member, sent
from hoptrio.conform.verdict import departs, differs
from hoptrio.conform.wire import Ending
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.case import Trial
    from hoptrio.conform.verdict import Finding

__all__ = ["error_is_whole", "failed_response_goes_on", "forwarded_failure", "refused_page"]

_RESPONSE_CODES = ("server_error", "rate_limit_exceeded", "invalid_prompt")


def error_is_whole(trial: Trial) -> Finding | None:
    """The failure is told in the client's protocol, in one event."""
    errors = errors_in(trial)
    if not errors:
        return None if trial.wire.status >= 400 else differs("failures are told by the cut connection alone")
    if trial.protocol is Protocol.RESPONSES:
        return None
    error = errors[0]
    if not isinstance(member(error, "error", "message"), str):
        return departs("the error event has no message")
    if trial.protocol is Protocol.MESSAGES and error.name != b"error":
        return departs("the error event lacks its name, by which the SDKs know it")
    if trial.protocol is Protocol.GEMINI and not isinstance(member(error, "error", "code"), int):
        return departs("the error's code is no integer, which Google's SDKs fail on")
    return departs("the failure was told twice") if len(errors) > 1 else None


def failed_response_goes_on(trial: Trial) -> Finding | None:
    """Responses clients know ``response.failed`` alone, as the next event of their own response."""
    events = list(trial.wire.events)
    failed = next((event for event in events if kind_of(event) == "response.failed"), None)
    if failed is None:
        return departs("an error event that clients ignore") if errors_in(trial) else error_is_whole(trial)
    before = events[: events.index(failed)]
    if not before or member(failed, "response", "id") != member(before[0], "response", "id"):
        return departs("response.failed is of another response")
    number = member(before[-1], "sequence_number")
    if not isinstance(number, int) or member(failed, "sequence_number") != number + 1:
        return departs("response.failed has not the next sequence number")
    if member(failed, "response", "error", "code") not in _RESPONSE_CODES:
        return departs("response.failed has a code that clients do not know")
    return None


def forwarded_failure(trial: Trial) -> Finding | None:
    """The provider's own error reached the client, once."""
    theirs = [event for event in sent(trial) if is_error(trial.protocol, event)]
    errors = errors_in(trial)
    if not errors:
        if trial.wire.ending in (Ending.TRUNCATED, Ending.RESET):
            return differs("the provider's error is told by the cut connection alone")
        return departs("the provider's error was lost")
    # What Responses clients know is response.failed, so that it may follow an event named error.
    added = [event for event in errors[len(theirs) :] if kind_of(event) != "response.failed"]
    if added or (len(errors) > len(theirs) and kind_of(theirs[-1]) == "response.failed"):
        return departs("the failure was told twice")
    if trial.protocol in (Protocol.RESPONSES, Protocol.MESSAGES) and errors[0].name != str(kind_of(errors[0])).encode():
        return departs("the error event lacks its name, by which the SDKs know it")
    return (
        None
        if data_of(theirs) == data_of(errors[: len(theirs)])
        else differs("the provider's error was told in other words")
    )


def refused_page(trial: Trial) -> Finding | None:
    """What is no answer of a model is a 502, and none of it reaches the client."""
    if b"<html" in trial.wire.body:
        return departs("the page was relayed")
    if trial.wire.status == 200:
        return broken(trial) or differs("it is told as an error event behind a 200")
    return None if trial.wire.status >= 500 else departs(answered(trial.wire))
