"""The scribe: whoever writes segments. In a thread of its own, so that a slow disk holds up no stream; inline for tests
in virtual time. Both have the same methods, and `read_extent` reads what either has written.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

import structlog
import trio

from hoptrio.spool.chunk import decode
from hoptrio.spool.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hoptrio.spool.chunk import Chunk
    from hoptrio.spool.segments import Extent

__all__ = ["AnyScribe", "InlineScribe", "ThreadScribe", "read_extent", "read_frame"]

log = structlog.get_logger("hoptrio.spool")

#: Of one writev; Linux takes 1,024.
_PARTS_MAX = 1024


class AnyScribe(Protocol):
    """Either."""

    #: True: reads are made on the event loop, too.
    inline: bool

    @property
    def queued_bytes(self) -> int:
        """What waits to be written."""

    def write(self, extents: Sequence[Extent]) -> None:
        """Append the frames of extents that follow each other."""

    def remove(self, segment: Segment) -> None:
        """Take a file away."""

    async def close(self) -> None:
        """Everything that was asked for has been done when it returns."""


class InlineScribe:
    """On the loop."""

    inline = True
    queued_bytes = 0

    def __init__(self) -> None:
        self._disk = _Disk()

    def write(self, extents: Sequence[Extent]) -> None:
        self._disk.write(extents)

    def remove(self, segment: Segment) -> None:
        self._disk.remove(segment)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self._disk.close()


class ThreadScribe:
    """`_run` belongs to the thread, the rest to the event loop."""

    inline = False

    def __init__(self) -> None:
        self._disk = _Disk()
        self._inbox: queue.SimpleQueue[Sequence[Extent] | Segment | None] = queue.SimpleQueue()
        #: Each has one writer, so neither needs a lock.
        self._asked_bytes = 0
        self._done_bytes = 0
        # A daemon: a disk that hangs must not keep a process from exiting.
        self._thread = threading.Thread(target=self._run, name="hoptrio-spool", daemon=True)
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        return self._asked_bytes - self._done_bytes

    def write(self, extents: Sequence[Extent]) -> None:
        self._asked_bytes += sum(extent.size for extent in extents)
        self._inbox.put(extents)

    def remove(self, segment: Segment) -> None:
        self._inbox.put(segment)

    async def close(self) -> None:
        self._inbox.put(None)
        await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    def _run(self) -> None:
        while (work := self._inbox.get()) is not None:
            if isinstance(work, Segment):
                self._disk.remove(work)
            else:
                size = sum(extent.size for extent in work)
                self._disk.write(work)
                self._done_bytes += size
        self._disk.close()


class _Disk:
    """Writes one file at a time; what fails is told once, and its segment is gone."""

    def __init__(self) -> None:
        self._open: Segment | None = None
        self._descriptor = -1
        self._failing = False

    def write(self, extents: Sequence[Extent]) -> None:
        for segment, group in groupby(extents, key=lambda extent: extent.segment):
            together = list(group)
            frames = [extent.frame for extent in together if extent.frame is not None]
            try:
                self._append(segment, [part for frame in frames for part in frame.parts() if part])
                self._failing = False
            except OSError as error:
                # Where in the file the next frame would land is not known any more.
                segment.gone = True
                if not self._failing:
                    log.error("the spool cannot be written: streams of now are lost", error=error.strerror)
                self._failing = True
            for extent in together:
                extent.frame = None

    def _append(self, segment: Segment, parts: list[bytes | bytearray]) -> None:
        if segment.gone:
            return
        if self._open is not segment:
            self.close()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                self._descriptor = os.open(segment.path, flags, 0o600)
            except FileNotFoundError:
                # Somebody has cleared up.
                segment.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._descriptor = os.open(segment.path, flags, 0o600)
            self._open = segment
        for start in range(0, len(parts), _PARTS_MAX):
            self._write(parts[start : start + _PARTS_MAX])

    def _write(self, parts: list[bytes | bytearray]) -> None:
        written = os.writev(self._descriptor, parts)
        if written < sum(map(len, parts)):
            view = memoryview(b"".join(parts))[written:]
            while view:
                view = view[os.write(self._descriptor, view) :]

    def remove(self, segment: Segment) -> None:
        if self._open is segment:
            self.close()
        with suppress(OSError):
            segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._open is not None:
            os.close(self._descriptor)
            self._open = None


def read_extent(extent: Extent) -> Chunk | None:
    """The chunk that lies there; None if it is gone."""
    frame = extent.frame
    if frame is not None:
        return frame.chunk
    return None if extent.segment.gone else read_frame(extent.segment.path, extent.position, extent.size)


def read_frame(path: Path, position: int, size: int) -> Chunk | None:
    """The chunk in a file; None if it is not there, or damaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return decode(os.pread(descriptor, size, position))
    except OSError:
        return None
    finally:
        os.close(descriptor)
