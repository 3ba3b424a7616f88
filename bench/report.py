"""The report: Markdown that says what was run, on what, what came of it, and which targets were reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.rows import COLUMNS, number, rows
from bench.scenario import CONVERSIONS
from bench.table import absences
from bench.targets import conversion_ratio, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.result import Results, ScenarioResults

__all__ = ["markdown"]

_HOW_TO_READ = """\
*CPU* is the contestant's whole process tree, from the kernel's nanosecond sum. *CPU / relay* is over the naive trio
relay in the same round, the median of the rounds, per event (per stream where the scenario says so), and has connects,
holds and settlements in it; *steady* has only the time in which all streams are open and none is at its end. What is
*added* is a quantile less the same quantile of direct. *jitter* is the mean difference between the delays of two events
in a row. *ledger*: each stream's state, usage, charge, hold and entries against what its client and the provider saw,
the charge computed anew."""


def markdown(results: Results, plots: Iterable[str] = ()) -> str:
    """The whole page; `plots` are the names of pictures beside it, without their endings."""
    parts = [
        "# Benchmark",
        f"`{results.command}`, begun {results.began}, took {results.took_s / 60:.1f} minutes.",
        "## Targets",
        _table(("what", "target", "measured", "verdict"), [tuple(each) for each in judge(results)]),
        *(f"![{name}]({name}.svg)" for name in plots),
        "## Contestants",
        _table(
            ("contestant", "version", "there"),
            [(each.name, each.version or "-", each.absent or "yes") for each in results.entrants],
        ),
        *(f"{line}." for line in absences(results)),
        "## Machine",
        "\n".join(f"* {name}: {value}" for name, value in results.machine.items()),
        "## Scenarios",
        _HOW_TO_READ,
        *_scenarios(results),
        *_conversions(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _scenarios(results: Results) -> Iterator[str]:
    for each in results.scenarios:
        counted = "per stream" if each.per == "stream" else "per event"
        rounds = max((run.round + 1 for run in each.runs), default=0)
        yield f"### {each.name}\n\n{each.title}. Ratios {counted}; {rounds} round{'s' if rounds != 1 else ''}."
        yield _table(COLUMNS, rows(each))
        yield "\n".join(_notes(each))


def _notes(results: ScenarioResults) -> Iterator[str]:
    """Who was shortened, who did not run, and what the ledger had wrong."""
    for name in results.contestants:
        least = min(run.streams for run in results.of(name))
        if least < results.streams:
            yield f"* {name}: {least} streams a round."
    for name, why in results.absent.items():
        if not why.startswith("not asked in"):
            yield f"* {name}: {why}."
    for run in results.runs:
        if run.stopped:
            yield f"* {run.contestant}, round {run.round + 1}: {run.stopped}."
        for fault in run.reconciled.wrong if run.reconciled else ():
            yield f"* **{run.contestant}, round {run.round + 1}: {fault}**"


def _conversions(results: Results) -> Iterator[str]:
    lines = [
        (client, channel, number(value))
        for client, channel in CONVERSIONS
        if client != channel and (value := conversion_ratio(results, client, channel)) is not None
    ]
    if lines:
        yield "### Conversion\n\nCPU per event of a converted stream over that of the channel's own clients."
        yield _table(("client", "channel", "converted / native"), lines)


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
