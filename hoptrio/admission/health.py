"""The health of a channel: what puts it on a cool-down, for how long, and how it comes back. Pure: a table.

What is in trouble is a channel's model, since providers limit and break by model; an address that cannot be reached and
an account that is not accepted are trouble of the whole channel (`FAULTS`). The states are a circuit breaker's:

    GOOD      asked like any other
    DOUBTED   failed, but not often enough in a row: asked after the others, for a while
    COOLING   not asked until the cool-down ends; each further one in a row is twice as long
    DUE       the cool-down is over, and one stream may try
    TRIED     that stream is under way

A failure counts only if no success came between it and the last one, so that the odd failure of a busy channel never
closes it. What fails while a channel cools changes nothing, since most of it had been sent before; a success opens the
channel, except after a rate limit, which streams from before say nothing about. Times are seconds on one clock that all
users of a `Trouble` share.

A closed channel is still the last resort where nobody else can be asked, unless its provider itself said how long to
wait (`Trouble.asked_until_s`): a refusal would help nobody, and whoever could provoke failures could close a model's
only channel for everybody. One that said no is asked so only now and then (`limits.LAST_RESORTS_MAX`).
"""

from __future__ import annotations

from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FAULTS", "NEXT", "Event", "Fault", "FaultRule", "Standing", "Trouble", "happened", "standing"]


class Fault(IntEnum):
    """What went wrong with a channel. Nothing that speaks of the request is among them. The numbers are stored."""

    UNREACHABLE = 1
    CREDENTIALS = 2
    RATE_LIMITED = 3
    FAILED = 4
    CUT = 5
    SILENT = 6
    STALLED = 7
    FORBIDDEN = 8


class FaultRule(NamedTuple):
    """What a fault does."""

    #: The failure in a row that closes the channel; those before make it doubted.
    closes_at: int
    #: It is trouble of the channel with all its models.
    whole_channel: bool
    #: For operators.
    words: str


#: A caller can provoke a failure or a stall, and the odd one happens to every provider: three in a row are needed. An
#: account that is not accepted and a limit that is reached are the provider's own word for it.
FAULTS: Mapping[Fault, FaultRule] = MappingProxyType(
    {
        Fault.UNREACHABLE: FaultRule(limits.FAILURES_IN_A_ROW, True, "could not be reached"),
        Fault.CREDENTIALS: FaultRule(1, True, "did not accept the channel's account"),
        # A bare 403: some providers say it of a prompt, too.
        Fault.FORBIDDEN: FaultRule(limits.FAILURES_IN_A_ROW, True, "forbade the request"),
        Fault.RATE_LIMITED: FaultRule(1, False, "reached the provider's rate limit"),
        Fault.FAILED: FaultRule(limits.FAILURES_IN_A_ROW, False, "failed before any output"),
        Fault.CUT: FaultRule(limits.FAILURES_IN_A_ROW, False, "broke off before any output"),
        Fault.SILENT: FaultRule(limits.FAILURES_IN_A_ROW, False, "did not begin to answer in time"),
        Fault.STALLED: FaultRule(limits.FAILURES_IN_A_ROW, False, "made no progress for too long"),
    }
)


class Standing(Enum):
    """Where a channel stands now, the better the smaller."""

    GOOD = 0
    DOUBTED = 1
    DUE = 2
    TRIED = 3
    COOLING = 4


class Event(Enum):
    """What may happen to it."""

    #: A failure that is not yet the one too many.
    FAILURE = "failure"
    #: The one too many.
    STRIKE = "strike"
    #: The first event of an answer, and its end. A channel that stalled in the midst of an answer must bring one to
    #: its end before it is good again.
    BEGUN = "begun"
    COMPLETE = "complete"
    #: A stream begins to try it.
    TRIAL = "trial"
    #: That stream ended and proved nothing, neither way.
    RETURN = "return"


#: The machine. What is not in here changes nothing. Time alone moves DOUBTED to GOOD, COOLING to DUE, and TRIED back to
#: DUE when the stream that tries has not been heard of for `limits.TRIAL_S`.
NEXT: Mapping[tuple[Standing, Event], Standing] = MappingProxyType(
    {
        (Standing.GOOD, Event.FAILURE): Standing.DOUBTED,
        (Standing.GOOD, Event.STRIKE): Standing.COOLING,
        (Standing.GOOD, Event.BEGUN): Standing.GOOD,
        (Standing.GOOD, Event.COMPLETE): Standing.GOOD,
        (Standing.DOUBTED, Event.FAILURE): Standing.DOUBTED,
        (Standing.DOUBTED, Event.STRIKE): Standing.COOLING,
        (Standing.DOUBTED, Event.BEGUN): Standing.GOOD,
        (Standing.DOUBTED, Event.COMPLETE): Standing.GOOD,
        (Standing.COOLING, Event.BEGUN): Standing.GOOD,
        (Standing.COOLING, Event.COMPLETE): Standing.GOOD,
        (Standing.DUE, Event.FAILURE): Standing.COOLING,
        (Standing.DUE, Event.STRIKE): Standing.COOLING,
        (Standing.DUE, Event.BEGUN): Standing.GOOD,
        (Standing.DUE, Event.COMPLETE): Standing.GOOD,
        (Standing.DUE, Event.TRIAL): Standing.TRIED,
        (Standing.TRIED, Event.FAILURE): Standing.COOLING,
        (Standing.TRIED, Event.STRIKE): Standing.COOLING,
        (Standing.TRIED, Event.BEGUN): Standing.GOOD,
        (Standing.TRIED, Event.COMPLETE): Standing.GOOD,
        (Standing.TRIED, Event.RETURN): Standing.DUE,
    }
)


