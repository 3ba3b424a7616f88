"""The comparison: scenarios chosen, contestants found, rounds played, results written."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from bench.arena import ProviderEnded, arena
from bench.bars import bars
from bench.contestants.contestant import Absent
from bench.contestants.direct import Direct
from bench.contestants.hoptrio import Hoptrio
from bench.contestants.litellm import Litellm
from bench.contestants.named import Named
from bench.contestants.nginx import Nginx
from bench.contestants.relay import Relay
from bench.cores import cores_of_this_machine
from bench.machine import described
from bench.plots import draw
from bench.report import markdown
from bench.result import Entrant, Results, ScenarioResults
from bench.scenario import quick_scenarios, scenarios
from bench.table import absences, scenario_table, targets_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.contestants.contestant import Kind
    from bench.scenario import Scenario

__all__ = ["compare", "report"]

_KINDS = ("direct", "relay", "nginx", "hoptrio", "litellm")


@click.group(invoke_without_command=True)
@click.option("--quick", is_flag=True, help="A sample, shorter and of one round: less than three minutes.")
@click.option("--scenario", "names", multiple=True, metavar="NAME", help="Only these, or a family; --list names them.")
@click.option("--contestant", "chosen", multiple=True, type=click.Choice(_KINDS), help="Only these, and --url's.")
@click.option("--rounds", type=click.IntRange(1, 20), help="Other than each scenario's own.")
@click.option("--url", help="A further gateway, which runs already; its channel is the provider at --provider-port.")
@click.option("--key", default="none", help="For --url; better in BENCH_KEY than here.", envvar="BENCH_KEY")
@click.option("--model", default="bench-chat", show_default=True, help="For --url.")
@click.option("--name", default="named", show_default=True, help="What --url is called in the tables.")
@click.option("--pid", type=int, help="--url's process, if it runs here: its CPU and memory are measured, too.")
@click.option("--provider-port", type=click.IntRange(0, 65535), default=0, help="Where the provider listens; 0: any.")
@click.option("--list", "listed", is_flag=True, help="Name the scenarios, and end.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/bench"),
    show_default=True,
    help="Where results.json, report.md and the plots go.",
)
@click.pass_context
def compare(
    context: click.Context,
    quick: bool,
    names: tuple[str, ...],
    chosen: tuple[str, ...],
    rounds: int | None,
    url: str | None,
    key: str,
    model: str,
    name: str,
    pid: int | None,
    provider_port: int,
    listed: bool,
    out: Path,
) -> None:
    """Measure gateways next to each other: CPU, memory and delay, each in processes of its own, rounds in turn.

    The full run takes up to twenty minutes. Exit status 1 if a ledger was not right.
    """
    if context.invoked_subcommand is not None:
        return
    selected = _selected(quick_scenarios() if quick else scenarios(), names)
    if listed:
        for each in selected:
            click.echo(f"{each.name:32} {each.title}")
        return
    kinds = [kind for kind in _kinds(quick=quick, chosen=chosen) if not chosen or kind.name in chosen]
    if url is not None:
        kinds.append(_named(name, url, key=key, model=model, pid=pid))
    console = Console()
    began = datetime.now(UTC)
    machine = described(str(cores_of_this_machine()))
    entrants, there = _entrants(kinds, console, install="litellm" in chosen)
    found = _play(selected, there, console, rounds=rounds, port=provider_port)
    results = Results(
        command=" ".join(["python -m bench", *_without_key(sys.argv[1:])]),
        began=began.strftime("%Y-%m-%d %H:%M UTC"),
        took_s=(datetime.now(UTC) - began).total_seconds(),
        machine=machine,
        entrants=tuple(entrants),
        scenarios=tuple(found),
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
    _show(results, out, console)
    if any(run.reconciled is not None and not run.reconciled.right for each in found for run in each.runs):
        raise SystemExit(1)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def report(folder: Path) -> None:
    """Write the report and the plots again from FOLDER/results.json."""
    _show(msgspec.json.decode((folder / "results.json").read_bytes(), type=Results), folder, Console())


def _show(results: Results, folder: Path, console: Console) -> None:
    with console.status("drawing"):
        plots = draw(results, folder)
    (folder / "report.md").write_text(markdown(results, plots), encoding="utf-8")
    console.print(targets_table(results))
    for line in absences(results):
        console.print(line)
    console.print(f"report, figures and plots: {folder}")


def _kinds(*, quick: bool, chosen: Sequence[str]) -> list[Kind]:
    """A quick run has no time for LiteLLM's start, unless it is asked for."""
    kinds: list[Kind] = [Direct(), Relay(), Nginx(), Hoptrio(), Litellm()]
    return kinds[:-1] if quick and "litellm" not in chosen else kinds


def _named(name: str, url: str, *, key: str, model: str, pid: int | None) -> Named:
    if name in _KINDS:
        raise click.BadParameter(f"{name!r} is another contestant's", param_hint="--name")
    try:
        return Named(name, url, key=key, model=model, pid=pid)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error


def _selected(every: list[Scenario], names: Sequence[str]) -> list[Scenario]:
    known = {each.name for each in every} | {each.family for each in every}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(sorted(known))}", param_hint="--scenario")
    return [each for each in every if not names or each.name in names or each.family in names]


def _without_key(arguments: Iterable[str]) -> list[str]:
    """A report is for others to read."""
    shown: list[str] = []
    for each in arguments:
        secret = bool(shown) and shown[-1] == "--key"
        shown.append("..." if secret else "--key=..." if each.startswith("--key=") else each)
    return shown


def _entrants(kinds: Sequence[Kind], console: Console, *, install: bool) -> tuple[list[Entrant], list[Kind]]:
    """Who can run here."""
    entrants: list[Entrant] = []
    there: list[Kind] = []
    for kind in kinds:
        try:
            if install and isinstance(kind, Litellm):
                with console.status("making LiteLLM's environment"):
                    kind.install()
            entrants.append(Entrant(kind.name, kind.version()))
            there.append(kind)
        except Absent as absent:
            entrants.append(Entrant(kind.name, "", str(absent)))
            console.print(f"{kind.name} is absent: {absent}")
    return entrants, there


def _play(
    selected: Sequence[Scenario], kinds: Sequence[Kind], console: Console, *, rounds: int | None, port: int
) -> list[ScenarioResults]:
    """Every scenario; Ctrl-C keeps those that are done."""
    found: list[ScenarioResults] = []
    with bars(console, len(selected)) as shown, arena(cores_of_this_machine(), shown.told, port=port) as place:
        for _, group in groupby(selected, key=lambda each: each.group):
            together = list(group)
            try:
                played = place.play(together, kinds, rounds=rounds)
            except KeyboardInterrupt:
                console.print("interrupted; what is done so far is reported")
                break
            except ProviderEnded as ended:
                console.print(f"the provider ended; what is done so far is reported:\n{ended}")
                break
            found += played
            for each in played:
                console.print(scenario_table(each))
                shown.advance()
    return found
