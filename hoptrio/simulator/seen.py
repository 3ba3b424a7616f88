"""Seen: what the provider was asked, kept for tests and for ``GET /_sim/requests``.

It holds what no product log may hold (keys, prompts), so it is bounded, in memory, and of the simulator alone.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Seen", "SeenLog"]

_KEPT_MAX = 1_000
_BODY_BYTES_MAX = 1024 * 1024


class Seen:
    """One request. `outcome` is "open" until the response ended: "ended", "cut", "reset" or "client_gone"."""

    __slots__ = ("_digest", "body", "body_bytes", "headers", "method", "number", "outcome", "over", "target", "writes")

    def __init__(
        self, number: int, method: str, target: str, headers: tuple[tuple[str, str], ...], body: bytes
    ) -> None:
        self.number = number
        self.method = method
        self.target = target
        #: Lower-case names, in the order received.
        self.headers = headers
        #: The body, or b"" if it is larger than 1 MiB.
        self.body = body if len(body) <= _BODY_BYTES_MAX else b""
        self.body_bytes = len(body)
        self._digest = None if self.body else hashlib.sha256(body).hexdigest()
        self.outcome = "open"
        #: Set once nothing more is written, whatever the outcome.
        self.over = trio.Event()
        #: Body writes so far.
        self.writes = 0

    @property
    def body_sha256(self) -> str:
        return self._digest or hashlib.sha256(self.body).hexdigest()

    def header(self, name: str) -> str | None:
        """The first header of this name."""
        return next((value for each, value in self.headers if each == name), None)

    def as_dict(self) -> dict[str, Any]:
        """For ``GET /_sim/requests``; a body that is not text is left out, its hash is not."""
        return {
            "number": self.number,
            "method": self.method,
            "target": self.target,
            "headers": self.headers,
            "body": self.body.decode(errors="replace"),
            "body_bytes": self.body_bytes,
            "body_sha256": self.body_sha256,
            "outcome": self.outcome,
            "writes": self.writes,
        }


class SeenLog:
    """The last requests, oldest first, and the count of all."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: deque[Seen] = deque(maxlen=_KEPT_MAX)

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: int) -> Seen:
        return self._kept[index]

    def add(self, method: str, target: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Seen:
        self.count += 1
        seen = Seen(self.count, method, target, headers, body)
        self._kept.append(seen)
        return seen

    def clear(self) -> None:
        """Forget the requests kept; numbers go on."""
        self._kept.clear()

    def as_dict(self) -> dict[str, Any]:
        return {"count": self.count, "requests": [seen.as_dict() for seen in self._kept]}
