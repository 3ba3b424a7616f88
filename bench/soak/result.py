"""Result: one run of the soak, as ``results.json`` has it."""

from __future__ import annotations

import msgspec

# msgspec resolves the annotations of a struct at run time.
from bench.reconcile import Reconciled  # noqa: TC001
from bench.soak.sampled import Mark, Process, Sample  # noqa: TC001

__all__ = ["Audit", "End", "Life", "Results", "Unexpected", "Verdict"]


class Verdict(msgspec.Struct, frozen=True):
    """What must be true, whether it is, and what was measured."""

    what: str
    #: None: the run was too short to tell.
    holds: bool | None
    measured: str


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process from its first sample to its last. Slopes are those of the judged time; None = it did not live
    through enough of it."""

    role: str
    began_s: float
    ended_s: float
    rss_first_bytes: int
    rss_most_bytes: int
    rss_last_bytes: int
    descriptors_most: int
    descriptors_last: int
    #: Of the time that is judged, s.
    judged_s: float = 0.0
    rss_per_hour_bytes: float | None = None
    descriptors_per_hour: float | None = None


class Audit(msgspec.Struct, frozen=True):
    """What ``ledger audit`` says."""

    ok: bool
    violations: tuple[str, ...]
    open_holds: int
    captured: int
    released: int


class Unexpected(msgspec.Struct, frozen=True):
    """An error of a client that nothing explains."""

    at_s: float
    number: int
    kind: str
    protocol: str
    error: str
    request_id: str


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What there is when everybody has left."""

    #: Of each process before the first client came, and when the last had left and the provider was gone.
    before: tuple[Process, ...]
    after: tuple[Process, ...]
    exit_status: int | None
    audit: Audit
    reconciled: Reconciled
    #: Lines of the log at level error, by what they say.
    logged: dict[str, int]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """All of a run."""

    command: str
    began: str
    took_s: float
    machine: dict[str, str]
    database: str
    interrupted: bool
    #: The time in which memory and descriptors are judged.
    judged_s: float
    judged_until_s: float
    end: End
    marks: tuple[Mark, ...]
    #: Visits by kind; what their clients saw go wrong, by its cause.
    kinds: dict[str, int]
    causes: dict[str, int]
    unexpected: tuple[Unexpected, ...]
    events: int
    samples: tuple[Sample, ...]
    #: Reckoned from all samples, of which `samples` may have only some.
    lives: tuple[Life, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
