"""Summary: the rounds of a scenario as one figure for each contestant, ratios first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bench.spread import median, median_ratio, middle

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.job import Spread
    from bench.result import Run, ScenarioResults

__all__ = ["BASE", "NOTHING", "Added", "Summary", "added", "ratio", "summarise"]

BASE = "relay"
NOTHING = "direct"


class Added(NamedTuple):
    """What a contestant adds to direct, in ms: quantile less quantile."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class Summary(NamedTuple):
    """One contestant in one scenario: medians of the rounds, memory of the first. None = not known, or no base."""

    contestant: str
    #: CPU over the relay's, per what the scenario counts; and that of the steady part alone.
    ratio: float | None
    steady_ratio: float | None
    cpu_per_event_us: float | None
    steady_us: float | None
    cpu_per_stream_us: float | None
    rss_kib_per_stream: float | None
    first: Added | None
    delay: Added | None
    jitter_ms: float
    events_per_s: float
    #: Events that a core would carry at this cost.
    events_per_core_s: float | None
    busy: float | None
    streams: int
    complete: int
    left: int
    errors: dict[str, int]
    #: Streams looked at in the ledger, and what did not fit; None = it has no ledger.
    reconciled: int | None
    wrong: tuple[str, ...]


def summarise(results: ScenarioResults, contestant: str) -> Summary:
    """Of all its rounds."""
    runs, direct = results.of(contestant), results.of(NOTHING)
    per_event, per_stream, steady = (_median(runs, each) for each in (_cpu_per_event, _cpu_per_stream, _steady))
    # Later rounds find a heap that has grown already.
    rss = next((run.rss_bytes_per_stream for run in runs), None)
    errors: dict[str, int] = {}
    for run in runs:
        for what, count in run.errors.items():
            errors[what] = errors.get(what, 0) + count
    checked = [run.reconciled for run in runs if run.reconciled is not None]
    compared = contestant != NOTHING
    return Summary(
        contestant=contestant,
        ratio=ratio(results, contestant),
        steady_ratio=_ratio(runs, results.of(BASE), _steady),
        cpu_per_event_us=per_event,
        steady_us=steady,
        cpu_per_stream_us=per_stream,
        rss_kib_per_stream=None if rss is None else rss / 1024,
        first=added([run.first_ns for run in runs], [run.first_ns for run in direct]) if compared else None,
        delay=added([run.delay_ns for run in runs], [run.delay_ns for run in direct]) if compared else None,
        jitter_ms=median(run.jitter_ns for run in runs) / 1e6,
        events_per_s=median(run.events_per_s for run in runs),
        events_per_core_s=None if not per_event else 1e6 / per_event,
        busy=_median(runs, lambda run: run.busy),
        streams=sum(run.streams for run in runs),
        complete=sum(run.complete for run in runs),
        left=sum(run.left for run in runs),
        errors=errors,
        reconciled=sum(each.streams for each in checked) if checked else None,
        wrong=tuple(fault for each in checked for fault in each.wrong),
    )


def ratio(results: ScenarioResults, contestant: str, base: str = BASE) -> float | None:
    """CPU over `base`'s, per event or per stream as the scenario has it."""
    measure = _cpu_per_event if results.per == "event" else _cpu_per_stream
    return _ratio(results.of(contestant), results.of(base), measure)


def added(ours: list[Spread], direct: list[Spread]) -> Added | None:
    """None without anything to compare with."""
    mine, base = middle(ours), middle(direct)
    if not mine.points or not base.points:
        return None
    return Added(*((mine.points[at] - base.points[at]) / 1e6 for at in (50, 99, -1)))


def _cpu_per_event(run: Run) -> float | None:
    return run.cpu_per_event_us


def _cpu_per_stream(run: Run) -> float | None:
    return run.cpu_per_stream_us


def _steady(run: Run) -> float | None:
    return run.steady_us


def _ratio(runs: list[Run], base: list[Run], measure: Callable[[Run], float | None]) -> float | None:
    """Round by round; rounds in which one of the two is not known do not count."""
    pairs = [(measure(run), measure(other)) for run, other in zip(runs, base, strict=False)]
    known = [(value, other) for value, other in pairs if value is not None and other is not None]
    return median_ratio([value for value, _ in known], [other for _, other in known])


def _median(runs: list[Run], measure: Callable[[Run], float | None]) -> float | None:
    known = [value for value in map(measure, runs) if value is not None]
    return median(known) if known else None
