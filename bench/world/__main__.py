"""``python -m bench.world --seed N``: live that many simulated streams, and say what became of them.

Exit status 1 if an invariant broke: then the stream's trace and the command that meets it again are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bench.world.campaign import Failure, live, parts, total

if TYPE_CHECKING:
    from bench.world.world import Summary


def main() -> int:
    """0 if every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m bench.world", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; the result does not depend on it"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.streams < 1 or options.jobs < 1:
        parser.error("--streams and --jobs are at least 1")
    started = time.perf_counter()
    lived = _live(options.seed, options.streams, options.jobs)
    if isinstance(lived, Failure):
        _fail(lived, as_json=options.json)
        return 1
    _show(lived, options.seed, time.perf_counter() - started, as_json=options.json)
    return 0


def _live(seed: int, streams: int, jobs: int) -> Summary | Failure:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    summaries: list[Summary] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("streams", total=streams)
        for lived in live(parts(seed, streams), jobs):
            if isinstance(lived, Failure):
                return lived
            summaries.append(lived)
            progress.advance(task, lived.streams)
    return total(summaries)


def _fail(failure: Failure, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(
            json.dumps({"ok": False, "seed": failure.part.seed, "streams": failure.part.streams, "text": failure.text})
            + "\n"
        )
    else:
        sys.stdout.write(f"seed {failure.part.seed}: {failure.text}\n")


def _show(summary: Summary, seed: int, took_s: float, *, as_json: bool) -> None:
    rate = summary.streams / took_s
    if as_json:
        figures = {"took_s": round(took_s, 1), "streams_per_s": round(rate)}
        sys.stdout.write(json.dumps({"ok": True, "seed": seed, **figures, **vars(summary)}) + "\n")
        return
    console = Console()
    for title, counts in (
        ("streams by end", summary.ends),
        ("holds by outcome", summary.settlements),
        ("faults", summary.faults),
        ("invariants, and how often each was looked at", summary.checks),
    ):
        table = Table(title=title, title_justify="left", show_header=False, min_width=66)
        table.add_column(ratio=1)
        table.add_column(justify="right")
        for name, count in sorted(counts.items(), key=lambda each: -each[1]):
            table.add_row(name, f"{count:,}")
        console.print(table)
    console.print(
        f"seed {seed}: {summary.streams:,} streams in {summary.virtual_s:,.0f} virtual s, {took_s:.1f} s, "
        f"{rate:,.0f} streams/s, digest {summary.digest[:16]}"
    )


if __name__ == "__main__":
    sys.exit(main())
