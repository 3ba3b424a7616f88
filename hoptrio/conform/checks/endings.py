"""Endings: whether a client takes an answer for complete, and whether it may. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.checks.events import answered, errors_in, is_terminal
from hoptrio.conform.verdict import departs, differs
from hoptrio.conform.wire import Ending

if TYPE_CHECKING:
    from hoptrio.conform.case import Check, Trial
    from hoptrio.conform.verdict import Finding

__all__ = [
    "CLOSE_S",
    "broken",
    "clean",
    "complete",
    "deadline_kept",
    "ended_within",
    "no_error",
    "no_server_error",
    "no_terminal",
    "stalled",
]

#: Between an error and the end of what it ended: a second, and a lingering read of two.
CLOSE_S = 3.0
_DEADLINE_SLACK_S = 12.0


def clean(trial: Trial) -> Finding | None:
    """200, and an end by the framing."""
    wire = trial.wire
    if wire.status != 200:
        return departs(answered(wire))
    if wire.ending is not Ending.CLEAN:
        return departs(f"a complete stream ended {wire.ending}")
    return None


def complete(trial: Trial) -> Finding | None:
    """The client sees a whole answer, and no error."""
    found = clean(trial)
    if found is not None:
        return found
    if errors_in(trial):
        return departs("a complete stream was told as an error")
    if not any(is_terminal(trial.protocol, event) for event in trial.wire.events):
        return departs("a complete stream came without its terminal")
    return None


def no_error(trial: Trial) -> Finding | None:
    """The client is told of no failure."""
    return departs("a complete stream was told as an error") if errors_in(trial) else None


def no_terminal(trial: Trial) -> Finding | None:
    """Nothing says that a broken answer is complete."""
    if any(is_terminal(trial.protocol, event) for event in trial.wire.events):
        return departs("a broken stream got a terminal" + (" behind its error" if errors_in(trial) else ""))
    return None


def broken(trial: Trial) -> Finding | None:
    """The client can tell that the answer is not complete: by a status, an error event, or a connection that broke."""
    wire = trial.wire
    if wire.ending is Ending.OPEN:
        return departs(f"the stream was still open after {wire.ended_s:.0f} s")
    if wire.status >= 400:
        return None
    found = no_terminal(trial)
    if found is None and wire.ending is Ending.CLEAN and not errors_in(trial):
        return departs("a broken stream ended like a complete one")
    return found


def ended_within(seconds: float) -> Check:
    """The end of a failed answer comes by then, counted from its error, or else from its last byte."""

    def check(trial: Trial) -> Finding | None:
        wire = trial.wire
        errors = errors_in(trial)
        since_s = errors[0].at_s if errors else max((at for at, _ in wire.pieces), default=0.0)
        if wire.ending is Ending.OPEN or (errors and wire.ended_s - since_s > seconds):
            return departs(f"the stream was open {wire.ended_s - since_s:.1f} s after its failure")
        return None

    return check


def stalled(trial: Trial) -> Finding | None:
    """The stream was ended by its stall limit, not long before it, and visibly."""
    wire, settings = trial.wire, trial.settings
    if wire.ending is Ending.OPEN:
        return departs(f"the stream was still open after {wire.ended_s:.0f} s without progress")
    if wire.ended_s < settings.stall_s / 2:
        return differs(f"a silence of {wire.ended_s:.0f} s is taken for a stall")
    return broken(trial)


def deadline_kept(trial: Trial) -> Finding | None:
    """A steady stream ends at the deadline, not before, and visibly."""
    wire, deadline_s = trial.wire, trial.settings.deadline_s
    if wire.status != 200:
        return departs(answered(wire))
    if wire.ended_s < deadline_s - _DEADLINE_SLACK_S:
        return departs(f"a steady stream was cut after {wire.ended_s:.0f} s")
    if wire.ended_s > deadline_s + _DEADLINE_SLACK_S:
        return differs("it knows no deadline")
    return broken(trial)


def no_server_error(trial: Trial) -> Finding | None:
    """The answer, or an error of the client's protocol; never a crash."""
    wire = trial.wire
    if wire.status == 500 or not wire.status:
        return departs(answered(wire))
    return departs("the stream was left open") if wire.ending is Ending.OPEN else None
