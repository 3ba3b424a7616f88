"""The schema as numbered SQL files, one folder per engine; `table schema_version` says which were applied."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

__all__ = ["Version", "versions"]


class Version(NamedTuple):
    """One file: its number and its statements."""

    number: int
    sql: str


def versions(engine: str) -> list[Version]:
    """The files of `engine` (a folder beside this module) in order: ``0001.sql``, ``0002.sql``, ..."""
    folder = files(__name__) / engine
    found = [Version(int(file.name[:4]), file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql")]
    return sorted(found)
