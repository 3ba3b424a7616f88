"""The spool of one process: the transcripts of its streams, by what clients know them by, within every cap.

A transcript grows in memory up to `limits.SPOOL_PIECE_BYTES`, then in segments. One that has ended is written out
within `limits.SPOOL_TICK_S`, so that a kill takes at most what was told since, and expires `kept_s` after its end. What
is beyond a cap is lost, and said to be lost: a part of a stream is never told as if it were all of it.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.spool.chunk import Chunk, Frame
from hoptrio.spool.playback import TranscriptPlayback
from hoptrio.spool.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.spool.chunk import About
    from hoptrio.spool.scribe import AnyScribe
    from hoptrio.spool.segments import Extent, Segments

__all__ = ["Caps", "Spool"]


class Caps:
    """What may be kept, and how long; a reload may change it for streams that begin or end later."""

    __slots__ = ("kept_s", "memory_bytes_max", "stream_bytes_max")

    def __init__(
        self, *, kept_s: float, stream_bytes_max: int, memory_bytes_max: int = limits.SPOOL_MEMORY_BYTES_MAX
    ) -> None:
        self.kept_s = kept_s
        self.stream_bytes_max = stream_bytes_max
        #: Of all buffers of the process together.
        self.memory_bytes_max = memory_bytes_max


class Spool:
    """Belongs to the event loop; `run` expires and writes out until it is cancelled, `close` is last."""

    def __init__(self, caps: Caps, segments: Segments, scribe: AnyScribe, now_ms: Callable[[], int]) -> None:
        self.caps = caps
        self._segments = segments
        self._scribe = scribe
        self._now_ms = now_ms
        #: By request id, and by (account, name).
        self._transcripts: dict[str, Transcript] = {}
        self._named: dict[tuple[str, str], Transcript] = {}
        #: Those that grow, and those that have ended and are not written out; dictionaries for their order.
        self._growing: dict[Transcript, None] = {}
        self._fresh: dict[Transcript, None] = {}
        #: (when, whose), in the order of their ends.
        self._expiring: deque[tuple[int, Transcript]] = deque()
        #: In buffers, and in ends that are not written out.
        self.memory_bytes = 0

    def __len__(self) -> int:
        return len(self._transcripts)

    @property
    def disk_bytes(self) -> int:
        """In this process's segments."""
        return self._segments.bytes

    @property
    def disk_bytes_max(self) -> int:
        """What this process may have on disk."""
        return self._segments.bytes_max

    def share(self, bytes_max: int) -> None:
        """What this process may have on disk from now on."""
        self._segments.limit(bytes_max)

    def clear_disk(self) -> None:
        """What was on disk is gone, or is to go."""
        self._segments.clear()

    # -- writing ------------------------------------------------------------------------------------------------------

    def open(self, about: About, name_of: Callable[[bytes], str] | None = None) -> Transcript:
        """Begin to keep a stream. `name_of` tells from the first bytes what the client knows the answer by ("" =
        nothing); of two with one name the newer is meant."""
        transcript = self._transcripts[about.request_id] = Transcript(self, about, name_of)
        self._growing[transcript] = None
        return transcript

    def _name(self, transcript: Transcript, told: bytes) -> None:
        name_of = transcript.name_of
        if name_of is None or not told:
            return
        transcript.name_of = None
        transcript.name = name_of(told)
        if transcript.name:
            self._named[transcript.about.account_id, transcript.name] = transcript

    def drop(self, transcript: Transcript) -> None:
        """A stream that was refused, or broke off without an end: there is nothing to come back to."""
        self._lose(transcript)
        self._forget(transcript)

    def took(self, transcript: Transcript, data: bytes) -> None:
        """A write that its buffer has not been given yet; called now and then while it grows, and with large ones."""
        if transcript.lost:
            return
        if transcript.name_of is not None:
            self._name(transcript, data)
        if transcript.size + len(data) > self.caps.stream_bytes_max:
            self._lose(transcript)
        elif len(data) >= limits.SPOOL_DIRECT_BYTES:
            self._take_large(transcript, data)
        else:
            self._take_small(transcript, data)

    def _take_small(self, transcript: Transcript, data: bytes) -> None:
        transcript.buffer += data
        transcript.room_bytes = limits.SPOOL_STEP_BYTES
        self._count(transcript)
        if len(transcript.buffer) >= limits.SPOOL_PIECE_BYTES:
            self._write_out([transcript])
        self._relieve()

    def _take_large(self, transcript: Transcript, data: bytes) -> None:
        """It goes to the segments as it is: copying it into a buffer first would cost as much again."""
        frames = [self._frame(transcript)] if transcript.buffer else []
        frames.append(Frame(Chunk(transcript.about, transcript.size, data, None, transcript.name)))
        for extent in self._segments.append(frames):
            if extent is None:
                self._lose(transcript)
                return
            self._spilled(transcript, extent)

    def ended(self, transcript: Transcript) -> None:
        """Called by a transcript that has its end."""
        end = transcript.end
        now_ms = self._now_ms()
        transcript.ended_at_ms = now_ms
        self._growing.pop(transcript, None)
        self._expiring.append((now_ms + int(self.caps.kept_s * 1000), transcript))
        if end is None or transcript.lost or transcript.size + len(end.body) > self.caps.stream_bytes_max:
            self._lose(transcript)
            return
        self._name(transcript, end.body)
        self._count(transcript)
        self._fresh[transcript] = None
        self._relieve()

    def _count(self, transcript: Transcript) -> None:
        held = len(transcript.buffer) + (len(transcript.end.body) if transcript.end is not None else 0)
        self.memory_bytes += held - transcript.counted_bytes
        transcript.counted_bytes = held

    def _relieve(self) -> None:
        """Too much is in memory: the oldest goes to the segments, until there is some room again."""
        if self.memory_bytes <= self.caps.memory_bytes_max:
            return
        chosen, spare = [], self.caps.memory_bytes_max // limits.SPOOL_RELIEF
        excess = self.memory_bytes - self.caps.memory_bytes_max + spare
        for transcript in (*self._fresh, *self._growing):
            if transcript.counted_bytes and excess > 0:
                chosen.append(transcript)
                excess -= transcript.counted_bytes
        self._write_out(chosen)

    def _lose(self, transcript: Transcript) -> None:
        self._unpin(transcript)
        transcript.lost = True
        transcript.end = None
        transcript.buffer = bytearray()
        transcript.extents = []
        # Whatever is taken from now on is looked at, and thrown away.
        transcript.room_bytes = 0
        self._count(transcript)
        self._growing.pop(transcript, None)
        self._fresh.pop(transcript, None)
        transcript.wake()

    # -- segments -----------------------------------------------------------------------------------------------------

    def write_out(self) -> None:
        """Write what has ended, so that it outlives this process."""
        self._write_out(list(self._fresh))
        self._segments.flush()

    def _write_out(self, transcripts: Sequence[Transcript]) -> None:
        extents = self._segments.append([self._frame(each) for each in transcripts])
        for transcript, extent in zip(transcripts, extents, strict=True):
            if extent is None:
                self._lose(transcript)
                continue
            self._spilled(transcript, extent)
            if transcript in self._fresh:
                del self._fresh[transcript]
                self._unpin(transcript)

    def _spilled(self, transcript: Transcript, extent: Extent) -> None:
        if all(extent.segment is not each.segment for each in transcript.extents):
            extent.segment.pins += 1
        transcript.extents.append(extent)
        transcript.spilled_bytes += extent.data_bytes
        transcript.buffer = bytearray()
        transcript.end = None
        transcript.room_bytes = limits.SPOOL_STEP_BYTES
        self._count(transcript)

    @staticmethod
    def _frame(transcript: Transcript) -> Frame:
        return Frame(
            Chunk(
                transcript.about,
                transcript.spilled_bytes,
                transcript.buffer,
                transcript.end,
                transcript.name,
                transcript.ended_at_ms or 0,
            )
        )

    def _unpin(self, transcript: Transcript) -> None:
        """It has ended: its segments are kept for its sake until it expires."""
        until_ms = self._now_ms() + int(self.caps.kept_s * 1000)
        for segment in {extent.segment for extent in transcript.extents}:
            segment.pins -= 1
            if not transcript.lost:
                segment.until_ms = max(segment.until_ms, until_ms)

    # -- reading ------------------------------------------------------------------------------------------------------

    def find(self, account_id: str, name: str, *, follow: bool) -> TranscriptPlayback | None:
        """The transcript of a request id or of a name, from its first byte; None = this account has none here."""
        transcript = self._transcripts.get(name) or self._named.get((account_id, name))
        if transcript is None or transcript.about.account_id != account_id:
            return None
        return TranscriptPlayback(transcript, inline=self._scribe.inline, follow=follow)

    # -- time ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write out and expire until cancelled."""
        while True:
            await trio.sleep(limits.SPOOL_TICK_S)
            while fresh := list(islice(self._fresh, limits.SPOOL_BATCH)):
                self._write_out(fresh)
                await trio.lowlevel.checkpoint()
            self._segments.flush()
            self.expire()

    def expire(self) -> None:
        """Forget what nobody may ask for any more."""
        now_ms = self._now_ms()
        while self._expiring and self._expiring[0][0] <= now_ms:
            _, transcript = self._expiring.popleft()
            self._forget(transcript)
        self._segments.expire(now_ms)

    def _forget(self, transcript: Transcript) -> None:
        about = transcript.about
        if self._transcripts.get(about.request_id) is transcript:
            del self._transcripts[about.request_id]
        if self._named.get((about.account_id, transcript.name)) is transcript:
            del self._named[about.account_id, transcript.name]
        self._fresh.pop(transcript, None)

    async def close(self) -> None:
        """Leave what has ended to those who come after."""
        self.write_out()
        self._segments.close(self._now_ms())
        await self._scribe.close()
