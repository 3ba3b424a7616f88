"""Targets: what hoptrio sets itself, and whether a run reached it. The table judges itself; nobody writes a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bench.scenario import CONVERSIONS
from bench.spread import median_ratio
from bench.summary import ratio, summarise

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.result import Results, ScenarioResults
    from bench.summary import Summary

__all__ = ["TARGETS", "Judged", "Target", "conversion_ratio", "judge"]

_US = "hoptrio"
_IDLE_KIB_MAX = 25.0


class Target(NamedTuple):
    """`measure` is the figure, or None if the run does not have it."""

    name: str
    target: str
    unit: str
    reached: Callable[[float], bool]
    measure: Callable[[Results], float | None]


class Judged(NamedTuple):
    """A target with what was measured."""

    name: str
    target: str
    measured: str
    verdict: str


def judge(results: Results) -> list[Judged]:
    """All of them: reached, missed, or not measured."""
    judged = []
    for target in TARGETS:
        value = target.measure(results)
        verdict = "not measured" if value is None else "reached" if target.reached(value) else "missed"
        measured = "-" if value is None else f"{value:.2f} {target.unit}".strip()
        judged.append(Judged(target.name, target.target, measured, verdict))
    return judged


def _at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def _at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def _ours(results: Results, name: str) -> Summary | None:
    scenario = results.scenario(name)
    return summarise(scenario, _US) if scenario is not None and scenario.of(_US) else None


def _relative(name: str) -> Callable[[Results], float | None]:
    """CPU over the relay's."""

    def measure(results: Results) -> float | None:
        scenario = results.scenario(name)
        return None if scenario is None else ratio(scenario, _US)

    return measure


def _worst_paced(results: Results) -> float | None:
    """The whole of each run is in it: connects, holds and settlements."""
    ratios = [ratio(each, _US) for each in results.scenarios if each.family == "paced"]
    return max((each for each in ratios if each is not None), default=None)


def _first(at: int) -> Callable[[Results], float | None]:
    def measure(results: Results) -> float | None:
        ours = _ours(results, "first-event")
        return None if ours is None or ours.first is None else ours.first[at]

    return measure


def _idle(results: Results) -> list[ScenarioResults]:
    return [each for each in results.scenarios if each.family == "idle" and each.of(_US)]


def _rss_idle(results: Results) -> float | None:
    """Of the largest number of streams: what a process needs beside them is the smallest part there."""
    largest = max(_idle(results), key=lambda each: each.streams, default=None)
    return None if largest is None else summarise(largest, _US).rss_kib_per_stream


def _nine_thousand(results: Results) -> float | None:
    """CPU per event over that of 50 streams; None if one of the streams was not completed."""
    many, few = _ours(results, "idle-9000"), _ours(results, "paced-50")
    if many is None or few is None or not many.steady_us or not few.steady_us:
        return None
    return many.steady_us / few.steady_us


def _nine_thousand_complete(results: Results) -> float | None:
    many = _ours(results, "idle-9000")
    return None if many is None else 100 * many.complete / many.streams


def _two_workers(results: Results) -> float | None:
    """By CPU accounting: the throughput that two cores have at the cost of an event with two workers, over that of one
    core with one."""
    one, two = results.scenario("workers-1"), results.scenario("workers-2")
    if one is None or two is None:
        return None
    dearer = _paired(two, one)
    return 2 / dearer if dearer else None


def conversion_ratio(results: Results, client: str, channel: str) -> float | None:
    """CPU per event over that of the channel's own clients."""
    converted = results.scenario(f"converted-{client}-{channel}")
    native = results.scenario(f"converted-{channel}-{channel}")
    if converted is None or native is None:
        return None
    return _paired(converted, native)


def _paired(ours: ScenarioResults, base: ScenarioResults) -> float | None:
    """CPU per event over that in another scenario, whose rounds were played in turn with these."""
    return median_ratio(*([run.cpu_per_event_us or 0.0 for run in each.of(_US)] for each in (ours, base)))


def _worst_conversion(results: Results) -> float | None:
    ratios = [conversion_ratio(results, *pair) for pair in CONVERSIONS if pair[0] != pair[1]]
    return max((each for each in ratios if each is not None), default=None)


def _unreconciled(results: Results) -> float | None:
    checked = [run.reconciled for each in results.scenarios for run in each.runs if run.reconciled is not None]
    return float(sum(len(each.wrong) for each in checked)) if checked else None


TARGETS = (
    Target("paced, CPU per event (the worst of the sizes)", "at most 1.0 x relay", "x", _at_most(1.0), _worst_paced),
    Target("burst, CPU per event", "at most 3 x relay", "x", _at_most(3.0), _relative("burst")),
    Target(
        "short stream with durable hold and settlement", "at most 2.5 x relay", "x", _at_most(2.5), _relative("short")
    ),
    Target("added time to first event, 20 paced streams, p50", "at most 1.5 ms", "ms", _at_most(1.5), _first(0)),
    Target("added time to first event, 20 paced streams, p99", "at most 5 ms", "ms", _at_most(5.0), _first(1)),
    Target("RSS per open idle stream", "at most 25 KiB", "KiB", _at_most(_IDLE_KIB_MAX), _rss_idle),
    Target("9,000 open streams in one worker, complete", "all", "%", _at_least(100.0), _nine_thousand_complete),
    Target(
        "9,000 open streams, CPU per event", "at most 1.25 x that at 50 streams", "x", _at_most(1.25), _nine_thousand
    ),
    Target("2 workers, throughput by CPU accounting", "at least 1.8 x one", "x", _at_least(1.8), _two_workers),
    Target(
        "conversion, CPU per event (the worst direction)", "at most 2 x native", "x", _at_most(2.0), _worst_conversion
    ),
    Target("the ledger against clients and provider", "not a unit wrong", "wrong", _at_most(0.0), _unreconciled),
)
