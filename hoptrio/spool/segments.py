"""Segments: the spool on disk, as a log of files that only grow and go as a whole.

One file for each stream would cost an open, a close and an unlink a stream; here a stream costs a share of a write. A
segment goes when the last stream in it has expired, or, the oldest first, when the cap is reached: a stream that had a
part in it is lost then. Nothing is synced: the spool owes nobody what a power cut takes.

Positions are reckoned here, on the event loop; the writing is a `scribe`'s, which may do it later. Until it has, an
extent holds its frame in memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hoptrio.spool.chunk import Frame
    from hoptrio.spool.scribe import AnyScribe

__all__ = ["SUFFIX", "Extent", "Segment", "Segments"]

SUFFIX = ".seg"


class Segment:
    """One file. `gone`: taken away, or its disk failed."""

    __slots__ = ("bytes", "full", "gone", "path", "pins", "since_ms", "until_ms")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = 0
        self.gone = False
        #: Nothing more is written to it.
        self.full = False
        #: When it was first looked at.
        self.since_ms = 0
        #: Streams with a part in it that have not ended.
        self.pins = 0
        #: When the last of those that have ended expires.
        self.until_ms = 0


class Extent:
    """Where one chunk lies. `frame` is there until it is written; whoever reads takes it once, into a local name."""

    __slots__ = ("data_bytes", "frame", "offset", "position", "segment", "size")

    def __init__(self, segment: Segment, position: int, frame: Frame) -> None:
        self.segment = segment
        self.position = position
        self.size = frame.size
        #: Of what the client was told, and how much of that.
        self.offset = frame.chunk.offset
        self.data_bytes = len(frame.chunk.data)
        self.frame: Frame | None = frame


class Segments:
    """The log of this process, in `directory`. Belongs to the event loop."""

    def __init__(self, directory: Path, scribe: AnyScribe, *, bytes_max: int) -> None:
        self._directory = directory
        self._scribe = scribe
        self._segments: deque[Segment] = deque()
        #: The one that is written to; one before it never is again.
        self._current: Segment | None = None
        self._made = 0
        #: Placed, and not given to the scribe yet.
        self._pending: list[Extent] = []
        self._pending_bytes = 0
        #: In all files.
        self.bytes = 0
        self.limit(bytes_max)

    def limit(self, bytes_max: int) -> None:
        """Keep within this from now on."""
        self.bytes_max = bytes_max
        pieces = max(bytes_max // 16, limits.SPOOL_PIECE_BYTES)
        self._segment_bytes = min(limits.SPOOL_SEGMENT_BYTES_MAX, pieces, bytes_max)
        self._make_room(0)

    def append(self, frames: Sequence[Frame]) -> list[Extent | None]:
        """Write frames behind each other, soon. None for one that finds no room: it is larger than the whole cap, or
        the disk does not keep up."""
        placed: list[Extent | None] = []
        for frame in frames:
            if frame.size > self.bytes_max or self._scribe.queued_bytes > limits.SPOOL_QUEUE_BYTES_MAX:
                placed.append(None)
                continue
            segment = self._with_room(frame.size)
            extent = Extent(segment, segment.bytes, frame)
            placed.append(extent)
            self._pending.append(extent)
            self._pending_bytes += frame.size
            segment.bytes += frame.size
            self.bytes += frame.size
        if self._pending_bytes >= limits.SPOOL_WRITE_BYTES:
            self.flush()
        return placed

    def flush(self) -> None:
        """Write what has been appended."""
        if self._pending:
            self._scribe.write(self._pending)
            self._pending, self._pending_bytes = [], 0

    def _with_room(self, size: int) -> Segment:
        current = self._current
        if current is None or current.gone or current.full or current.bytes + size > max(self._segment_bytes, size):
            self._made += 1
            current = Segment(self._directory / f"{self._made:06}{SUFFIX}")
            self._segments.append(current)
            self._current = current
        self._make_room(size)
        return current

    def _make_room(self, size: int) -> None:
        while self.bytes + size > self.bytes_max and self._segments:
            self._remove(self._segments[0])

    def clear(self) -> None:
        """All files are gone, or are to go."""
        for segment in list(self._segments):
            self._remove(segment)

    def expire(self, now_ms: int) -> None:
        """Take away what nobody may ask for any more; and begin a new file now and then, or a stream would lie on the
        disk for as long as its file takes to fill."""
        for segment in list(self._segments):
            segment.since_ms = segment.since_ms or now_ms
            segment.full = now_ms - segment.since_ms >= limits.SPOOL_SEGMENT_MS
            if not segment.pins and segment.until_ms <= now_ms:
                self._remove(segment)

    def _remove(self, segment: Segment) -> None:
        self.flush()
        self._segments.remove(segment)
        self.bytes -= segment.bytes
        segment.gone = True
        if segment is self._current:
            self._current = None
        self._scribe.remove(segment)

    def close(self, now_ms: int) -> None:
        """Nothing is appended any more; what nobody may ask for goes."""
        for segment in list(self._segments):
            if segment.until_ms <= now_ms:
                self._remove(segment)
