"""The blocks of every page that people read (docs/ and the top of the repository), and the code within its lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.pages import PAGES, split

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ROOT", "Block", "blocks_of", "code_of", "pages", "prose_of", "text_of"]

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)$")


class Block(NamedTuple):
    """A fenced block: its page, the line of its fence, its language and its text without the indent."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'no language'})"


def pages() -> list[str]:
    """The pages of the site, as paths from the top of the repository."""
    top = [path.name for path in ROOT.glob("*.md")]
    return sorted([*top, *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))])


def text_of(page: str) -> str:
    """What people wrote on a page; what is generated there has a test of its own, and is left out."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.removeprefix("docs/") not in PAGES:
        return text
    before, between, behind = split(text)
    # As many lines as there were, so that places stay right.
    return before + "\n" * (text.count("\n") - before.count("\n") - behind.count("\n")) + behind if between else text


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order. Raises ValueError for a fence that is not closed or not understood."""
    found, opened, lines = [], None, list[str]()
    for number, line in enumerate(text_of(page).splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            if "```" in line or line.lstrip().startswith("~~~"):
                raise ValueError(f"{page}:{number}: this is no plain fence")
            lines.append(line)
        elif opened is None:
            opened, lines = (number, fence), []
        else:
            start, first = opened
            indent = len(first["indent"])
            text = "".join(f"{each[indent:]}\n" for each in lines)
            found.append(Block(page, start, first["language"], text))
            opened = None
    if opened is not None:
        raise ValueError(f"{page}:{opened[0]}: the fence is not closed")
    return found


def prose_of(page: str) -> str:
    """A page without its blocks."""
    return re.sub(r"^( *)```.*?^ *```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def code_of(page: str) -> Iterator[str]:
    """Code within the lines of a page."""
    for match in re.finditer(r"`([^`]+)`", prose_of(page)):
        yield " ".join(match[1].split())
