"""What a dead process has left: its segments, read by the frames alone.

Only whole streams are told: one whose pieces do not reach from the first byte to the end, since its process was killed
or a segment is gone, is not there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import trio

from hoptrio.spool.chunk import scan
from hoptrio.spool.scribe import read_frame
from hoptrio.spool.segments import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from hoptrio.spool.chunk import About, End, Found

__all__ = ["Left", "LeftPlayback"]


class Piece(NamedTuple):
    """Where a frame lies."""

    path: Path
    found: Found


class Left:
    """The index of one home. All of it may wait for the disk."""

    def __init__(self, home: Path) -> None:
        self._streams: dict[str, list[Piece]] = {}
        #: Request id by (account, name).
        self._named: dict[tuple[str, str], str] = {}
        for path in sorted(home.glob(f"*{SUFFIX}")):
            with suppress(OSError):
                self._index(path)

    def _index(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            for found in scan(lambda position, size: os.pread(descriptor, size, position)):
                if found.position + found.size > size:
                    return
                about = found.about
                self._streams.setdefault(about.request_id, []).append(Piece(path, found))
                if found.name:
                    self._named[about.account_id, found.name] = about.request_id
        finally:
            os.close(descriptor)

    def find(self, account_id: str, name: str, since_ms: int) -> LeftPlayback | None:
        """A stream of this account that ended after `since_ms`, by its request id or its name, if all of it is here."""
        pieces = self._streams.get(name) or self._streams.get(self._named.get((account_id, name), ""))
        if not pieces or pieces[0].found.about.account_id != account_id or pieces[-1].found.ended_at_ms <= since_ms:
            return None
        expected = 0
        for _, found in pieces:
            if found.offset != expected:
                return None
            expected += found.data_bytes
        return LeftPlayback(pieces)


class LeftPlayback:
    """`playback.Playback` over files."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces
        self._next = 0
        self._end: End | None = None

    @property
    def about(self) -> About:
        """See `Playback`."""
        return self._pieces[0].found.about

    async def read(self) -> bytes | End | None:
        """See `Playback`."""
        if self._next == len(self._pieces):
            await trio.lowlevel.checkpoint()
            return self._end
        path, found = self._pieces[self._next]
        chunk = await trio.to_thread.run_sync(read_frame, path, found.position, found.size)
        if chunk is None or chunk.about != found.about or chunk.offset != found.offset:
            return None
        self._next += 1
        self._end = chunk.end
        return bytes(chunk.data)

    async def close(self) -> None:
        """See `Playback`."""
        await trio.lowlevel.checkpoint()
