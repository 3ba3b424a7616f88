"""Plots, PNG and SVG: memory, descriptors, streams and events, time to the first event, with what was done as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.plots import figure, save
from bench.soak.lives import series
from bench.spread import spread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.soak.result import Results
    from bench.soak.sampled import Process, Sample

__all__ = ["draw"]

_MIB = 1024 * 1024
_COLOURS = {"reload": "#4c72b0", "certificate": "#55a868", "kill": "#c44e52", "database": "#dd8452"}
_INK = ("#c44e52", "#4c72b0", "#55a868", "#8172b3", "#937860", "#da8bc3", "#8c8c8c", "#64b5cd")
#: Rates and quantiles are those of so long.
_WINDOW_S = 30.0


def draw(results: Results, folder: Path) -> list[str]:
    """The names of what was drawn, without endings."""
    pictures: dict[str, Callable[[Results], Any]] = {
        "memory": _memory,
        "descriptors": _descriptors,
        "streams": _streams,
        "first-event": _first,
    }
    return save(pictures, results, folder)


def _canvas(results: Results, label: str) -> tuple[Any, Any]:
    made, axes = figure(9, 3.4)
    named: set[str] = set()
    for mark in results.marks:
        label_once = {"label": mark.name} if mark.name not in named else {}
        named.add(mark.name)
        axes.axvline(mark.at_s / 60, color=_COLOURS[mark.name], linewidth=0.8, linestyle=":", **label_once)
    if results.judged_s < results.judged_until_s:
        span = (results.judged_s / 60, results.judged_until_s / 60)
        axes.axvspan(*span, color="#000000", alpha=0.05, label="judged")
    axes.set_xlabel("minutes")
    axes.set_ylabel(label)
    return made, axes


def _legend(axes: Any) -> None:
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _memory(results: Results) -> Any:
    return _processes(results, "MiB resident", lambda each: each.rss_bytes / _MIB)


def _descriptors(results: Results) -> Any:
    return _processes(results, "open descriptors", lambda each: each.descriptors)


def _processes(results: Results, label: str, value: Callable[[Process], float]) -> Any:
    """A line for each process."""
    made, axes = _canvas(results, label)
    named: set[str] = set()
    for number, points in enumerate(series(results)):
        role = points[0][1].role
        colour = "black" if role == "supervisor" else _INK[number % len(_INK)]
        label_once = {"label": role} if role not in named else {}
        named.add(role)
        minutes = [at_s / 60 for at_s, _ in points]
        axes.plot(minutes, [value(each) for _, each in points], color=colour, linewidth=0.9, **label_once)
    axes.set_ylim(bottom=0)
    _legend(axes)
    return made


def _streams(results: Results) -> Any:
    made, axes = _canvas(results, "open streams, events a second")
    windows = _windows(results)
    minutes = [at_s / 60 for at_s, _ in windows]
    known = [each for each in results.samples if each.streams is not None]
    axes.plot([each.at_s / 60 for each in known], [each.streams for each in known], color=_INK[0], label="streams")
    rates = [sum(each.events for each in samples) / _WINDOW_S for _, samples in windows]
    axes.plot(minutes, rates, color=_INK[1], label="events a second")
    held = [(each.at_s / 60, sum(each.holds.values())) for each in results.samples if each.holds is not None]
    axes.plot([at for at, _ in held], [count for _, count in held], color=_INK[4], linewidth=0.7, label="open holds")
    axes.set_ylim(bottom=0)
    _legend(axes)
    return made


def _first(results: Results) -> Any:
    made, axes = _canvas(results, "time to the first event, ms")
    points = [
        (at_s / 60, spread(value for each in samples for value in each.first_ms)) for at_s, samples in _windows(results)
    ]
    points = [(at, found) for at, found in points if found.points]
    axes.plot([at for at, _ in points], [found.p50 for _, found in points], color=_INK[1], label="p50")
    axes.plot([at for at, _ in points], [found.p99 for _, found in points], color=_INK[0], label="p99")
    axes.set_yscale("log")
    _legend(axes)
    return made


def _windows(results: Results) -> list[tuple[float, list[Sample]]]:
    """The samples of each whole window, by its middle."""
    found: dict[int, list[Sample]] = {}
    for each in results.samples:
        found.setdefault(int(each.at_s // _WINDOW_S), []).append(each)
    return [((number + 0.5) * _WINDOW_S, samples) for number, samples in sorted(found.items())][:-1]
