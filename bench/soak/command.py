"""``python -m bench soak``: the run, live figures while it lasts, and the report."""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.cores import cores_of_this_machine
from bench.machine import described
from bench.soak.blame import cause
from bench.soak.plots import draw
from bench.soak.report import markdown
from bench.soak.result import Results, Unexpected
from bench.soak.run import Load, Told, soak
from bench.soak.schedule import plan
from bench.soak.verdicts import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.soak.run import Lived
    from bench.soak.sampled import Sample
    from bench.soak.schedule import Plan

__all__ = ["results_of", "soak_command", "write"]

_MIB = 1024 * 1024
_SAID = {True: "[green]yes", False: "[red]no", None: "[yellow]?"}
#: Samples of the results; all of them are in the JSON lines beside.
_KEPT_S = 10.0
_KINDS_OF_DATABASE = ("postgresql", "sqlite")


@click.command("soak")
@click.option("--minutes", type=click.FloatRange(0.1, 24 * 60), default=60.0, show_default=True)
@click.option("--ledger", type=click.Choice(_KINDS_OF_DATABASE), default="postgresql", show_default=True)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 50),
    default=Load().rate,
    show_default=True,
    help="Visits a second, on average.",
)
@click.option("--at-once", type=click.IntRange(1, 1_000), default=Load().at_once, show_default=True, help="At most.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/soak"),
    show_default=True,
    help="Where samples.jsonl, gateway.log, results.json, report.md and the plots go.",
)
def soak_command(minutes: float, ledger: str, rate: float, at_once: int, seed: int, out: Path) -> None:
    """A mixed load for long on a real gateway, whose config, certificates, workers and database are changed, killed and
    restarted meanwhile. Ctrl-C ends it early, with its report.

    Exit status 1 if a line of the report does not hold.
    """
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    cores = cores_of_this_machine()
    began, machine = datetime.now(UTC), described(str(cores))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    schedule = plan(minutes * 60)
    with _live(console, schedule.lasts_s) as told:
        load = Load(rate=rate, at_once=at_once, longest_s=min(60.0, schedule.lasts_s / 6), seed=seed)
        lived = soak(schedule, load, ledger, cores, out, told)
    results = results_of(
        lived,
        schedule,
        command=f"python -m bench soak --minutes {minutes:g} --ledger {ledger} --rate {rate:g} --at-once {at_once}"
        f" --seed {seed}",
        began=began,
        machine=machine,
        database="PostgreSQL" if ledger == "postgresql" else "SQLite",
    )
    console.print(write(results, out))
    console.print(f"report, figures and plots: {out}")
    if any(each.holds is False for each in results.verdicts):
        raise SystemExit(1)


def results_of(
    lived: Lived, schedule: Plan, *, command: str, began: datetime, machine: dict[str, str], database: str
) -> Results:
    """What came of a run, judged."""
    causes: Counter[str] = Counter()
    unexpected = []
    for each in lived.ended:
        if not each.seen.error:
            continue
        why = cause(each, lived.marks)
        causes[f"{each.seen.error}: {why or 'nothing explains it'}"] += 1
        if not why:
            seen, visit = each.seen, each.visit
            unexpected.append(
                Unexpected(
                    round(each.began_s, 1), visit.number, visit.kind, visit.protocol, seen.error, seen.request_id
                )
            )
    results = Results(
        command=command,
        began=began.strftime("%Y-%m-%d %H:%M UTC"),
        took_s=(datetime.now(UTC) - began).total_seconds(),
        machine=machine,
        database=database,
        interrupted=lived.interrupted,
        judged_s=schedule.judged_s,
        judged_until_s=lived.loaded_s,
        end=lived.end,
        marks=lived.marks,
        kinds=dict(Counter(each.visit.kind for each in lived.ended).most_common()),
        causes=dict(causes.most_common()),
        unexpected=tuple(unexpected),
        events=sum(each.events for each in lived.samples),
        samples=lived.samples,
    )
    return judged(results)


def write(results: Results, out: Path) -> Table:
    """Plots, report and results; the verdicts as a table. The results have a sample of every ten seconds."""
    plots = draw(results, out)
    (out / "report.md").write_text(markdown(results, plots), encoding="utf-8")
    kept: dict[int, Sample] = {}
    for each in results.samples:
        # What is asked for seldom is in the first of them.
        kept.setdefault(int(each.at_s // _KEPT_S), each)
    thin = msgspec.structs.replace(results, samples=tuple(kept.values()))
    (out / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(thin), indent=1) + b"\n")
    table = Table("it holds that", "", "measured", title="soak", title_justify="left")
    for verdict in results.verdicts:
        table.add_row(verdict.what, _SAID[verdict.holds], verdict.measured)
    return table


@contextmanager
def _live(console: Console, lasts_s: float) -> Iterator[Told]:
    """Progress: the time, and the figures of the last sample."""
    columns = (BarColumn(20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=lasts_s)
        step, figures = "", ""

        def show() -> None:
            progress.update(task, description=f"{figures}  [bold]{step}[/bold]")

        def on_step(what: str) -> None:
            nonlocal step
            step = what
            show()

        def on_sample(sample: Sample) -> None:
            nonlocal figures
            figures = _words(sample)
            progress.update(task, completed=min(sample.at_s, lasts_s))
            show()

        yield Told(on_step, on_sample)


def _words(sample: Sample) -> str:
    sizes = " + ".join(f"{each.rss_bytes / _MIB:.0f}" for each in sample.processes)
    descriptors = " + ".join(str(each.descriptors) for each in sample.processes)
    return f"{sample.clients} clients, {sample.events} events/s, {sizes} MiB, {descriptors} descriptors"
