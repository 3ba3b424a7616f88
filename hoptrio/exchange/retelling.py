"""A stream told once more, to a client that came back: from the spool, at the client's pace, to the original's end.

It costs no hold and asks no provider. What is said and how it ends is the original's alone; only keep-alives, heads and
framing are this client's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio.errors import Gone, HoptrioError
from hoptrio.spool.chunk import End
from hoptrio.stream.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.contract import Contract
    from hoptrio.exchange.face import Face
    from hoptrio.protocols.numbering import Replay
    from hoptrio.spool.playback import Playback
    from hoptrio.stream.ports import Writer

__all__ = ["LOST", "Retelling"]

LOST = "What this request answered is not kept any more: it was too large, too long ago, or its process died."


class Retelling:
    """One client's. Without a `replay` it gets the bytes that the original client got; with `resumes`, a client that
    has had everything of a stream that ended well is told not to ask again (204). One that `yields` is told nothing of
    a stream that broke off or asked no provider before there was anything to tell."""

    def __init__(
        self,
        writer: Writer,
        face: Face,
        playback: Playback,
        *,
        contract: Contract,
        alive: bytes,
        replay: Replay | None,
        resumes: bool = False,
        yields: bool = False,
    ) -> None:
        self._writer = writer
        self._face = face
        self._playback = playback
        self._replay = replay
        self._resumes = resumes
        self._yields = yields
        self._alive = alive
        self._clock = Clock(
            writer,
            mode=contract.keepalive if alive else "off",
            keepalive_s=contract.keepalive_seconds,
            stall_s=None,
            keepalive=self._keepalive,
            stalled=self._keepalive,
        )

    async def run(self) -> bool:
        """Tell it. Returns when the client has it, or has left; False if it yielded."""
        self._writer.start()
        self._clock.start()
        try:
            return await self._tell()
        finally:
            self._clock.stop()
            self._writer.stop()
            with trio.CancelScope(shield=True):
                await self._playback.close()

    async def _tell(self) -> bool:
        writer = self._writer
        while not writer.gone:
            said = await self._playback.read()
            if (said is None or (isinstance(said, End) and said.unsent)) and self._yields and not writer.head_written:
                return False
            if isinstance(said, End):
                await self._end(said)
                return True
            if said is None:
                await self._broken_off()
                return True
            self._write(said if self._replay is None else self._replay.feed(said))
            await writer.flush()
        return True

    def _write(self, data: bytes) -> None:
        if data:
            self._head()
            self._writer.write(data)

    def _head(self) -> None:
        if not self._writer.head_written:
            self._writer.head(200, self._face.stream_headers(None))

    def _keepalive(self) -> None:
        self._head()
        self._writer.write(self._alive)

    async def _end(self, end: End) -> None:
        self._clock.delivering = True
        writer = self._writer
        if end.status and not writer.head_written:
            await writer.respond(end.status, self._whole_headers(end), end.body)
            return
        self._write(end.event)
        if self._replay is not None:
            self._write(self._replay.finish())
        if self._resumes and end.clean and not writer.head_written:
            await writer.respond(204, self._face.ids() + self._face.extra, b"")
            return
        self._head()
        await (writer.end() if end.clean else writer.abort())

    def _whole_headers(self, end: End) -> Sequence[tuple[bytes, bytes]]:
        """The original's, but for what was for its own caller's browser."""
        own = [pair for pair in end.headers if not pair[0].startswith(b"access-control-") and pair[0] != b"vary"]
        return [*own, *self._face.extra]

    async def _broken_off(self) -> None:
        if self._writer.head_written:
            await self._writer.abort()
        else:
            await self._refuse(Gone(LOST))

    async def _refuse(self, error: HoptrioError) -> None:
        await self._writer.respond(*self._face.refusal(error))
