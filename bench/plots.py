"""Plots, PNG and SVG: ratios, delays, memory and conversion. matplotlib is imported when one is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from bench.scenario import CONVERSIONS
from bench.spread import middle
from bench.summary import BASE, NOTHING, summarise
from bench.targets import conversion_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bench.result import Results

__all__ = ["draw", "figure", "save"]

R = TypeVar("R")

_COLOURS = {"direct": "#8c8c8c", "relay": "#4c72b0", "hoptrio": "#c44e52", "nginx": "#55a868", "litellm": "#8172b3"}
_OTHER = "#937860"
_PERCENTS = (*range(100), 99.9, 100)


def draw(results: Results, folder: Path) -> list[str]:
    """Whatever the results have the figures for; the names of what was drawn, without endings."""
    pictures: dict[str, Callable[[Results], Any]] = {
        "ratios": _ratios,
        "delays": _delays,
        "first-event": _first,
        "memory": _memory,
        "conversion": _conversion,
    }
    return save(pictures, results, folder)


def save(pictures: Mapping[str, Callable[[R], Any]], results: R, folder: Path) -> list[str]:
    """Make each figure and write it by its name; the names of those that there was something for."""
    import matplotlib as mpl

    mpl.use("Agg")
    # Text stays text and ids stay the same, so that a picture drawn again differs where its figures do.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hoptrio", "font.size": 9})
    drawn = []
    for name, make in pictures.items():
        made = make(results)
        if made is not None:
            made.savefig(folder / f"{name}.png", dpi=140)
            made.savefig(folder / f"{name}.svg", metadata={"Date": None})
            drawn.append(name)
    return drawn


def figure(width: float, height: float) -> tuple[Any, Any]:
    """An empty one, in inches, and its axes."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return made, axes


def _ratios(results: Results) -> Any:
    """CPU over the relay's, a group of bars for each scenario, on a logarithmic axis: twice and half are as far."""
    groups = []
    for each in results.scenarios:
        values = {name: summarise(each, name).ratio for name in each.contestants}
        known = {name: value for name, value in values.items() if value and name != BASE}
        if known:
            groups.append((each.name, known))
    if not groups:
        return None
    names = list(dict.fromkeys(name for _, known in groups for name in known))
    made, axes = figure(9, 0.35 * sum(len(known) for _, known in groups) + 1.2)
    at, ticks = 0.0, []
    for title, known in groups:
        ticks.append((at + (len(known) - 1) / 2, title))
        for name in names:
            if name in known:
                axes.barh(at, known[name] - 1, left=1, height=0.8, color=_COLOURS.get(name, _OTHER))
                axes.annotate(
                    f" {name} {known[name]:.2f} ",
                    (known[name], at),
                    va="center",
                    ha="left" if known[name] >= 1 else "right",
                    fontsize=7,
                )
                at += 1
        at += 0.8
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    low, high = (pick(value for _, known in groups for value in known.values()) for pick in (min, max))
    axes.set_xlim(low / 2.5, high * 2.5)
    ticked = [each for each in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low / 2.5 < each < high * 2.5]
    axes.set_xticks(ticked, [f"{each:g}" for each in ticked])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([each for each, _ in ticks], [title for _, title in ticks])
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("CPU over that of the naive trio relay (1 = as much; less is better)")
    return made


def _delays(results: Results) -> Any:
    return _curves(results, "paced", "delay_ns", "delay of an event, ms")


def _first(results: Results) -> Any:
    return _curves(results, "first-event", "first_ns", "time to the first event, ms")


def _curves(results: Results, family: str, field: str, label: str) -> Any:
    """Quantiles, stretched at their end: one curve for each contestant, one panel for each scenario."""
    chosen = [each for each in results.scenarios if each.family == family and each.runs]
    if not chosen:
        return None
    from matplotlib.figure import Figure

    made = Figure(figsize=(3.2 * len(chosen) + 1.2, 3.6), layout="constrained")
    panels = made.subplots(1, len(chosen), squeeze=False)[0]
    for panel, each in zip(panels, chosen, strict=True):
        for name in each.contestants:
            spread = middle([getattr(run, field) for run in each.of(name)])
            if spread.points:
                milliseconds = [max(point, 1e3) / 1e6 for point in spread.points]
                stretched = [_stretch(percent) for percent in _PERCENTS]
                panel.plot(stretched, milliseconds, label=name, color=_COLOURS.get(name, _OTHER))
        panel.set_yscale("log")
        panel.set_xticks([_stretch(percent) for percent in (0, 50, 90, 99, 99.9)], ["0", "50", "90", "99", "99.9"])
        panel.set_title(each.name)
        panel.set_xlabel("percent of the events" if field == "delay_ns" else "percent of the streams")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(label)
    panels[0].legend()
    return made


def _stretch(percent: float) -> float:
    """0, 90, 99 and 99.9 % are as far from each other."""
    return -math.log10(1 - min(percent, 99.97) / 100)


def _memory(results: Results) -> Any:
    """Resident memory per open stream by the number of streams."""
    chosen = [each for each in results.scenarios if each.family == "idle" and each.runs]
    if not chosen:
        return None
    made, axes = figure(5.5, 3.4)
    names = [name for name in chosen[0].contestants if name != NOTHING]
    width = 0.8 / max(1, len(names))
    for index, name in enumerate(names):
        heights = [summarise(each, name).rss_kib_per_stream or 0.0 for each in chosen]
        places = [at + index * width for at in range(len(chosen))]
        bars = axes.bar(places, heights, width, label=name, color=_COLOURS.get(name, _OTHER))
        axes.bar_label(bars, fmt="%.1f", fontsize=7)
    axes.axhline(25, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(chosen))], [f"{each.streams:,}" for each in chosen])
    axes.set_xlabel("open and silent streams")
    axes.set_ylabel("KiB of resident memory per stream")
    axes.legend()
    return made


def _conversion(results: Results) -> Any:
    """Converted over native, by direction."""
    bars = [
        (f"{client} on {channel}", value)
        for client, channel in CONVERSIONS
        if client != channel and (value := conversion_ratio(results, client, channel)) is not None
    ]
    if not bars:
        return None
    made, axes = figure(6, 0.32 * len(bars) + 1)
    drawn = axes.barh([name for name, _ in bars], [value for _, value in bars], color=_COLOURS["hoptrio"])
    axes.bar_label(drawn, fmt=" %.2f", fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axvline(2, color="black", linewidth=0.8, linestyle=":")
    axes.invert_yaxis()
    axes.set_xlabel("CPU per event over that of the channel's own clients")
    return made
