"""Lives: the gateway's processes one by one, from the samples: how large each was, and whether it grew. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.soak.result import Life
from bench.soak.slope import trend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.soak.result import Results
    from bench.soak.sampled import Process
    from bench.soak.slope import Trend

__all__ = ["lives", "series", "trend_of"]

#: The least of so long is looked at: all but the longest streams of the crowd have ended in it.
_WINDOW_S = 30.0
#: A process that lived for less of the judged time says nothing: a heap that has not had its full size yet grows.
_JUDGED_MIN_S = 420.0


def series(results: Results) -> list[list[tuple[float, Process]]]:
    """The samples of each process with their times, in seconds: the supervisor's first, then the workers' in the order
    of their starts."""
    found: dict[int, list[tuple[float, Process]]] = {}
    for sample in results.samples:
        for each in sample.processes:
            if each.rss_bytes:
                found.setdefault(each.pid, []).append((sample.at_s, each))
    return sorted(found.values(), key=lambda points: (points[0][1].role, points[0][0]))


def lives(results: Results) -> tuple[Life, ...]:
    """Of every process."""
    return tuple(_life(results, points) for points in series(results))


def _life(results: Results, points: list[tuple[float, Process]]) -> Life:
    sizes = [each.rss_bytes for _, each in points]
    counts = [each.descriptors for _, each in points]
    memory = trend_of(results, [(at_s, each.rss_bytes) for at_s, each in points])
    descriptors = trend_of(results, [(at_s, each.descriptors) for at_s, each in points])
    return Life(
        role=points[0][1].role,
        began_s=points[0][0],
        ended_s=points[-1][0],
        rss_first_bytes=sizes[0],
        rss_most_bytes=max(sizes),
        rss_last_bytes=sizes[-1],
        descriptors_most=max(counts),
        descriptors_last=counts[-1],
        judged_s=memory.span_s if memory else 0.0,
        rss_per_hour_bytes=memory.per_hour if memory else None,
        descriptors_per_hour=descriptors.per_hour if descriptors else None,
    )


def trend_of(results: Results, points: Sequence[tuple[float, float]]) -> Trend | None:
    """How a series moves in the judged time; None if there is too little of it."""
    judged = [(at_s, value) for at_s, value in points if results.judged_s <= at_s <= results.judged_until_s]
    if not judged or judged[-1][0] - judged[0][0] < _JUDGED_MIN_S:
        return None
    return trend(judged, _WINDOW_S)
