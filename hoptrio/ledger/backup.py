"""An online backup of the embedded ledger: one file, as of one commit, while gateways go on writing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["backup"]


def backup(source: Path, target: Path) -> None:
    """Copy the database `source` to `target`, which appears whole or not at all, readable by its owner alone.

    Raises FileExistsError, FileNotFoundError for the source, any other OSError, and sqlite3.Error.
    """
    if target.exists():
        raise FileExistsError(f"{target} exists; it is left as it is")
    if not source.exists():
        raise FileNotFoundError(f"there is no {source}")
    partial = target.with_name(f"{target.name}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        _copy(source, partial)
        os.link(partial, target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=limits.HOLD_S)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        # All pages in one step, from one read transaction: in WAL mode no writer waits for it or makes it begin again.
        reading.backup(writing)
        # One file, without the write-ahead log that it was copied with.
        writing.execute("PRAGMA journal_mode = DELETE")
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
