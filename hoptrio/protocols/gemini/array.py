"""The JSON array form of a Gemini stream: ``streamGenerateContent`` without ``alt=sse`` (protocols page 7.1). Pure.

Each event's data is one element, byte for byte; what stands around the elements, in Google's own spelling, is written
here: ``[`` before the first, ``,`` CR LF before every other, ``]`` at the end. An array that is not closed cannot be
parsed, so it can never be taken for a complete answer.
"""

from __future__ import annotations

__all__ = ["ArrayFraming"]


class ArrayFraming:
    """Frames the elements of one array, in the order they are written."""

    __slots__ = ("_elements",)

    def __init__(self) -> None:
        self._elements = 0

    def element(self, data: bytes) -> bytes:
        """One element with what goes before it."""
        self._elements += 1
        return (b"[" if self._elements == 1 else b",\r\n") + data

    def discard(self) -> None:
        """The newest element was held back and will not be written."""
        self._elements -= 1

    def close(self) -> bytes:
        """The end of the array; of an empty one, all of it."""
        return b"]" if self._elements else b"[]"
