"""When something is probed again. Pure: times in milliseconds of the ledger's wall clock.

=====================  ==============================================================================================
uncertified            at the start of a process, and again: soon after what passes or is a doubt, later after a proof
certified              before the certificate runs out
certified, suspected   at once
=====================  ==============================================================================================

Never within `limits.PROBE_EVERY_S` of the last probe, and never beside one that runs.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from hoptrio import limits
from hoptrio.certification.finding import Finding, Weight, weight_of
from hoptrio.ledger.owner import Fate, fate

if TYPE_CHECKING:
    from hoptrio.ledger.model import ProbeRow

__all__ = ["Schedule", "Standing", "stands"]

#: A certificate is renewed when this part of its time is left, at most a day.
_LEAD_PARTS = 10
_LEAD_MS_MAX = 86_400_000


def stands(row: ProbeRow | None, setup: str, now_ms: int) -> bool:
    """Does a probe count? Not one of another config, nor one that nobody makes any more, nor for long one that reached
    nobody: a provider that starts after its gateway should not wait ten minutes."""
    if row is None or row.setup != setup or row.finding == Finding.ABANDONED:
        return False
    if row.finding == Finding.UNREACHED and row.began_at_ms <= now_ms - 1000 * limits.PROBE_UNREACHED_S:
        return False
    if row.ended_at_ms is not None:
        return True
    overdue = row.began_at_ms < now_ms - 1000 * limits.PROBE_CLAIM_S
    return not overdue and fate(row.owner) is not Fate.DEAD


class Standing(NamedTuple):
    """What is known of one thing that may be probed."""

    #: The certificate's end; 0 = there is none.
    expires_at_ms: int
    #: The last probe that counts (`stands`).
    last: ProbeRow | None
    #: Live streams ended without evidence.
    suspected: bool


class Schedule(NamedTuple):
    """One process's."""

    valid_ms: int
    #: Uncertified things are probed unasked.
    unasked: bool
    started_at_ms: int

    def due_at_ms(self, standing: Standing, now_ms: int) -> float:
        """When to probe; infinite = not as things stand."""
        last = standing.last
        if last is not None and last.ended_at_ms is None:
            return inf
        earliest = 0 if last is None else last.began_at_ms + 1000 * limits.PROBE_EVERY_S
        if standing.expires_at_ms > now_ms:
            lead_ms = min(self.valid_ms // _LEAD_PARTS, _LEAD_MS_MAX)
            return earliest if standing.suspected else max(earliest, standing.expires_at_ms - lead_ms)
        if not self.unasked:
            return inf
        if last is not None and last.began_at_ms >= self.started_at_ms and _is_proven(last):
            return last.began_at_ms + 1000 * limits.PROBE_PROVEN_S
        return earliest


def _is_proven(row: ProbeRow) -> bool:
    """A finding of a later version, or an earlier one, proves nothing."""
    return row.finding in set(Finding) and weight_of(Finding(row.finding)) is Weight.PROVES
