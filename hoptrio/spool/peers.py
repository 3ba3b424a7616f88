"""Processes of one machine ask each other for streams, over a socket in the home of the one that is asked.

A question is a length and an `Ask`; the answer is the stream as frames (`chunk`), live and at the pace of the one that
asked, or nothing at all. An answer that ends without the stream's end was broken off. Whoever can open the socket may
ask for anything, so its directory is the owner's alone.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from enum import Enum, auto
from typing import TYPE_CHECKING

import msgspec
import trio

from hoptrio import limits
from hoptrio.spool.chunk import FRAME_HEAD_BYTES, Chunk, End, Frame, decode, head_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hoptrio.spool.chunk import About
    from hoptrio.spool.playback import TranscriptPlayback
    from hoptrio.spool.spool import Spool

__all__ = ["PeerPlayback", "Silence", "ask", "serve"]

_LENGTH_BYTES = 4
#: Ids of requests have 28 characters; names are the provider's, so they are bounded here.
_ASK_BYTES_MAX = 4096
#: sockaddr_un has room for 107; a longer path is reached through its directory's descriptor.
_PATH_BYTES_MAX = 100
_LISTEN_BACKLOG = 128
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Ask(msgspec.Struct, frozen=True):
    """For a stream of this account."""

    account_id: str
    name: str
    follow: bool


_encode = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(Ask)


class Silence(Enum):
    """Why there is no answer."""

    #: That process has no such stream, or does not say so in time.
    NO_STREAM = auto()
    #: Nobody listens there.
    NOBODY = auto()


async def serve(spool: Spool, path: Path) -> None:
    """Answer on a socket at `path` until cancelled. Raises OSError if it cannot be made."""
    sock = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    with sock:
        with _reachable(path) as name:
            await sock.bind(name)
        os.chmod(path, 0o600)
        sock.listen(_LISTEN_BACKLOG)

        async def answer(stream: trio.SocketStream) -> None:
            async with stream:
                await _answer(spool, stream)

        await trio.serve_listeners(answer, [trio.SocketListener(sock)])


async def _answer(spool: Spool, stream: trio.SocketStream) -> None:
    try:
        question = await _question(stream)
        if question is None:
            return
        playback = spool.find(question.account_id, question.name, follow=question.follow)
        if playback is None:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_closed, stream, nursery.cancel_scope)
            await _tell(playback, stream)
            nursery.cancel_scope.cancel()
    except _GONE:
        return


async def _question(stream: trio.SocketStream) -> Ask | None:
    with trio.move_on_after(limits.SPOOL_ASK_S):
        length = int.from_bytes(await _receive(stream, _LENGTH_BYTES), "little")
        if 0 < length <= _ASK_BYTES_MAX:
            try:
                return _DECODER.decode(await _receive(stream, length))
            except msgspec.DecodeError:
                return None
    return None


async def _until_closed(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Whoever asked says nothing more; that it hangs up is news even while its stream is silent."""
    with suppress(*_GONE):
        await stream.receive_some(1)
    scope.cancel()


async def _tell(playback: TranscriptPlayback, stream: trio.SocketStream) -> None:
    try:
        # At once: there is such a stream, whatever it has said.
        await _send(stream, Chunk(playback.about, 0, b""))
        offset = 0
        while (said := await playback.read()) is not None:
            if isinstance(said, End):
                await _send(stream, Chunk(playback.about, offset, b"", said))
                return
            await _send(stream, Chunk(playback.about, offset, said))
            offset += len(said)
    except _GONE:
        return


async def _send(stream: trio.SocketStream, chunk: Chunk) -> None:
    await stream.send_all(b"".join(Frame(chunk).parts()))


async def ask(path: Path, account_id: str, name: str, *, follow: bool) -> PeerPlayback | Silence:
    """Ask the process whose socket is at `path` for a stream."""
    try:
        with _reachable(path) as reachable:
            stream = await trio.open_unix_socket(reachable)
    except OSError:
        return Silence.NOBODY
    playback = PeerPlayback(stream)
    found = False
    question = _encode(Ask(account_id, name, follow))
    try:
        with trio.move_on_after(limits.SPOOL_ASK_S):
            await stream.send_all(len(question).to_bytes(_LENGTH_BYTES, "little") + question)
            found = await playback.begin()
    except _GONE:
        return Silence.NO_STREAM
    finally:
        if not found:
            await trio.aclose_forcefully(stream)
    return playback if found else Silence.NO_STREAM


class PeerPlayback:
    """`playback.Playback` over a socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._about: About | None = None
        self._offset = 0
        self._end: End | None = None

    @property
    def about(self) -> About:
        """See `Playback`; there once `begin` has said so."""
        assert self._about is not None
        return self._about

    async def begin(self) -> bool:
        """Wait for the answer; False = no such stream. Raises what the socket raises."""
        chunk = await self._chunk()
        self._about = None if chunk is None else chunk.about
        return chunk is not None

    async def read(self) -> bytes | End | None:
        """See `Playback`."""
        if self._end is not None:
            await trio.lowlevel.checkpoint()
            return self._end
        try:
            chunk = await self._chunk()
        except _GONE:
            return None
        if chunk is None or chunk.offset != self._offset:
            return None
        self._offset += len(chunk.data)
        self._end = chunk.end
        return chunk.end if chunk.end is not None else bytes(chunk.data)

    async def _chunk(self) -> Chunk | None:
        head = await _receive(self._stream, FRAME_HEAD_BYTES)
        if len(head) < FRAME_HEAD_BYTES:
            return None
        return decode(head + await _receive(self._stream, head_of(head)))

    async def close(self) -> None:
        """See `Playback`."""
        await trio.aclose_forcefully(self._stream)


async def _receive(stream: trio.SocketStream, size: int) -> bytes:
    """So many bytes, or fewer at the end of them."""
    data = bytearray()
    while len(data) < size and (more := await stream.receive_some(size - len(data))):
        data += more
    return bytes(data)


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A name for the socket that its address has room for. Raises OSError."""
    if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
