"""The list of all bounds, made of hoptrio/limits.py: each with its value, and the comment that says why."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hoptrio import limits
from tests.support.pages.table import head, line

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["render"]

_SECTION = re.compile(r"# -- (?P<title>.+?) -+")
_BOUND = re.compile(r"(?P<name>[A-Z][A-Z0-9_]+) = ")
#: Names of units that are no bounds.
_UNITS = ("KIB", "MIB")


@dataclass
class Group:
    """Bounds that have one comment."""

    why: list[str]
    names: list[str] = field(default_factory=list)

    def row(self) -> str:
        """A line of the table."""
        names, values = ("<br>".join(map(form, self.names)) for form in (lambda name: f"`{name}`", _value))
        return line(names, values, " ".join(self.why))


def render() -> str:
    """A section for each of the module's."""
    lines: list[str] = []
    for section, groups in _sections():
        lines += ["", f"### {section[0].upper()}{section[1:]}", "", *head("bound", "value", "why")]
        lines += [group.row() for group in groups]
    return "\n".join([*lines[1:], ""])


def _sections() -> Iterator[tuple[str, list[Group]]]:
    title, groups = "", list[Group]()
    for text in Path(limits.__file__).read_text(encoding="utf-8").splitlines():
        if section := _SECTION.fullmatch(text):
            if groups:
                yield title, groups
            title, groups = section["title"], []
        elif text.startswith("#: "):
            if not groups or groups[-1].names:
                groups.append(Group([]))
            groups[-1].why.append(text[3:])
        elif (bound := _BOUND.match(text)) and bound["name"] not in _UNITS:
            groups[-1].names.append(bound["name"])
    yield title, groups


def _value(name: str) -> str:
    value = getattr(limits, name)
    if "BYTES" in name:
        return _bytes(value)
    if name.endswith("_MS"):
        return _time(value / 1000)
    if name.endswith("_S"):
        return _time(value)
    return f"{value:,}"


def _bytes(count: int) -> str:
    for unit, size in (("MiB", limits.MIB), ("KiB", limits.KIB)):
        if count >= size and count % size == 0:
            return f"{count // size:,} {unit}"
    return f"{count:,} B"


def _time(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:g} s" if seconds >= 0.1 else f"{seconds * 1000:g} ms"
