"""The full trials (``make chaos``): ``python -m tests.chaos --streams 5000 --kills 10``; exit 1 if a line is red."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.postgres import running_server
from tests.chaos import kills, trial
from tests.chaos.doomed import POINTS


@click.command()
@click.option("--streams", default=5_000, show_default=True)
@click.option("--at-once", default=150, show_default=True)
@click.option("--kills", "kill_rounds", default=10, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--postgres", is_flag=True, help="The kills on PostgreSQL, which is killed as well, and two nodes.")
def main(streams: int, at_once: int, kill_rounds: int, seed: int, postgres: bool) -> None:
    """Send a crowd through a real gateway and look at everything; then kill processes under one, again and again."""
    calm = streams == 0 or _crowd(streams, at_once, seed)
    alive = kill_rounds == 0 or trio.run(_kills, kill_rounds, seed, postgres)
    sys.exit(not (calm and alive))


def _crowd(streams: int, at_once: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="hoptrio-chaos-") as directory, Progress() as progress:
        bar = progress.add_task("streams", total=streams)
        report = trio.run(
            partial(
                trial.run,
                Path(directory),
                seed=seed,
                streams=streams,
                at_once=at_once,
                progress=lambda _: progress.advance(bar),
            )
        )
    lines = verdicts(report)
    _show(report, lines)
    return all(holds for _, holds, _ in lines)


async def _kills(count: int, seed: int, postgres: bool) -> bool:
    """Rounds of `kills`; True if nothing was wrong after any."""
    deaths: list[kills.Round] = []
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hoptrio-kills-"))
        database = stack.enter_context(running_server()) if postgres else None
        progress = stack.enter_context(Progress())
        bar = progress.add_task("deaths", total=count)
        async with aclosing(kills.rounds(Path(directory), seed=seed, count=count, database=database)) as lives:
            async for death in lives:
                deaths.append(death)
                progress.advance(bar)
                for fault in death.faults:
                    progress.console.print(f"{death.victim} {death.point}: {fault}", markup=False)
    _show_deaths(deaths)
    return not any(death.faults for death in deaths)


def _show_deaths(deaths: list[kills.Round]) -> None:
    table = Table("point", "victim", "rounds", "died", "open holds", "resolved within", "faults")
    for fate in sorted({(death.point, death.victim) for death in deaths}, key=lambda fate: POINTS.index(fate[0])):
        these = [death for death in deaths if (death.point, death.victim) == fate]
        table.add_row(
            *fate,
            str(len(these)),
            str(sum(death.died for death in these)),
            str(sum(death.open_holds for death in these)),
            f"{max(death.resolved_s for death in these):.1f} s",
            str(sum(len(death.faults) for death in these)),
        )
    Console().print(table)


def verdicts(report: trial.Report) -> list[tuple[str, bool, str]]:
    """(what must hold, whether it does, the numbers)."""
    base, warm, after, audit = report.base, report.warm, report.after, report.audit
    assert base is not None
    assert warm is not None
    assert after is not None
    growth = after.rss - warm.rss
    return [
        ("the audit passes", bool(audit["ok"]), f"{audit['captured']} captured, {audit['released']} released"),
        ("no hold is open", audit["open_holds"] == 0 and audit["held"] == "0", f"{audit['open_holds']} open"),
        ("no stream runs", after.streams == 0, f"{after.streams} running"),
        ("descriptors are back", after.descriptors <= base.descriptors, f"{base.descriptors} -> {after.descriptors}"),
        ("tasks are back", after.tasks <= base.tasks, f"{base.tasks} -> {after.tasks}"),
        ("memory is back", growth <= trial.RSS_GROWTH_MAX, f"{warm.rss >> 20} -> {after.rss >> 20} MiB"),
        ("it ends with status 0", report.exit_status == 0, str(report.exit_status)),
        ("clients and ledger agree", not report.faults, f"{len(report.faults)} faults"),
    ]


def _show(report: trial.Report, lines: list[tuple[str, bool, str]]) -> None:
    console = Console()
    console.print(f"{report.streams} streams in {report.seconds:.0f} s")
    for title, counts in (
        ("states", report.states),
        ("ends", report.reasons),
        ("statuses", report.statuses),
        ("clients", report.behaviours),
    ):
        console.print(f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    table = Table("it holds that", "", "measured")
    for what, holds, numbers in lines:
        table.add_row(what, "[green]yes" if holds else "[red]no", numbers)
    console.print(table)
    for fault in report.faults[:50]:
        console.print(fault, markup=False)


if __name__ == "__main__":
    main()
