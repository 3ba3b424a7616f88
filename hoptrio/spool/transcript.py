"""A transcript: what one client was told, as it is told. The writing side of the spool.

`take` is called with every write of a stream, so it costs one append; everything else happens in steps of some KiB
(`Spool.took`). Offsets count the bytes of the client's protocol from its first one. What is in `extents` lies in
segments, in order and without gaps; behind it comes the buffer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.spool.chunk import About, End
    from hoptrio.spool.segments import Extent
    from hoptrio.spool.spool import Spool

__all__ = ["Transcript"]


class Transcript:
    """One stream's. `take` and `finish` belong to its stream, the rest to the spool and to those who read."""

    __slots__ = (
        "_changed",
        "_spool",
        "about",
        "buffer",
        "counted_bytes",
        "end",
        "ended_at_ms",
        "extents",
        "lost",
        "name",
        "name_of",
        "room_bytes",
        "spilled_bytes",
    )

    def __init__(self, spool: Spool, about: About, name_of: Callable[[bytes], str] | None = None) -> None:
        self._spool = spool
        self._changed: trio.Event | None = None
        self.about = about
        #: Behind the extents, in memory.
        self.buffer = bytearray()
        #: What of the buffer the spool has counted, and how much more is taken before it looks again.
        self.counted_bytes = 0
        self.room_bytes = 0
        #: In extents.
        self.spilled_bytes = 0
        self.extents: list[Extent] = []
        #: Once it has ended; None again when the last extent has it.
        self.end: End | None = None
        self.ended_at_ms: int | None = None
        #: It is beyond a cap, or broke off without an end: nothing of it can be read.
        self.lost = False
        #: See `chunk.Chunk`; and who tells it, until that was asked.
        self.name = ""
        self.name_of = name_of

    @property
    def size(self) -> int:
        """All that was told, in bytes."""
        return self.spilled_bytes + len(self.buffer)

    @property
    def over(self) -> bool:
        """It has its end, whether or not that could be kept."""
        return self.ended_at_ms is not None

    @property
    def begun(self) -> bool:
        """Something was told."""
        return self.lost or self.size > 0

    def take(self, data: bytes) -> None:
        """What the client is sent, whole events."""
        self.room_bytes -= len(data)
        if self.room_bytes < 0:
            self._spool.took(self, data)
        else:
            self.buffer += data
        if self._changed is not None:
            self.wake()

    def finish(self, end: End) -> None:
        """The last thing that is told."""
        self.end = end
        self._spool.ended(self)
        self.wake()

    def close(self) -> None:
        """Its stream is over; one that told no end was refused, or cut off, and nobody can come back to it."""
        if not self.over:
            self._spool.drop(self)

    def wake(self) -> None:
        """Let those who read look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def change(self) -> None:
        """Wait until there is more, or the end."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()
