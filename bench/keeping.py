"""``python -m bench.keeping``: what it costs to keep streams for clients that come back. The same gateway twice, once
with ``reattach_minutes = 0``: same run, rounds in turn, medians of CPU.

paced   100 streams, an event every 35 ms each        CPU per event
burst   4 streams of events as fast as they come      CPU per event
short   one-event streams                             CPU per stream

Shorter rounds than the table's, and more of them: the difference is small.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import trio
from rich.console import Console
from rich.table import Table

from bench.__main__ import GATEWAY_CORE, config, make_key
from bench.load import Load, run
from bench.process import Contestant, start

SCENARIOS = (
    ("paced", Load(streams=100, at_once=100, script="events=100 pace=35ms size=40", spread_s=0.035), "event"),
    ("burst", Load(streams=4, at_once=4, script="events=8000 pace=0 size=120"), "event"),
    ("short", Load(streams=500, at_once=16, script="events=1 pace=0"), "stream"),
)


class Row(NamedTuple):
    """CPU in microseconds per `unit`, medians."""

    scenario: str
    unit: str
    without: float
    with_: float


def _contestants(stack: ExitStack) -> list[Contestant]:
    other_core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {other_core})
    provider = stack.enter_context(start("provider", "hoptrio", "simulate", "--listen", "127.0.0.1:0", core=other_core))
    made = []
    for name, minutes in (("without", 0), ("with", 10)):
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = config(directory, provider.port)
        path.write_text(path.read_text().replace("[server]", f"[server]\nreattach_minutes = {minutes}"))
        key = trio.run(make_key, str(directory / "hoptrio.db"))
        arguments = ("hoptrio", "serve", "--config", str(path))
        made.append(stack.enter_context(start(name, *arguments, core=GATEWAY_CORE, key=key)))
    return made


async def _per(contestant: Contestant, name: str) -> float:
    load, unit = next((load, unit) for scenario, load, unit in SCENARIOS if scenario == name)
    before = contestant.cpu_ns()
    result = await run(contestant.port, contestant.key, load)
    return (contestant.cpu_ns() - before) / 1000 / (result.events if unit == "event" else result.complete)


async def _measure(pair: list[Contestant], rounds: int) -> list[Row]:
    for contestant in pair:
        await _per(contestant, "short")
    rows = []
    for name, _, unit in SCENARIOS:
        figures: dict[str, list[float]] = {contestant.name: [] for contestant in pair}
        for number in range(rounds):
            for contestant in pair if number % 2 else reversed(pair):
                figures[contestant.name].append(await _per(contestant, name))
        rows.append(Row(name, unit, *(statistics.median(figures[contestant.name]) for contestant in pair)))
    return rows


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench.keeping", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, choices=range(1, 40), metavar="N", help="default 9")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        rows = trio.run(_measure, _contestants(stack), arguments.rounds)
    shown = Table(title="CPU of keeping streams", title_justify="left")
    for column in ("scenario", "unit", "without", "with", "ratio"):
        shown.add_column(column, justify="left" if column in ("scenario", "unit") else "right")
    for row in rows:
        figures = (f"{row.without:.2f}", f"{row.with_:.2f}", f"{row.with_ / row.without:.3f}")
        shown.add_row(row.scenario, f"us per {row.unit}", *figures)
    Console().print(shown)


if __name__ == "__main__":
    main()
