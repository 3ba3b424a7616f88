"""The sessions that are open, in memory that all processes of the server share: who logs out is out everywhere.

A fixed number of places, each with a digest of a session's id and its end. One that is full gives the place that ends
first to the newest. Places are taken without a lock, which a process that hangs would keep: two that take the same one
at the same moment cost one person another login.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import time
from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Sessions"]

#: A digest, and until when in seconds since 1970; 0 = the place is free.
_PLACE = struct.Struct("<16sd")


class Sessions:
    """Those in `memory`, which is as large as it is."""

    def __init__(self, memory: memoryview, *, now: Callable[[], float] = time.time) -> None:
        self._memory = memory
        self._now = now

    def open(self, session_id: str) -> None:
        """It lasts for `limits.SESSION_S`."""
        now_s = self._now()
        ends = [(until_s if until_s > now_s else 0.0, at) for at, _, until_s in self._places()]
        first_s = min(until_s for until_s, _ in ends)
        # Any of the free ones, so that two processes seldom mean the same.
        at = secrets.choice([at for until_s, at in ends if until_s == first_s])
        _PLACE.pack_into(self._memory, at, _digest(session_id), now_s + limits.SESSION_S)

    def is_open(self, session_id: str) -> bool:
        """It was opened, has not ended and was not closed."""
        digest, now_s = _digest(session_id), self._now()
        return any(until_s > now_s for _, each, until_s in self._places() if each == digest)

    def close(self, session_id: str) -> None:
        """It is over, for every process."""
        digest = _digest(session_id)
        for at, each, _ in self._places():
            if each == digest:
                _PLACE.pack_into(self._memory, at, bytes(16), 0.0)

    def _places(self) -> list[tuple[int, bytes, float]]:
        """(Where it is, digest, until when)."""
        places = _PLACE.iter_unpack(self._memory[: len(self._memory) // _PLACE.size * _PLACE.size])
        return [(number * _PLACE.size, digest, until_s) for number, (digest, until_s) in enumerate(places)]


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()[:16]
