"""Results: what a run of a scenario through a contestant came to, and all of them: the content of ``results.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

# msgspec resolves the annotations of a struct at run time.
from bench.job import Spread  # noqa: TC001
from bench.reconcile import Reconciled  # noqa: TC001

if TYPE_CHECKING:
    from bench.job import Mark, Outcome, Sample

__all__ = ["Entrant", "Results", "Run", "ScenarioResults", "run_of"]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One load through one contestant. CPU is in ns, of the contestant's processes; None = not known."""

    contestant: str
    round: int
    streams: int
    complete: int
    left: int
    #: What went wrong, and how often.
    errors: dict[str, int]
    events: int
    wall_s: float
    bytes: int
    #: From before the first connect until nothing is in flight any more: connects, holds and settlements are in it.
    cpu_ns: int | None
    #: From the moment that every stream has an event, and may have the next, to that when the first is at its end.
    steady_cpu_ns: int | None
    steady_events: int
    rss_bytes_per_stream: float | None
    first_ns: Spread
    delay_ns: Spread
    jitter_ns: float
    stopped: str = ""
    reconciled: Reconciled | None = None

    @property
    def cpu_per_event_us(self) -> float | None:
        return None if self.cpu_ns is None or not self.events else self.cpu_ns / self.events / 1e3

    @property
    def cpu_per_stream_us(self) -> float | None:
        return None if self.cpu_ns is None or not self.streams else self.cpu_ns / self.streams / 1e3

    @property
    def steady_us(self) -> float | None:
        """CPU per event in the steady part."""
        return (
            None if not self.steady_cpu_ns or not self.steady_events else self.steady_cpu_ns / self.steady_events / 1e3
        )

    @property
    def busy(self) -> float | None:
        """CPU seconds a second."""
        return None if self.cpu_ns is None else self.cpu_ns / self.wall_s / 1e9

    @property
    def events_per_s(self) -> float:
        return self.events / self.wall_s


class ScenarioResults(msgspec.Struct, frozen=True, kw_only=True):
    """All runs of one scenario; contestants that could not be asked, with the reason."""

    name: str
    family: str
    title: str
    per: str
    streams: int
    runs: tuple[Run, ...]
    absent: dict[str, str] = {}

    def of(self, contestant: str) -> list[Run]:
        """Its runs, in the order of the rounds."""
        return sorted((run for run in self.runs if run.contestant == contestant), key=lambda run: run.round)

    @property
    def contestants(self) -> list[str]:
        """Who ran, in the order of their first run."""
        return list(dict.fromkeys(run.contestant for run in self.runs))


class Entrant(msgspec.Struct, frozen=True):
    """A contestant of the whole; `absent` says why it did not run, "" = it did."""

    name: str
    version: str
    absent: str = ""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one call of ``python -m bench``."""

    command: str
    began: str
    took_s: float
    machine: dict[str, str]
    entrants: tuple[Entrant, ...]
    scenarios: tuple[ScenarioResults, ...]

    def scenario(self, name: str) -> ScenarioResults | None:
        """By its name."""
        return next((each for each in self.scenarios if each.name == name), None)


def run_of(contestant: str, number: int, outcome: Outcome, after: Sample | None, reconciled: Reconciled | None) -> Run:
    """The figures of an outcome; `after` is the cost when nothing was in flight any more, None = not known."""
    begin, opened, closing = (outcome.mark(name) for name in ("begin", "open", "closing"))
    errors: dict[str, int] = {}
    for seen in outcome.streams:
        if seen.error:
            errors[seen.error] = errors.get(seen.error, 0) + 1
    known = after is not None and begin is not None
    steady_ns, steady_events = _between(outcome.mark("going") or opened, closing)
    return Run(
        contestant=contestant,
        round=number,
        streams=len(outcome.streams),
        complete=sum(seen.complete for seen in outcome.streams),
        left=sum(seen.left for seen in outcome.streams),
        errors=errors,
        events=outcome.events,
        wall_s=outcome.wall_ns / 1e9,
        bytes=outcome.bytes,
        cpu_ns=after.cpu_ns - begin.sample.cpu_ns if known and after and begin else None,
        steady_cpu_ns=steady_ns if known else None,
        steady_events=steady_events,
        rss_bytes_per_stream=_rss(begin, opened, len(outcome.streams)) if known else None,
        first_ns=outcome.first,
        delay_ns=outcome.delay,
        jitter_ns=outcome.jitter_ns,
        stopped=outcome.stopped,
        reconciled=reconciled,
    )


def _between(opened: Mark | None, closing: Mark | None) -> tuple[int | None, int]:
    if opened is None or closing is None or closing.at_ns <= opened.at_ns:
        return None, 0
    return closing.sample.cpu_ns - opened.sample.cpu_ns, closing.events - opened.events


def _rss(begin: Mark | None, opened: Mark | None, streams: int) -> float | None:
    if begin is None or opened is None or not streams:
        return None
    return (opened.sample.rss_bytes - begin.sample.rss_bytes) / streams
