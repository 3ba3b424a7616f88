"""``python -m bench``: the table. hoptrio next to a byte relay: same run, rounds in turn, medians, process CPU.

paced   200 streams, an event every 20-50 ms each     CPU per event
burst   4 streams of events as fast as they come      CPU per event
short   one-event streams, with a durable hold and settlement in hoptrio   CPU per stream
idle    2,000 open silent streams                     RSS per stream
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import trio
from rich.console import Console
from rich.table import Table

from bench.load import Load, Result, run
from bench.process import Contestant, start

GATEWAY_CORE = 0
PACED = Load(streams=200, at_once=200, script="events=400 pace=35ms size=40", spread_s=0.035)
BURST = Load(streams=4, at_once=4, script="events=20000 pace=0 size=120")
SHORT = Load(streams=2000, at_once=16, script="events=1 pace=0")
IDLE = Load(streams=2000, at_once=2000, script="events=2 pace=25s", spread_s=4.0)


class Row(NamedTuple):
    """One figure: relay, hoptrio, and the most it may be (a ratio, or an absolute with no relay)."""

    scenario: str
    unit: str
    relay: float | None
    hoptrio: float
    target: float

    @property
    def ratio(self) -> float:
        """hoptrio over the relay, or over 1."""
        return self.hoptrio / (self.relay or 1)


def config(directory: Path, provider_port: int) -> Path:
    """A gateway of one channel, the simulator."""
    path = directory / "hoptrio.toml"
    path.write_text(
        f"""
[server]
listen = "127.0.0.1:0"
max_streams = 20000
[ledger]
url = "sqlite:///{directory}/hoptrio.db"
[models.sim-small]
input = "1"
output = "2"
max_input_tokens = 100000
max_output_tokens = 100000
[channels.sim]
protocols = ["chat"]
base_url = "http://127.0.0.1:{provider_port}/v1"
api_key = "sk-bench"
models = ["sim-small"]
max_streams = 20000
"""
    )
    return path


async def _cost(contestant: Contestant, load: Load) -> tuple[int, Result]:
    before = contestant.cpu_ns()
    result = await run(contestant.port, contestant.key, load)
    if result.broken:
        raise RuntimeError(f"{contestant.name}: {result.broken} streams broke")
    return contestant.cpu_ns() - before, result


async def _per(contestant: Contestant, load: Load, what: str) -> float:
    cpu_ns, result = await _cost(contestant, load)
    return cpu_ns / 1000 / (result.events if what == "event" else result.complete)


async def _compare(name: str, what: str, load: Load, target: float, pair: list[Contestant], rounds: int) -> Row:
    figures: dict[str, list[float]] = {contestant.name: [] for contestant in pair}
    for _ in range(rounds):
        for contestant in pair:
            figures[contestant.name].append(await _per(contestant, load, what))
    relay, hoptrio = (statistics.median(figures[contestant.name]) for contestant in pair)
    return Row(name, f"us CPU per {what}", relay, hoptrio, target)


async def _idle(contestant: Contestant) -> Row:
    before = contestant.rss_bytes()
    opened = trio.Event()
    figures: list[float] = []

    async def measure() -> None:
        await opened.wait()
        figures.append((contestant.rss_bytes() - before) / IDLE.streams / 1024)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure)
        result = await run(contestant.port, contestant.key, IDLE, opened)
        opened.set()
    if result.broken:
        raise RuntimeError(f"{result.broken} idle streams broke")
    return Row("idle", "KiB RSS per open stream", None, figures[0], 30)


async def measure(pair: list[Contestant], rounds: int) -> list[Row]:
    """All scenarios; a first short run warms both up."""
    for contestant in pair:
        await _cost(contestant, SHORT)
    return [
        await _compare("paced", "event", PACED, 1.3, pair, rounds),
        await _compare("burst", "event", BURST, 4.0, pair, rounds),
        await _compare("short", "stream", SHORT, 4.0, pair, rounds),
        await _idle(pair[1]),
    ]


def _setup(stack: ExitStack) -> list[Contestant]:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    other_core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {other_core})
    provider = stack.enter_context(start("provider", "hoptrio", "simulate", "--listen", "127.0.0.1:0", core=other_core))
    path = config(directory, provider.port)
    key = trio.run(make_key, str(directory / "hoptrio.db"))
    relay = stack.enter_context(start("relay", "bench.relay", f"127.0.0.1:{provider.port}", core=GATEWAY_CORE))
    gateway = stack.enter_context(
        start("hoptrio", "hoptrio", "serve", "--config", str(path), core=GATEWAY_CORE, key=key)
    )
    return [relay, gateway]


async def make_key(database: str) -> str:
    """An account with much money in this SQLite file; the secret of its key."""
    from hoptrio.ledger.ledger import open_ledger

    async with open_ledger(f"sqlite:///{database}") as ledger:
        await ledger.create_account("bench", 10**15)
        _, secret = await ledger.create_key("bench")
    return secret


def table(rows: list[Row]) -> Table:
    """For people."""
    shown = Table(title="hoptrio next to a byte relay", title_justify="left")
    for column in ("scenario", "unit", "relay", "hoptrio", "ratio", "at most"):
        shown.add_column(column, justify="left" if column in ("scenario", "unit") else "right")
    for row in rows:
        relay = "-" if row.relay is None else f"{row.relay:.1f}"
        shown.add_row(row.scenario, row.unit, relay, f"{row.hoptrio:.1f}", f"{row.ratio:.2f}", f"{row.target:g}")
    return shown


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 20), metavar="N", help="default 3")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        rows = trio.run(measure, _setup(stack), arguments.rounds)
    if arguments.json:
        Console().print_json(json.dumps([{**row._asdict(), "ratio": row.ratio} for row in rows]))
    else:
        Console().print(table(rows))


if __name__ == "__main__":
    main()
