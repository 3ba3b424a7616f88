"""A playback: a stream as its client was told it, from the first byte, as far as it has come and on to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from hoptrio import limits
from hoptrio.spool.chunk import GOES_ON
from hoptrio.spool.scribe import read_extent

if TYPE_CHECKING:
    from hoptrio.spool.chunk import About, Chunk, End
    from hoptrio.spool.segments import Extent
    from hoptrio.spool.transcript import Transcript

__all__ = ["Playback", "TranscriptPlayback"]


class Playback(Protocol):
    """One reader's; as many as there are readers."""

    @property
    def about(self) -> About:
        """Whose stream it is."""

    async def read(self) -> bytes | End | None:
        """What comes next: some bytes (up to an event's end wherever the stream itself has come no further), or the
        end. None: the rest is lost. A playback that follows waits for what is still to come; one that does not says
        `chunk.GOES_ON`."""

    async def close(self) -> None:
        """Nothing more will be read."""


class TranscriptPlayback:
    """Of a stream of this process."""

    def __init__(self, transcript: Transcript, *, inline: bool, follow: bool) -> None:
        self._transcript = transcript
        self._inline = inline
        self._follow = follow
        self._offset = 0
        self._extent = 0

    @property
    def about(self) -> About:
        """See `Playback`."""
        return self._transcript.about

    async def read(self) -> bytes | End | None:
        """See `Playback`."""
        transcript = self._transcript
        while True:
            if transcript.lost:
                return None
            if self._offset < transcript.size:
                return await self._next()
            if transcript.over:
                return await self._end()
            if not self._follow:
                return GOES_ON
            await transcript.change()

    async def _next(self) -> bytes | None:
        transcript = self._transcript
        behind = self._offset - transcript.spilled_bytes
        if behind >= 0:
            data = bytes(transcript.buffer[behind : behind + limits.SPOOL_PIECE_BYTES])
            await trio.lowlevel.checkpoint()
        else:
            # What was read from memory may lie in an extent by now.
            while (extent := transcript.extents[self._extent]).offset + extent.data_bytes <= self._offset:
                self._extent += 1
            chunk = await self._read(extent)
            if chunk is None:
                return None
            data = bytes(chunk.data[self._offset - chunk.offset :])
        self._offset += len(data)
        return data

    async def _end(self) -> End | None:
        transcript = self._transcript
        if transcript.end is not None or not transcript.extents:
            return transcript.end
        chunk = await self._read(transcript.extents[-1])
        return None if chunk is None else chunk.end

    async def _read(self, extent: Extent) -> Chunk | None:
        if self._inline or extent.frame is not None:
            await trio.lowlevel.checkpoint()
            return read_extent(extent)
        return await trio.to_thread.run_sync(read_extent, extent)

    async def close(self) -> None:
        """See `Playback`."""
        await trio.lowlevel.checkpoint()
