"""``python -m bench check``: the regression gate. It counts, and does not time, so that it says the same on any day.

The limits stand in ``limits.toml``, for each version of Python, since each compiles the same code to other calls;
``--lock`` measures and writes them, when a gain is to be kept or a loss is meant. Under a version without limits only
the ratios to the relay are judged, which every run measures anew.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import trio
from rich.console import Console
from rich.table import Table

from bench.lockstep import Counts, count_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.lockstep import Measured

__all__ = ["LIMITS", "MARGINS", "Judged", "check", "judge", "limits_for", "written"]

LIMITS = Path(__file__).with_name("limits.toml")
#: How far above what was measured a limit is set: less than the 5 % that must not go unseen, more than two runs differ.
MARGINS = Counts(
    calls_per_paced_event=0.02,
    calls_per_burst_event=0.02,
    calls_per_stream=0.02,
    calls_per_converted_event=0.02,
    blocks_per_idle_stream=0.04,
    bytes_per_idle_stream=0.04,
    blocks_kept_per_event=0.0,
)
#: A stream that goes on may keep a list that grows now and then, and not a block for each event.
_BLOCKS_KEPT_MAX = 0.1
#: Generous: CPU is measured in the same run as the relay's, but it is measured, and calls differ with trio's versions.
CALLS_OVER_RELAY_MAX = 1.5
CPU_OVER_RELAY_MAX = 3.0


class Judged(NamedTuple):
    """A figure and its limit; without a limit it is only told."""

    name: str
    measured: float
    limit: float | None

    @property
    def passed(self) -> bool:
        return self.limit is None or self.measured <= self.limit


def judge(measured: Measured, limits: Mapping[str, float]) -> list[Judged]:
    """Every figure against `limits` (by the names of `Counts`), and the ratios against their own."""
    judged = [Judged(name, value, limits.get(name)) for name, value in measured.hoptrio._asdict().items()]
    calls_ratio = measured.hoptrio.calls_per_paced_event / measured.relay_calls_per_event
    return [
        *judged,
        Judged("calls_per_paced_event_over_relay", calls_ratio, CALLS_OVER_RELAY_MAX),
        Judged("cpu_per_paced_event_over_relay", measured.cpu_over_relay, CPU_OVER_RELAY_MAX),
    ]


def limits_for(python: str, path: Path = LIMITS) -> dict[str, float]:
    """Those of a version such as "3.11"; {} if there are none."""
    tables: dict[str, dict[str, float]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tables.get(python, {})


def written(counts: Counts, python: str, path: Path = LIMITS) -> str:
    """The file's text with the limits of `python` made from `counts`; those of other versions stay."""
    tables: dict[str, dict[str, float]] = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    made = {name: value * (1 + margin) for (name, value), margin in zip(counts._asdict().items(), MARGINS, strict=True)}
    tables[python] = made | {"blocks_kept_per_event": _BLOCKS_KEPT_MAX}
    head = (
        "# The most that hoptrio may cost: written by `python -m bench check --lock`, judged by `make bench-check`.\n"
    )
    parts = [
        f'["{version}"]\n' + "".join(f"{name} = {value:.2f}\n" for name, value in table.items())
        for version, table in sorted(tables.items())
    ]
    return head + "\n" + "\n".join(parts)


@click.command()
@click.option("--lock", is_flag=True, help="Write what is measured now, and a small margin, as the new limits.")
def check(lock: bool) -> None:
    """Count what a stream costs, against the limits that are committed. Exit status 1 if one is exceeded."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    measured = trio.run(count_all)
    if lock:
        LIMITS.write_text(written(measured.hoptrio, python), encoding="utf-8")
    judged = judge(measured, limits_for(python))
    Console().print(_table(judged, python))
    if not all(each.passed for each in judged):
        raise SystemExit(1)


def _table(judged: list[Judged], python: str) -> Table:
    table = Table(title=f"what a stream costs, counted on Python {python}", title_justify="left")
    for column in ("what", "measured", "at most", ""):
        table.add_column(column, justify="left" if column == "what" else "right")
    for each in judged:
        limit = "no limit" if each.limit is None else f"{each.limit:,.2f}"
        verdict = "[green]passed[/green]" if each.passed else "[red]EXCEEDED[/red]"
        table.add_row(each.name.replace("_", " "), f"{each.measured:,.2f}", limit, verdict)
    return table
