"""Unframe: the messages inside a server's WebSocket frames (RFC 6455, 5.2), and one masked message of a client's.

As much of it as the harness needs: a server's frames are not masked, and its pings are left unanswered, since no load
is as long as its patience.
"""

from __future__ import annotations

import os
import struct

__all__ = ["Unframe", "masked_text"]

_TEXT, _CONTINUATION, _CLOSE = 0x1, 0x0, 0x8
_FIN = 0x80


class Unframe:
    """One connection. `finished` once the server has said that it closes."""

    __slots__ = ("_held", "finished")

    def __init__(self) -> None:
        #: Bytes of an unfinished frame.
        self._held = b""
        self.finished = False

    def feed(self, data: bytes) -> bytes:
        """The messages in `data`, a line each. Raises ValueError for a frame that is masked."""
        data = self._held + data
        found: list[bytes] = []
        at = 0
        while (start := _payload_at(data, at)) is not None:
            stop = start + _length(data, at)
            if stop > len(data):
                break
            kind = data[at] & 0x0F
            if kind in (_TEXT, _CONTINUATION):
                found.append(data[start:stop])
                if data[at] & _FIN:
                    found.append(b"\n")
            elif kind == _CLOSE:
                self.finished = True
            at = stop
        self._held = data[at:]
        return b"".join(found)


def masked_text(message: bytes) -> bytes:
    """One text message as a client sends it (RFC 6455, 5.3)."""
    mask = os.urandom(4)
    size = len(message)
    if size < 126:
        head = struct.pack("!BB", _FIN | _TEXT, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FIN | _TEXT, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", _FIN | _TEXT, 0x80 | 127, size)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(message))


def _payload_at(data: bytes, at: int) -> int | None:
    """Where the payload of the frame at `at` begins; None while its head is not whole."""
    if len(data) < at + 2:
        return None
    if data[at + 1] & 0x80:
        raise ValueError("a server's frame is masked")
    start = at + 2 + {126: 2, 127: 8}.get(data[at + 1], 0)
    return start if start <= len(data) else None


def _length(data: bytes, at: int) -> int:
    short = data[at + 1]
    if short == 126:
        return int(struct.unpack_from("!H", data, at + 2)[0])
    return int(struct.unpack_from("!Q", data, at + 2)[0]) if short == 127 else short
