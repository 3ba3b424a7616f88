"""``python -m tests.clients``: every agent on channels of every protocol, and the guides; exit 1 if a line is red."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.clients import packages, websocket
from tests.clients.outside import outside
from tests.clients.turns import all_turns, books, site, take
from tests.support.guides import GuideFailed, Place, follow
from tests.support.running import command

if TYPE_CHECKING:
    from tests.clients.outside import Outside
    from tests.clients.turns import Outcome

_DEMO = [sys.executable, "-m", "hoptrio", "demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]


@click.command()
@click.option("--agent", "agents", multiple=True, help="Part of an agent's name; again for more. Default: all.")
@click.option("--guides/--no-guides", default=True, help="Follow the guides of agents and frameworks as well.")
@click.option("--json", "as_json", is_flag=True, help="Output for programs.")
def main(agents: tuple[str, ...], guides: bool, as_json: bool) -> None:
    """Agents finish a turn with a tool call through a real gateway; the guides do what they say."""
    packages.install()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hoptrio-clients-")))
        network = stack.enter_context(outside())
        outcomes, ledger = _turns(agents, directory, network, quiet=as_json)
        over_websocket = _websocket(directory) if not agents else []
        followed = _guides(directory, network) if guides else {}
    if as_json:
        sys.stdout.write(json.dumps(_report(outcomes, ledger, over_websocket, followed)) + "\n")
    else:
        _show(outcomes, ledger, over_websocket, followed)
    sys.exit(bool(ledger or over_websocket or any(followed.values()) or any(each.faults for each in outcomes)))


def _turns(
    agents: tuple[str, ...], directory: Path, network: Outside, *, quiet: bool
) -> tuple[list[Outcome], list[str]]:
    """All turns, one after another, and what is wrong with the books."""
    outcomes: list[Outcome] = []
    gateway = directory / "gateway"
    gateway.mkdir()
    with site(gateway) as here, Progress(disable=quiet) as progress:
        for number, turn in enumerate(progress.track(all_turns(agents), description="turns")):
            outcomes.append(take(turn, here, network, directory / str(number)))
        return outcomes, books(here, outcomes)


def _websocket(directory: Path) -> list[str]:
    """What is wrong with Codex's turn over a WebSocket."""
    place = directory / "websocket"
    place.mkdir()
    return websocket.faults(place)


def _guides(directory: Path, network: Outside) -> dict[str, str]:
    """What is wrong with each guide; "" = nothing."""
    found: dict[str, str] = {}
    with command([*_DEMO, "--dir", str(directory / "demo")], r"curl -N '?(http://127\.0\.0\.1:\d+)/") as match:
        for page in packages.GUIDES:
            place = Place(
                directory / page,
                match[1],
                python=str(packages.PYTHON),
                modules=packages.MODULES,
                environment=network.environment,
            )
            try:
                follow(page, place)
                found[page] = ""
            except GuideFailed as failed:
                found[page] = str(failed)
    return found


def _show(outcomes: list[Outcome], ledger: list[str], over_websocket: list[str], followed: dict[str, str]) -> None:
    console = Console()
    table = Table("agent", "speaks", "channel", "requests", "charge", "seconds", "result")
    for each in outcomes:
        good = "[green]done" if each.turn.possible else "[green]refused, as promised"
        table.add_row(
            each.turn.agent.name,
            each.turn.agent.protocol,
            each.turn.channel,
            str(each.requests),
            str(each.charge),
            f"{each.seconds:.1f}",
            "[red]failed" if each.faults else good,
        )
    console.print(table)
    for each in outcomes:
        for fault in each.faults:
            console.print(f"{each.turn.agent.name} on {each.turn.channel}: {fault}", markup=False)
    asked = sorted({(each.turn.agent.name, host) for each in outcomes for host in each.outside})
    for name, host in asked:
        console.print(f"{name} would have talked to {host}", markup=False)
    console.print(
        f"ledger: {'; '.join(ledger) or 'the audit passed, and every balance is the deposit less the charges'}"
    )
    console.print(f"Codex over a WebSocket: {'; '.join(over_websocket) or 'done'}", markup=False)
    for page, fault in followed.items():
        console.print(f"guide {page}: {fault or 'does what it says'}", markup=False)


def _report(
    outcomes: list[Outcome], ledger: list[str], over_websocket: list[str], followed: dict[str, str]
) -> dict[str, object]:
    turns = [
        {
            "agent": each.turn.agent.name,
            "speaks": each.turn.agent.protocol,
            "channel": each.turn.channel,
            "possible": each.turn.possible,
            "requests": each.requests,
            "charge": str(each.charge),
            "seconds": round(each.seconds, 1),
            "outside": each.outside,
            "faults": each.faults,
        }
        for each in outcomes
    ]
    return {"turns": turns, "ledger": ledger, "websocket": over_websocket, "guides": followed}


if __name__ == "__main__":
    main()
