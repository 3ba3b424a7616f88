"""Opening events kept back: while another attempt is possible, nothing that it would send again reaches the client.

Role-only chunks, ``response.created``, ``message_start`` and pings wait here until the answer begins, and then leave in
order, before it (contract, "When the status is decided"). Beyond `limits.OPENING_BYTES_MAX` they leave at once, and the
attempt was the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.protocols.rules import Reader

__all__ = ["Kept"]


class Kept:
    """Stands before `emit` for one attempt, whose events `reader` has classified when they come here."""

    def __init__(self, reader: Reader, emit: Callable[[bytes], None]) -> None:
        self._reader = reader
        self._emit = emit
        self._data = bytearray()
        #: Something was handed on.
        self.released = False

    def emit(self, data: bytes) -> None:
        """Whole events for the client."""
        if self.released:
            self._emit(data)
            return
        self._data += data
        if self._reader.answered or len(self._data) > limits.OPENING_BYTES_MAX:
            self.release()

    def release(self) -> None:
        """Hand on what is kept, and everything from now on."""
        self.released = True
        if self._data:
            self._emit(bytes(self._data))
            self._data.clear()
