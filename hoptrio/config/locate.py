"""On which line does a key stand? tomllib tells values and no places, so this walks the same text once more.

It only ever sees text that tomllib has accepted, and therefore checks nothing: it knows just enough of TOML 1.0 to tell
where strings, arrays and inline tables begin and end. It must never raise for valid TOML.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.config.problem import Key

__all__ = ["locate"]

#: White space, line ends and comments: what may stand between two tokens of an array or two statements.
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")'
    r"|'''.*?'''(?!')"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


def locate(text: str) -> dict[Key, int]:
    """Map every key, table header and array item of valid TOML `text` to its line, counted from 1."""
    return dict(_Walk(text).statements())


class _Walk:
    """One pass over the text; `_at` is the only state that moves."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted_to = 0
        self._line = 1
        self._array_tables: dict[Key, int] = {}

    def statements(self) -> Iterator[tuple[Key, int]]:
        table: Key = ()
        while self._peek():
            line = self._line_here()
            if self._peek() == "[":
                table = self._header()
                yield table, line
            else:
                yield from self._pair(table)

    def _header(self) -> Key:
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        self._peek()
        key = self._key()
        self._at += brackets
        if brackets == 2:
            self._array_tables[key] = self._array_tables.get(key, -1) + 1
        return self._indexed(key)

    def _indexed(self, key: Key) -> Key:
        """A header below an array of tables speaks of the array's newest item."""
        full: Key = ()
        for n, part in enumerate(key, start=1):
            full = (*full, part)
            if key[:n] in self._array_tables:
                full = (*full, self._array_tables[key[:n]])
        return full

    def _pair(self, above: Key) -> Iterator[tuple[Key, int]]:
        line = self._line_here()
        key = self._key()
        for n in range(1, len(key) + 1):
            yield above + key[:n], line
        self._at += 1  # the equals sign
        self._peek()
        yield from self._value(above + key)

    def _key(self) -> Key:
        """A key, bare, quoted or dotted, and the white space behind it."""
        parts: list[str] = []
        while True:
            if self._text[self._at] in "\"'":
                parts.append(tomllib.loads(f"x = {self._take(_STRING)}")["x"])
            else:
                parts.append(self._take(_BARE_KEY))
            if self._peek() != ".":
                return tuple(parts)
            self._at += 1
            self._peek()

    def _value(self, key: Key) -> Iterator[tuple[Key, int]]:
        first = self._text[self._at]
        if first == "[":
            yield from self._array(key)
        elif first == "{":
            yield from self._inline_table(key)
        else:
            self._take(_STRING if first in "\"'" else _SCALAR)

    def _array(self, key: Key) -> Iterator[tuple[Key, int]]:
        self._at += 1
        index = 0
        while self._peek() != "]":
            yield (*key, index), self._line_here()
            yield from self._value((*key, index))
            index += 1
            if self._peek() == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, key: Key) -> Iterator[tuple[Key, int]]:
        self._at += 1
        while self._peek() != "}":
            yield from self._pair(key)
            if self._peek() == ",":
                self._at += 1
        self._at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return found.group()

    def _peek(self) -> str:
        """Skip what stands between tokens; the next character, "" at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
