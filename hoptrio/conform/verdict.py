"""Verdict: what became of a case, and the finding behind it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Finding", "Verdict", "departs", "differs", "worst"]


class Verdict(StrEnum):
    """From the best to the worst that can be said; the worst finding is the verdict."""

    #: Right in everything that was seen.
    PASS = "pass"
    #: The gateway does not offer what the case is about.
    NOT_SERVED = "not served"
    #: Cannot be seen from where this tool stands.
    NOT_REACHABLE = "not reachable"
    #: Not what the case asks for, where gateways may choose.
    POLICY = "policy"
    #: The fault is there.
    FAIL = "fails"


class Finding(NamedTuple):
    """One thing that was found; `words` say what, without prompts, answers or keys. With PASS it is worth a note."""

    verdict: Verdict
    words: str


def departs(words: str) -> Finding:
    """The fault is there."""
    return Finding(Verdict.FAIL, words)


def differs(words: str) -> Finding:
    """The gateway has chosen otherwise."""
    return Finding(Verdict.POLICY, words)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over several; PASS over none."""
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.PASS)
