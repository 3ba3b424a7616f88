"""The journal's bytes, pure: settlements as they lie on the disk of the gateway that made them, and how they are read.

A file is a mark, then frames: length, CRC-32 of the payload, CRC-32 of these two (little-endian), then the payload in
msgpack. The first frame names the owner; each further one is a settlement. The length has a sum of its own, so that a
frame which was cut off is never taken for one that is damaged, nor the other way round, and the frames behind a damaged
payload are still found.

Only a tail that was being written when the machine or the process stopped may be unreadable: nothing in it was
confirmed. Anything else that does not read is damage, and is told (`Contents.damaged`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import msgspec

from hoptrio.ledger.model import Resolution
from hoptrio.ledger.operations import Release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Contents", "Settlement", "as_record", "header", "read", "search"]

Settlement = Resolution | Release

_MARK = b"hoptrio journal 1\n"
_SUMMED = Struct("<II")
_FRAME = Struct("<III")


class _Opened(msgspec.Struct, frozen=True, tag="opened"):
    owner: str


class _Resolved(msgspec.Struct, frozen=True, tag="resolution"):
    settlement: Resolution


class _Released(msgspec.Struct, frozen=True, tag="release"):
    settlement: Release


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Opened | _Resolved | _Released] = msgspec.msgpack.Decoder(
    _Opened | _Resolved | _Released
)


class Contents(NamedTuple):
    """What a file holds. `owner` None: its first frame was never written whole."""

    owner: str | None
    settlements: list[Settlement]
    #: Something before the tail does not read; the settlements behind it are there, as far as they read.
    damaged: bool


def header(owner: str) -> bytes:
    """What a file begins with."""
    return _MARK + _frame(_Opened(owner))


def as_record(settlement: Settlement) -> bytes:
    """A settlement's frame. Raises what msgspec raises for a value that has no msgpack (an integer of 65 bits)."""
    return _frame(_Resolved(settlement) if isinstance(settlement, Resolution) else _Released(settlement))


def _frame(value: _Opened | _Resolved | _Released) -> bytes:
    payload = _ENCODER.encode(value)
    summed = _SUMMED.pack(len(payload), crc32(payload))
    return b"".join((summed, crc32(summed).to_bytes(4, "little"), payload))


def read(data: bytes) -> Contents:
    """Everything in a file. Never raises: what does not read is in `Contents.damaged`, or a tail."""
    owner: str | None = None
    settlements: list[Settlement] = []
    damaged = False
    for payload in _payloads(data):
        value = None if payload is None else _decoded(payload)
        if value is None:
            damaged = True
        elif isinstance(value, _Opened):
            owner = value.owner
        else:
            settlements.append(value.settlement)
    return Contents(owner, settlements, damaged)


def search(data: bytes, needles: Sequence[bytes]) -> list[Resolution]:
    """The resolutions in a file whose bytes hold one of `needles`; only those are decoded."""
    holding = (payload for payload in _payloads(data) if payload and any(needle in payload for needle in needles))
    return [value.settlement for payload in holding if isinstance(value := _decoded(payload), _Resolved)]


def _payloads(data: bytes) -> Iterator[bytes | None]:
    """The payload of each frame whose sum is right, None for damage; the tail is left out."""
    if not data.startswith(_MARK):
        if not _MARK.startswith(data) and data.strip(b"\0"):
            yield None
        return
    offset = len(_MARK)
    while len(data) - offset >= _FRAME.size:
        length, payload_sum, own_sum = _FRAME.unpack_from(data, offset)
        if crc32(data[offset : offset + _SUMMED.size]) != own_sum:
            # No length to go on by. A file that grew before its bytes were written ends in zeros.
            if data[offset:].strip(b"\0"):
                yield None
            return
        end = offset + _FRAME.size + length
        if end > len(data):
            return
        payload = data[offset + _FRAME.size : end]
        if crc32(payload) == payload_sum:
            yield payload
        elif end < len(data):
            yield None
        offset = end


def _decoded(payload: bytes) -> _Opened | _Resolved | _Released | None:
    """None: written by a version that knows more than this one, or not by us."""
    try:
        return _DECODER.decode(payload)
    except msgspec.DecodeError:
        return None
