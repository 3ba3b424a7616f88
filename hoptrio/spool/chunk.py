"""The bytes of the spool, pure: pieces of streams as they lie in a segment and as they pass between processes.

A frame is a head (two lengths, a CRC-32 of what the piece is, little-endian), then what the piece is (msgpack), then
the piece itself. Every frame says whose it is, so a segment tells what is in it without any other file. Nothing is
synced: after a crash a file may end in the middle of a frame, and that one is not there. What a power cut leaves is not
looked at (`home`), so the pieces have no sum of their own, which would cost as much as writing them.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FRAME_HEAD_BYTES", "GOES_ON", "About", "Chunk", "End", "Found", "Frame", "decode", "head_of", "scan"]

#: Bytes of meta and of data, CRC-32 of meta.
_HEAD = Struct("<III")
FRAME_HEAD_BYTES = _HEAD.size


class About(msgspec.Struct, frozen=True, gc=False):
    """Whose stream it is, and how its bytes are to be read."""

    request_id: str
    account_id: str
    protocol: str
    framing: str
    contract: str
    created_at_ms: int


class End(msgspec.Struct, frozen=True, gc=False):
    """How the client was told the end.

    A stream ends cleanly or by an abort. One that never began, or never was one, is a whole answer with a `status`; a
    client that has a stream's head by then gets `event` in its place, and then the abort.
    """

    clean: bool
    status: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    event: bytes = b""
    #: No provider was asked, since the client had left by then; and that costs nothing, durably.
    unsent: bool = False


#: No end at all: what there is so far has been told.
GOES_ON = End(False, 102)


class Chunk(NamedTuple):
    """A piece of one stream: `data` stands at `offset` of all that its client was sent; the last one has the end."""

    about: About
    offset: int
    data: bytes | bytearray
    end: End | None = None
    #: What the client knows the answer by, if its protocol lets it ask for it again; "" = nothing.
    name: str = ""
    #: With the end: when that was, by the ledger's clock.
    ended_at_ms: int = 0


class _Meta(msgspec.Struct, frozen=True, gc=False):
    about: About
    offset: int
    end: End | None
    name: str
    ended_at_ms: int
    #: How much of the data is the body of `end`.
    body_bytes: int = 0


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Meta)


class Frame:
    """A chunk on its way to a file or a socket."""

    __slots__ = ("_data", "_meta", "chunk", "size")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        end, body = chunk.end, b""
        if end is not None and end.body:
            end, body = msgspec.structs.replace(end, body=b""), end.body
        meta = _Meta(chunk.about, chunk.offset, end, chunk.name, chunk.ended_at_ms, len(body))
        self._meta = _ENCODER.encode(meta)
        self._data = (chunk.data, body)
        #: Of the whole frame.
        self.size = _HEAD.size + len(self._meta) + len(chunk.data) + len(body)

    def parts(self) -> tuple[bytes | bytearray, ...]:
        """The frame's bytes, in pieces."""
        data, body = self._data
        return _HEAD.pack(len(self._meta), len(data) + len(body), crc32(self._meta)), self._meta, data, body


def head_of(head: bytes) -> int:
    """How many bytes follow a frame's head."""
    meta_bytes, data_bytes, _ = _HEAD.unpack(head)
    return int(meta_bytes + data_bytes)


def decode(frame: bytes) -> Chunk | None:
    """The chunk in a whole frame; None if it is damaged."""
    if len(frame) < _HEAD.size:
        return None
    meta_bytes, data_bytes, meta_sum = _HEAD.unpack_from(frame)
    start = _HEAD.size + meta_bytes
    meta = _meta(frame[_HEAD.size : start], meta_sum)
    data = frame[start:]
    if meta is None or start + data_bytes != len(frame):
        return None
    return _chunk(meta, data)


class Found(NamedTuple):
    """A frame in a file, without its data."""

    position: int
    size: int
    #: Of what the client was sent.
    data_bytes: int
    about: About
    offset: int
    #: 0: this is not the last one.
    ended_at_ms: int
    name: str


def scan(read: Callable[[int, int], bytes]) -> Iterator[Found]:
    """The frames of a file in order, up to its end or the first that is cut off or damaged; `read` takes a position and
    a size. The data is skipped."""
    position = 0
    while len(head := read(position, _HEAD.size)) == _HEAD.size:
        meta_bytes, data_bytes, meta_sum = _HEAD.unpack(head)
        found = read(position + _HEAD.size, meta_bytes)
        meta = _meta(found, meta_sum)
        if meta is None or len(found) != meta_bytes:
            return
        size = _HEAD.size + meta_bytes + data_bytes
        told = data_bytes - meta.body_bytes
        yield Found(position, size, told, meta.about, meta.offset, meta.ended_at_ms, meta.name)
        position += size


def _meta(data: bytes, expected_sum: int) -> _Meta | None:
    if crc32(data) != expected_sum:
        return None
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:
        return None


def _chunk(meta: _Meta, data: bytes) -> Chunk:
    told = len(data) - meta.body_bytes
    end = meta.end
    if end is not None and meta.body_bytes:
        end = msgspec.structs.replace(end, body=data[told:])
        data = data[:told]
    return Chunk(meta.about, meta.offset, data, end, meta.name, meta.ended_at_ms)
