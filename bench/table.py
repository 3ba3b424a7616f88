"""The terminal's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table

from bench.rows import COLUMNS, rows
from bench.targets import judge

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.result import Results, ScenarioResults

__all__ = ["absences", "scenario_table", "targets_table"]

#: What fits a terminal; the report has all columns.
_SHOWN = (0, 1, 2, 3, 5, 6, 7, 8, 13, 14)
_STYLES = {"reached": "green", "missed": "red", "not measured": "dim"}


def scenario_table(results: ScenarioResults) -> RenderableType:
    """One scenario."""
    table = Table(title=f"{results.name}: {results.title}", title_justify="left")
    for at in _SHOWN:
        table.add_column(COLUMNS[at], justify="left" if at in (0, 13, 14) else "right")
    for row in rows(results):
        table.add_row(*(row[at] for at in _SHOWN))
    failed = [f"{name}: {why}" for name, why in results.absent.items() if not why.startswith("not asked")]
    return Group(table, *failed)


def targets_table(results: Results) -> Table:
    """The targets and their verdicts."""
    table = Table(title="targets", title_justify="left")
    for column in ("what", "target", "measured", "verdict"):
        table.add_column(column)
    for judged in judge(results):
        style = _STYLES[judged.verdict]
        table.add_row(judged.name, judged.target, judged.measured, f"[{style}]{judged.verdict}[/{style}]")
    return table


def absences(results: Results) -> list[str]:
    """Who is not there at all, and why."""
    return [f"{each.name} is absent: {each.absent}" for each in results.entrants if each.absent]
