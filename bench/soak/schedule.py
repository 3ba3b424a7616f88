"""Schedule: what is done to the gateway when. Pure.

In the first half of a run everything is done in turn, and every worker is young. In the second one only the database
goes away now and then, so that the workers grow old: whether memory is flat can only be seen in a process that lives.
"""

from __future__ import annotations

from itertools import cycle
from typing import NamedTuple

__all__ = ["DISTURBANCES", "Plan", "Turn", "plan"]

#: In their order.
DISTURBANCES = ("reload", "database", "certificate", "kill")
_PERIOD_MIN_S, _PERIOD_MAX_S = 12.0, 150.0
#: Memory and tables of limits with windows of ten minutes have their full size after so long.
WARM_UP_MAX_S = 600.0


class Turn(NamedTuple):
    """One disturbance; its name is one of `DISTURBANCES`."""

    at_s: float
    name: str


class Plan(NamedTuple):
    """A run. From `old_s` on no worker is replaced; from `judged_s` on memory and descriptors must be flat."""

    lasts_s: float
    old_s: float
    judged_s: float
    turns: tuple[Turn, ...]


def plan(lasts_s: float) -> Plan:
    """A run of so many seconds."""
    old_s = lasts_s / 2
    period_s = min(max(lasts_s / 24, _PERIOD_MIN_S), _PERIOD_MAX_S)
    names = cycle(DISTURBANCES)
    # The last one is over before the workers are to grow old.
    turns = [Turn(at_s, next(names)) for at_s in _times(period_s, old_s - period_s / 2, period_s)]
    turns += [Turn(at_s, "database") for at_s in _times(old_s + 2 * period_s, lasts_s - period_s, 2 * period_s)]
    return Plan(lasts_s, old_s, old_s + min(WARM_UP_MAX_S, old_s / 3), tuple(turns))


def _times(first_s: float, last_s: float, period_s: float) -> list[float]:
    return [first_s + each * period_s for each in range(int((last_s - first_s) // period_s) + 1)]
