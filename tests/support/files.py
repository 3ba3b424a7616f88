"""What is on disk while its owners still write and remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bytes_on_disk"]


def bytes_on_disk(directory: Path, pattern: str = "*.seg") -> int:
    """Bytes of all files that match; one that is removed between the listing and the look at it has none."""
    return sum(_size_bytes(file) for file in directory.glob(pattern))


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
