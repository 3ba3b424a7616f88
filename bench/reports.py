"""``python -m bench.reports``: the table of docs/conformance.md, made of the reports in docs/conformance."""

from __future__ import annotations

import re
from pathlib import Path

import click

from hoptrio.conform.verdict import Verdict

__all__ = ["REPORTS", "read_report", "table"]

REPORTS = Path(__file__).resolve().parent.parent / "docs" / "conformance"
_COLUMNS = ("chat", "responses", "messages", "gemini", "money")
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.*) \|$", re.MULTILINE)


def read_report(path: Path) -> dict[int, tuple[str, str, dict[str, Verdict]]]:
    """By case: its name, what is right, and the verdicts by column."""
    found = {}
    for number, name, right, rest in _ROW.findall(path.read_text(encoding="utf-8")):
        cells = zip(_COLUMNS, (cell.strip(" *") for cell in rest.split("|")), strict=True)
        found[int(number)] = (name, right, {column: Verdict(cell) for column, cell in cells if cell})
    return found


def table() -> str:
    """A row a case, a column a gateway: one verdict where it is the same everywhere, else all but the passes."""
    ours, theirs = read_report(REPORTS / "hoptrio.md"), read_report(REPORTS / "litellm.md")
    lines = ["| case | about | hoptrio | LiteLLM |", "|---|---|---|---|"]
    for number, (name, _, verdicts) in ours.items():
        others = theirs[number][2] if number in theirs else {}
        lines.append(f"| {number} | {name} | {_told(verdicts)} | {_told(others)} |")
    return "\n".join(lines)


def _told(verdicts: dict[str, Verdict]) -> str:
    wire = {column: verdict for column, verdict in verdicts.items() if verdict is not Verdict.NOT_REACHABLE}
    if not wire:
        return Verdict.NOT_REACHABLE.value if verdicts else ""
    if len(set(wire.values())) == 1:
        return next(iter(wire.values())).value
    order = sorted(set(wire.values()) - {Verdict.PASS}, key=list(Verdict).index, reverse=True)
    groups = {verdict: [column for column, each in wire.items() if each is verdict] for verdict in order}
    return "; ".join(f"{verdict.value}: {', '.join(columns)}" for verdict, columns in groups.items())


if __name__ == "__main__":
    click.echo(table())
