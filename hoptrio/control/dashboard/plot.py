"""Plots: series of figures as the paths of an SVG, and where the axis of a timeline is marked. Pure.

A plot is drawn in a box of `WIDTH` by `HEIGHT` that the page stretches, so the lines keep their own width and all text
stands outside. Gaps (None: nothing was known then) interrupt the line instead of bridging it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HEIGHT", "WIDTH", "Plot", "nice_step", "plot"]

WIDTH, HEIGHT = 600, 100


class Plot(NamedTuple):
    """A series as SVG path data; `top` is the value of the upper edge, the lower one is 0. `dots` are the points that
    are in no line, each a line without length, which round ends make a dot."""

    curve: str
    area: str
    dots: str
    top: float


def plot(values: Sequence[float | None]) -> Plot:
    """The newest value last, at the right edge."""
    top = ceiling(max((value for value in values if value is not None), default=0))
    width = WIDTH / max(1, len(values) - 1)
    curve, area, dots, run = [], [], [], list[str]()
    for i, value in enumerate([*values, None]):
        if value is not None:
            run.append(f"{i * width:.1f} {HEIGHT - value / top * HEIGHT:.1f}")
        elif len(run) == 1:
            dots.append(f"M{run[0]}h0")
            run = []
        elif run:
            curve.append("M" + "L".join(run))
            area.append(f"M{run[0].split()[0]} {HEIGHT}L{'L'.join(run)}L{run[-1].split()[0]} {HEIGHT}Z")
            run = []
    return Plot("".join(curve), "".join(area), "".join(dots), top)


def ceiling(value: float) -> float:
    """The next round number at or above: 1, 2 or 5 times a power of ten."""
    return nice_step(value) if value > 1e-9 else 1.0


def nice_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least `least` (above 0 by more than a hair)."""
    power = 1.0
    while power * 10 <= least:
        power *= 10
    while power > least:
        power /= 10
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)
