"""The parts of pages that are made of the code, and so cannot say anything else. `python -m tests.support.pages` writes
them between the markers of their pages; tests hold that this was done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.pages import bounds, commands, config, conversion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DOCS", "PAGES", "made_of", "split"]

DOCS = Path(__file__).resolve().parents[3] / "docs"
BEGIN = "<!-- generated: begin -->\n\n"
END = "\n<!-- generated: end -->\n"
#: What each page has between its markers.
PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands.render,
    "configuration.md": config.render,
    "conversion.md": conversion.render,
    "timeouts.md": bounds.render,
}


def split(page: str) -> tuple[str, str, str]:
    """What stands before, between and behind the markers."""
    before, _, rest = page.partition(BEGIN)
    between, _, behind = rest.partition(END)
    return before, between, behind


def made_of(name: str) -> str:
    """The whole page as it should be. Raises ValueError if it has no markers."""
    page = (DOCS / name).read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        raise ValueError(f"{name} has no markers")
    before, _, behind = split(page)
    return before + BEGIN + PAGES[name]() + END + behind
