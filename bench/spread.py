"""Figures of many values: quantiles, medians, and what one contestant adds to another."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from bench.job import Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["median", "median_ratio", "middle", "spread"]

_POINTS = (*range(100), 99.9, 100)


def spread(values: Iterable[float]) -> Spread:
    """Quantiles by the nearest rank, so that each is a value that was seen."""
    ordered = sorted(values)
    if not ordered:
        return Spread(0, ())
    last = len(ordered) - 1
    return Spread(len(ordered), tuple(ordered[round(last * percent / 100)] for percent in _POINTS))


def median(values: Iterable[float]) -> float:
    """0 of none."""
    each = list(values)
    return statistics.median(each) if each else 0.0


def median_ratio(values: Sequence[float], base: Sequence[float]) -> float | None:
    """The median of the ratios round by round, so that what slows a whole round cancels out; None without a base."""
    ratios = [value / other for value, other in zip(values, base, strict=False) if other > 0]
    return statistics.median(ratios) if ratios else None


def middle(spreads: Sequence[Spread]) -> Spread:
    """Of several rounds: the median of each quantile."""
    full = [each for each in spreads if each.points]
    if not full:
        return Spread(0, ())
    points = zip(*(each.points for each in full), strict=True)
    return Spread(sum(each.count for each in full), tuple(statistics.median(point) for point in points))
