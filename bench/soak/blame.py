"""Blame: why a client saw an error, if something was done that explains it. Pure.

Only what follows from a disturbance is excused by one: a worker's death breaks its streams, and a database that is away
refuses new ones. A reload and a new certificate excuse nothing, nor does anything excuse a wrong ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.soak.visitor import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.soak.crowd import Ended
    from bench.soak.sampled import Mark

__all__ = ["cause"]

#: What was about to be answered when a worker died, and what waits for a database, is told a little later.
_AFTER_S = 6.0
_UNAVAILABLE = ("HTTP 503", "an error event")


def cause(ended: Ended, marks: Iterable[Mark]) -> str:
    """Of an error that its client saw; "" if there is no cause that we know."""
    visit, error = ended.visit, ended.seen.error
    if visit.asked.fail:
        return f"the provider: {visit.asked.fail}"
    if visit.kind == "refused" and error == "HTTP 401":
        return "a wrong key"
    if error == ENDED:
        return "a kept connection had been closed meanwhile"
    for mark in marks:
        at_once = mark.at_s - 0.5 <= ended.ended_s and ended.began_s <= mark.at_s + mark.took_s + _AFTER_S
        if mark.name == "kill" and at_once and ended.began_s <= mark.at_s + 1.0:
            return "its worker was killed"
        if mark.name == "database" and at_once and error.startswith(_UNAVAILABLE):
            return "the database was away"
    return ""
