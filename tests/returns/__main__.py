"""The full trials (``make returns``): ``python -m tests.returns --clients 1000 --left 2000``; exit 1 if one is wrong.

Cut-offs at random, and streams that nobody comes back to for long.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import psutil
import trio
import trio.testing
from rich.console import Console

from hoptrio.limits import KIB, MIB
from tests.returns import left, trial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


@click.command()
@click.option("--clients", default=1_000, show_default=True, help="Clients that are cut off and come back.")
@click.option("--left", "leavers", default=2_000, show_default=True, help="Streams whose clients leave for good.")
@click.option("--seed", default=1, show_default=True)
def main(clients: int, leavers: int, seed: int) -> None:
    """Clients that are cut off at random and come back; then streams whose clients all left."""
    console = Console()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hoptrio-returns-") as directory:
        returned = _run(partial(trial.run, Path(directory), seed=seed, clients=clients))
        console.print(
            f"{returned.clients} clients, cut off {returned.cuts} times, came back {returned.ways}:"
            f" {returned.captured} charges, {returned.released} releases, {returned.upstream} requests upstream"
        )
        faults += returned.faults
    with tempfile.TemporaryDirectory(prefix="hoptrio-returns-") as directory:
        rss = psutil.Process().memory_info().rss
        caps = {"memory_bytes_max": 4 * MIB, "disk_bytes_max": 32 * MIB}
        kept = _run(partial(left.run, Path(directory), streams=leavers, event_bytes=1000, **caps))
        rss = psutil.Process().memory_info().rss - rss
        console.print(
            f"{kept.streams} streams whose clients left: at most {kept.memory_bytes // KIB} KiB in memory"
            f" (cap {kept.memory_bytes_max // KIB}, with 4 KiB of each that ran {kept.memory_bound_bytes // KIB}),"
            f" {kept.disk_bytes // KIB} KiB on disk"
            f" (cap {kept.disk_bytes_max // KIB}); {kept.whole} were told again whole, {kept.gone} are gone;"
            f" {rss // KIB} KiB more resident, both ends of every connection and the provider included"
        )
        faults += kept.faults
    for fault in faults:
        console.print(f"[red]{fault}[/red]")
    sys.exit(bool(faults))


def _run(work: Callable[[], Awaitable[T]]) -> T:
    return trio.run(work, clock=trio.testing.MockClock(autojump_threshold=0))


if __name__ == "__main__":
    main()
