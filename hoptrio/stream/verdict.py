"""Capture or release: the one place that answers it. Pure.

Verdict of (contract, how the stream ended, the evidence), by the tables in `contract`. Missing evidence is never zero:
it is a release, or, under ``interrupted = charge``, what was produced: as the provider itself reported it so far, and
measured where it did not (`exchange.measure`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from hoptrio.contract import ENDS, Money

if TYPE_CHECKING:
    from hoptrio.contract import Contract, Reason

__all__ = ["Evidence", "Verdict", "verdict"]


class Evidence(StrEnum):
    """What a charge rests on (interface page, `evidence`)."""

    SSE_TERMINAL = "sse_terminal"
    JSON_BODY = "json_body"
    #: The provider's own numbers, of an answer that did not end well.
    PARTIAL = "partial"
    #: Some number was measured, since none was reported.
    ESTIMATED = "estimated"
    NONE = "none"


class Verdict(NamedTuple):
    """`capture`: charge the usage; else release the whole hold."""

    capture: bool
    evidence: Evidence


RELEASE = Verdict(capture=False, evidence=Evidence.NONE)


def verdict(
    contract: Contract, reason: Reason | None, *, counted: bool, answered: bool, estimated: bool, stream: bool
) -> Verdict:
    """Judge one end; `counted` = there is a usage to charge, some of it measured if `estimated`; `answered` = some of
    the answer was read.

    "No event of the answer, whatever input usage was reported, is a release" (contract page).
    """
    money = ENDS[reason].money(contract.interrupted)
    if money is Money.RELEASE or not counted:
        return RELEASE
    if money is Money.CAPTURE:
        return Verdict(capture=True, evidence=Evidence.SSE_TERMINAL if stream else Evidence.JSON_BODY)
    evidence = Evidence.ESTIMATED if estimated else Evidence.PARTIAL
    return Verdict(capture=True, evidence=evidence) if answered else RELEASE
