"""Slope: whether a series of measurements grows, by the median of the slopes between all pairs of points (Theil-Sen).

A leak shows at the bottom: what is left when streams have gone. So the least of each window is looked at, which takes
the load's own ups and downs out, and the median of the slopes, which a few odd points do not move. Pure.
"""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Trend", "minima", "theil_sen", "trend"]

Point = tuple[float, float]
_HOUR_S = 3600.0
#: More points than these are thinned: pairs grow with their square.
_POINTS_MAX = 400


class Trend(NamedTuple):
    """How a series moves: per hour, and over the time that was looked at."""

    per_hour: float
    span_s: float

    @property
    def growth(self) -> float:
        """What it is over the whole time."""
        return self.per_hour * self.span_s / _HOUR_S

    def flat(self, *, per_hour: float, noise: float) -> bool:
        """It grows by no more than `per_hour`; growth up to `noise` cannot be told from none."""
        return self.per_hour <= per_hour or self.growth <= noise


def minima(points: Sequence[Point], window_s: float) -> list[Point]:
    """The least value of each window, at its own time."""
    found: dict[int, Point] = {}
    for at_s, value in points:
        window = int(at_s // window_s)
        if window not in found or value < found[window][1]:
            found[window] = (at_s, value)
    return [found[window] for window in sorted(found)]


def theil_sen(points: Sequence[Point]) -> float | None:
    """The median slope per second; None of fewer than three points."""
    step = -(-len(points) // _POINTS_MAX) or 1
    pairs = combinations(points[::step], 2)
    slopes = [(value - before) / (at_s - before_s) for (before_s, before), (at_s, value) in pairs if at_s > before_s]
    return statistics.median(slopes) if len(points) > 2 and slopes else None


def trend(points: Sequence[Point], window_s: float) -> Trend | None:
    """Of the least of each window; None if there are too few windows."""
    least = minima(points, window_s)
    slope = theil_sen(least)
    return None if slope is None else Trend(slope * _HOUR_S, least[-1][0] - least[0][0])
