"""Tables of Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["head", "line"]


def head(*cells: object) -> Iterator[str]:
    """The first two lines of a table."""
    yield line(*cells)
    yield "|" + "---|" * len(cells)


def line(*cells: object) -> str:
    """A row; a bar in a cell is no border."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