class Trouble(NamedTuple):
    """What is remembered of a channel, or of one of its models, that failed; nothing is remembered of a good one."""

    fault: Fault
    #: In a row, without a success between them.
    failures: int
    #: Cool-downs in a row; 0 = it is doubted at most.
    cooldowns: int
    #: The end of the cool-down, or of the doubt.
    until_s: float
    #: A stream is trying it until then at the latest; 0 = none is.
    trial_until_s: float = 0.0
    #: The provider said to wait until then; 0 = it did not say.
    asked_until_s: float = 0.0

    def forgotten(self, now_s: float) -> bool:
        """Nobody asked for so long that it says nothing any more."""
        return now_s >= max(self.until_s, self.trial_until_s) + limits.TROUBLE_KEPT_S


def standing(trouble: Trouble | None, now_s: float) -> Standing:
    """Where a channel with this `trouble` stands."""
    if trouble is None or trouble.forgotten(now_s):
        return Standing.GOOD
    if now_s < trouble.until_s:
        return Standing.COOLING if trouble.cooldowns else Standing.DOUBTED
    if not trouble.cooldowns:
        return Standing.GOOD
    return Standing.TRIED if now_s < trouble.trial_until_s else Standing.DUE


def happened(
    trouble: Trouble | None, event: Event, now_s: float, *, fault: Fault = Fault.FAILED, retry_after_s: float = 0.0
) -> Trouble | None:
    """What is remembered after `event`, which for a failure is FAILURE whatever its number: this function counts.

    `retry_after_s` is the provider's own word for how long; a longer one prolongs a cool-down that runs already.
    """
    now = standing(trouble, now_s)
    if trouble is not None and trouble.forgotten(now_s):
        trouble = None
    failures = 1 + (trouble.failures if trouble is not None else 0)
    if event is Event.FAILURE and failures >= FAULTS[fault].closes_at:
        event = Event.STRIKE
    if trouble is not None and _says_nothing(trouble.fault, now, event):
        return trouble
    after = NEXT.get((now, event))
    if after is Standing.GOOD:
        return None
    if after is Standing.DOUBTED:
        return Trouble(fault, failures, 0, now_s + limits.COOLDOWN_MIN_S)
    if after is Standing.COOLING:
        cooldowns = 1 + (trouble.cooldowns if trouble is not None else 0)
        asked_until_s = now_s + min(retry_after_s, limits.COOLDOWN_ASKED_MAX_S) if retry_after_s else 0.0
        until_s = max(now_s + _back_off_s(cooldowns), asked_until_s)
        return Trouble(fault, failures, cooldowns, until_s, 0.0, asked_until_s)
    if trouble is None:
        return None
    if after is Standing.TRIED:
        return trouble._replace(trial_until_s=now_s + limits.TRIAL_S)
    if after is Standing.DUE:
        return trouble._replace(trial_until_s=0.0)
    return _prolonged(trouble, now_s, retry_after_s)


def _says_nothing(fault: Fault, now: Standing, event: Event) -> bool:
    """Successes that do not prove that this fault is over."""
    if event is Event.BEGUN and fault is Fault.STALLED:
        return True
    return now is Standing.COOLING and fault is Fault.RATE_LIMITED and event in (Event.BEGUN, Event.COMPLETE)


def _back_off_s(cooldowns: int) -> float:
    return float(min(limits.COOLDOWN_MIN_S * 2.0 ** min(cooldowns - 1, 16), limits.COOLDOWN_MAX_S))


def _prolonged(trouble: Trouble, now_s: float, retry_after_s: float) -> Trouble:
    asked_s = now_s + min(retry_after_s, limits.COOLDOWN_ASKED_MAX_S)
    if not retry_after_s or asked_s <= trouble.asked_until_s:
        return trouble
    return trouble._replace(until_s=max(trouble.until_s, asked_s), asked_until_s=asked_s)
