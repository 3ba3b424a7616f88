"""Provider: what the gateway did on its other side. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.checks.endings import complete
from hoptrio.conform.checks.events import answered
from hoptrio.conform.verdict import Finding, Verdict, departs, differs

if TYPE_CHECKING:
    from hoptrio.conform.case import Trial

__all__ = [
    "FANTASY",
    "asked_its_channel",
    "asked_once",
    "drained",
    "drained_unread",
    "limit_lowered",
    "stranger_refused",
]

#: An output limit beyond any model's.
FANTASY = 10**9


def asked_its_channel(trial: Trial) -> Finding | None:
    """It was the model that was asked for."""
    if trial.asked and trial.asked[-1].protocol is not trial.channel:
        return departs("another model was asked than the client named")
    return None


def asked_once(trial: Trial) -> Finding | None:
    """One request was made of the provider, since each is paid for."""
    return None if len(trial.asked) == 1 else departs(f"the provider was asked {len(trial.asked)} times")


def drained(trial: Trial) -> Finding | None:
    """The provider was heard to its end though the client had left."""
    if not trial.asked:
        return departs("the provider was not asked")
    outcome = trial.asked[-1].seen.outcome
    if outcome == "open":
        return Finding(Verdict.FAIL, "the provider's stream was neither read to its end nor closed")
    return None if trial.asked[-1].drained else differs("it leaves the provider when its client leaves")


def drained_unread(trial: Trial) -> Finding | None:
    """The provider was heard to its end though nobody read."""
    if trial.asked and trial.asked[-1].seen.outcome == "open":
        return departs("a client that does not read holds up the provider")
    return drained(trial)


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
    return None if 400 <= trial.wire.status < 500 else departs(answered(trial.wire))
