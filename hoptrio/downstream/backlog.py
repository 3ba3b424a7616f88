"""Backlog: how many bytes wait for clients, for one stream and for the whole process.

A stream's own bound is `limits.BACKLOG_BYTES_MAX`. One event or body larger than that is admitted to an empty backlog,
and what follows it has the usual room, so a large image and the end behind it still reach a client that keeps up. When
the process total is full the largest backlog goes first: the client that lags most has left, and every other one is
untouched (contract, rule 3).
"""

from __future__ import annotations

from typing import Protocol as Interface

from hoptrio import limits

__all__ = ["BacklogTotal", "Lagging", "backlog_bytes_max"]


class Lagging(Interface):
    """Whose bytes wait."""

    def leave(self) -> None:
        """Drop the backlog (which calls `BacklogTotal.remove`) and treat the client as gone."""


def backlog_bytes_max(first_bytes: int) -> int:
    """The bound of one stream's backlog until it is empty again, given the size of the write that began it."""
    large = first_bytes > limits.BACKLOG_BYTES_MAX
    return first_bytes + limits.BACKLOG_BYTES_MAX if large else limits.BACKLOG_BYTES_MAX


class BacklogTotal:
    """The backlogs of one process. Each writer reports its own changes; a writer without a backlog is not in here."""

    __slots__ = ("_waiting", "bytes", "bytes_max")

    def __init__(self, bytes_max: int = limits.BACKLOG_TOTAL_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        #: Bytes waiting for all clients together.
        self.bytes = 0
        self._waiting: dict[Lagging, int] = {}

    def add(self, owner: Lagging, size: int) -> None:
        """`owner` queued `size` bytes. While the total is exceeded the largest backlog is told to leave: it may be the
        owner itself. The last one stays, so that a large event always has a place."""
        self._waiting[owner] = self._waiting.get(owner, 0) + size
        self.bytes += size
        while self.bytes > self.bytes_max and len(self._waiting) > 1:
            max(self._waiting, key=self._waiting.__getitem__).leave()

    def remove(self, owner: Lagging, size: int) -> None:
        """`size` queued bytes of `owner` were delivered or dropped."""
        if size == 0:
            return
        self.bytes -= size
        left = self._waiting[owner] - size
        if left:
            self._waiting[owner] = left
        else:
            del self._waiting[owner]
