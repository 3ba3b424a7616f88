"""Where a JSON object ends that comes in pieces. Pure, linear: no character is looked at twice."""

from __future__ import annotations

import re

__all__ = ["JsonEnd"]

#: Behind a string's opening quote, to the closing one or as far as the piece goes.
_IN_STRING = re.compile(r'(?:[^"\\]++|\\.)*+("?)(\\?)', re.DOTALL)
_OUTSIDE = re.compile(r'[^"{}\[\]]*+(["{}\[\]]?)')


class JsonEnd:
    """Scans the pieces of one text that is to become an object."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_pieces", "_reached")

    def __init__(self) -> None:
        #: Pieces scanned so far.
        self._pieces = 0
        self._depth = 0
        self._in_string = False
        #: The last piece ended with a backslash inside a string.
        self._escaped = False
        self._reached = False

    def reached(self, pieces: list[str]) -> bool:
        """Whether the object that `pieces` began is complete. `pieces` only ever grows at its end."""
        while self._pieces < len(pieces) and not self._reached:
            self._scan(pieces[self._pieces])
            self._pieces += 1
        return self._reached

    def _scan(self, piece: str) -> None:
        at = 0
        while at < len(piece) and not self._reached:
            at = self._scan_string(piece, at) if self._in_string else self._scan_outside(piece, at)

    def _scan_string(self, piece: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        match = _IN_STRING.match(piece, at)
        if match is None:
            return len(piece)
        self._in_string = not match[1]
        self._escaped = bool(match[2]) and self._in_string
        return match.end() if match[1] else len(piece)

    def _scan_outside(self, piece: str, at: int) -> int:
        match = _OUTSIDE.match(piece, at)
        if match is None:
            return len(piece)
        sign = match[1]
        if sign == '"':
            self._in_string = True
        elif sign:
            self._depth += 1 if sign in "{[" else -1
            self._reached = self._depth <= 0
        return match.end()
