"""Unchunk: the body inside chunked framing (RFC 9112, 7.1), however the bytes arrive.

A gateway may cut events into chunks as it likes, in the middle of an event's time, too.
"""

from __future__ import annotations

__all__ = ["Unchunk"]


class Unchunk:
    """One body. `finished` once its last chunk was seen."""

    __slots__ = ("_left", "_line", "finished")

    def __init__(self) -> None:
        #: Bytes that are left of a chunk, its own line end included.
        self._left = 0
        self._line = b""
        self.finished = False

    def feed(self, data: bytes) -> bytes:
        """The bytes of the body in `data`. Raises ValueError for a chunk without a size."""
        data = self._line + data
        self._line = b""
        found: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.finished:
            if not self._left:
                end = data.find(b"\r\n", at)
                if end < 0:
                    self._line = data[at:]
                    break
                chunk = int(data[at:end].partition(b";")[0], 16)
                at = end + 2
                self.finished = not chunk
                self._left = chunk + 2
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            # What of the line end was in it.
            found.append(piece[: max(0, len(piece) - 2 + self._left)] if self._left < 2 else piece)
        return b"".join(found)
