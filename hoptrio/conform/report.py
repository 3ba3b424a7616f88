"""Report: the rows of a run as a value for programs, a table for terminals, and a page of Markdown. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.books import ACCOUNTS
from hoptrio.conform.cases import CASES, UNSEEN
from hoptrio.conform.run import ACCOUNT, Row
from hoptrio.conform.verdict import Finding, Verdict, worst
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from hoptrio.conform.books import AccountCase
    from hoptrio.conform.case import Case
    from hoptrio.conform.settings import Settings

__all__ = ["SECTIONS", "Report", "as_dict", "as_markdown", "as_table", "aside", "findings", "has_failed", "summary"]

_COLUMNS = tuple(Protocol)
#: What is listed behind the table.
SECTIONS = {"Fails": Verdict.FAIL, "Policy": Verdict.POLICY, "Worth a note": Verdict.PASS}
_STYLES = {Verdict.PASS: "green", Verdict.POLICY: "yellow", Verdict.FAIL: "bold red"}
_NOTHING = "·"
#: Verdicts that are longer than a terminal is wide.
_MARKS = {Verdict.NOT_SERVED: "-", Verdict.NOT_REACHABLE: "?"}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `gateway`: its name, as the caller gave it."""

    gateway: str
    settings: Settings
    rows: tuple[Row, ...]
    #: Protocols that no stream passes in, and why.
    refused: dict[str, str]
    #: Numbers of cases that take longer than was allowed.
    left_out: tuple[int, ...]


def has_failed(report: Report) -> bool:
    """Whether any case fails, on the wire or in the books."""
    return any(Verdict.FAIL in (row.verdict, row.money) for row in report.rows)


def summary(report: Report) -> str:
    """The verdicts, counted over cases and protocols, in one line."""
    wire = Counter(row.verdict for row in report.rows if row.protocol != ACCOUNT)
    money = Counter(row.money for row in report.rows if row.money is not None)
    return f"wire: {_counted(wire)}; money: {_counted(money)}"


def _counted(counts: Counter[Verdict]) -> str:
    return ", ".join(f"{counts[each]} {each.value}" for each in Verdict if counts[each]) or "nothing"


def as_dict(report: Report) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "gateway": report.gateway,
        "settings": msgspec.to_builtins(report.settings),
        "passed": not has_failed(report),
        "summary": summary(report),
        "cases": [case.as_dict() | {"rows": [_row(row) for row in rows]} for case, rows in _by_case(report)],
        "not_served": report.refused,
        "left_out": list(report.left_out),
        "unseen": [{"number": each.number, "name": each.name, "why": each.why} for each in UNSEEN],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "protocol": row.protocol,
        "verdict": row.verdict.value,
        "money": row.money.value if row.money is not None else None,
        "findings": [{"verdict": each.verdict.value, "words": each.words} for each in row.findings],
    }


def _by_case(report: Report) -> Iterator[tuple[Case | AccountCase, list[Row]]]:
    """Cases that were tried, by number, each with its rows."""
    cases: list[Case | AccountCase] = [*CASES, *ACCOUNTS]
    for case in sorted(cases, key=lambda each: each.number):
        rows = [row for row in report.rows if row.number == case.number]
        if rows:
            yield case, sorted(rows, key=lambda row: [*_COLUMNS, ACCOUNT].index(row.protocol))


def _cells(rows: list[Row]) -> list[Verdict | None]:
    """A verdict for each protocol, and one for the money; None: it does not apply."""
    found: dict[str, Verdict] = {row.protocol: row.verdict for row in rows}
    money = [row.money for row in rows if row.money is not None]
    return [*(found.get(protocol) for protocol in _COLUMNS), worst(money) if money else None]


def as_table(report: Report) -> Table:
    """What a terminal shows."""
    from rich.table import Table

    caption = f"{_NOTHING} does not apply   - not served   ? not reachable"
    table = Table(title=report.gateway, title_justify="left", caption=caption, caption_justify="left", box=None)
    table.add_column("case", justify="right", min_width=4)
    table.add_column("")
    for column in (*_COLUMNS, "money"):
        table.add_column(column, no_wrap=True, min_width=len(column))
    for case, rows in _by_case(report):
        table.add_row(str(case.number), case.name, *map(_shown, _cells(rows)))
    return table


def _shown(cell: Verdict | None) -> Text:
    from rich.text import Text

    if cell is None:
        return Text(_NOTHING, "dim")
    return Text(_MARKS.get(cell, cell.value), _STYLES.get(cell, "dim"))


def findings(report: Report, verdict: Verdict) -> list[str]:
    """A line for each thing that was found to be `verdict`, with where."""
    told: dict[str, list[str]] = {}
    for case, rows in _by_case(report):
        for words in dict.fromkeys(each.words for row in rows for each in row.findings if each.verdict is verdict):
            where = [row.protocol for row in rows if Finding(verdict, words) in row.findings]
            told.setdefault(words, []).append(f"{case.number} {case.name} ({', '.join(where)})")
    return [f"{words}: {'; '.join(where)}" for words, where in told.items()]


def aside(report: Report) -> dict[str, list[str]]:
    """What was not tried, by why: a title and its lines."""
    told = {"Not served": [f"{protocol}: {why}" for protocol, why in report.refused.items()]}
    if report.left_out:
        told["Left out, since they take longer"] = [", ".join(map(str, report.left_out))]
    return {title: lines for title, lines in told.items() if lines}


def as_markdown(report: Report) -> str:
    """The page."""
    settings = report.settings
    lines = [
        f"# Conformance: {report.gateway}",
        "",
        f"Keep-alives every {settings.keepalive_s:g} s, stalls after {settings.stall_s:g} s, deadline"
        f" {settings.deadline_s:g} s. Verdicts over cases and protocols: {summary(report)}.",
        "",
        "| case | fault | what is right | chat | responses | messages | gemini | money |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case, rows in _by_case(report):
        cells = " | ".join(_marked(cell) for cell in _cells(rows))
        lines.append(f"| {case.number} | {case.name} | {case.right} | {cells} |")
    for title, verdict in SECTIONS.items():
        lines += _section(title, findings(report, verdict))
    for title, told in aside(report).items():
        lines += _section(title, told)
    lines += _section("Not to be seen from outside", [f"{each.number} {each.name}: {each.why}" for each in UNSEEN])
    return "\n".join(lines) + "\n"


def _marked(cell: Verdict | None) -> str:
    if cell is None:
        return ""
    return f"**{cell.value}**" if cell is Verdict.FAIL else cell.value


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"* {line}" for line in lines)] if lines else []
