"""What is wrong in a config, and where. A message names keys, variables and paths, never the value of a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ConfigError", "Key", "Problem", "Report", "dotted"]

#: A key as a path: table names, key names, and the index of an array's item.
Key: TypeAlias = "tuple[str | int, ...]"

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def dotted(key: Key) -> str:
    """Write a key as TOML does: ``("models", "gpt-5.6", "input")`` -> ``models."gpt-5.6".input``."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, or one thing that works and is advised against. `line` is 0 where there is no file."""

    file: str
    key: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)


class ConfigError(Exception):
    """The config cannot be used; `problems` are all the reasons, in the order of the file."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Report:
    """Collects what is found while a config is read. One mistake is told once: a later problem about the same key, or
    about one above or below it, is a consequence and is dropped."""

    def __init__(self, file: str, lines: Mapping[Key, int]) -> None:
        self._file = file
        self._lines = lines
        self._errors: dict[Key, Problem] = {}
        self._warnings: list[Problem] = []

    def error(self, key: Key, message: str) -> None:
        """The config cannot be used."""
        below = any(known[: len(key)] == key for known in self._errors)
        if not below and not self.knows(key):
            self._errors[key] = self._problem(key, message)

    def warn(self, key: Key, message: str) -> None:
        """The config works, and is advised against."""
        self._warnings.append(self._problem(key, message))

    def knows(self, key: Key) -> bool:
        """An error about this key, or about one above it, was reported: its value is a default and says nothing."""
        return any(key[: len(known)] == known for known in self._errors)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Every error, in the order of the file."""
        return tuple(sorted(self._errors.values(), key=lambda problem: problem.line))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Every warning, in the order of the file."""
        return tuple(sorted(self._warnings, key=lambda problem: problem.line))

    def _problem(self, key: Key, message: str) -> Problem:
        return Problem(self._file, dotted(key), self._line(key), message)

    def _line(self, key: Key) -> int:
        """The line of the key, or of the table that lacks it. One that only has tables in it begins with the first."""
        for n in range(len(key), 0, -1):
            within = [line for known, line in self._lines.items() if known[:n] == key[:n]]
            if within:
                return self._lines.get(key[:n], min(within))
        return 0
