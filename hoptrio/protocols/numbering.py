"""What a client was sent, read again: cut into events, numbered from 1, and told as server-sent events. Pure.

Works on our own bytes, so it need not be lenient: each event of an SSE stream ends in a blank line and has none inside,
and the elements of a JSON array stand apart by a comma, CR and LF, which no element has in it (`gemini.array`). An
element of an array becomes an event's data.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hoptrio.protocols.events import Framing
from hoptrio.protocols.members import is_object
from hoptrio.protocols.sse import data_event

__all__ = ["Replay", "Tell", "by_number", "by_sequence", "sequence_of"]

#: What is told of the event of this number, given its block without the blank line; b"" = nothing.
Tell = Callable[[int, bytes], bytes]


class _Sequenced(msgspec.Struct, gc=False):
    sequence_number: int | None = None


_SEQUENCED = msgspec.json.Decoder(_Sequenced)


class Replay:
    """One reader's way through a stream: `feed` every piece, then `finish` with the end."""

    def __init__(self, framing: Framing, tell: Tell) -> None:
        self._tell = tell
        self._array = framing is Framing.JSON_ARRAY
        #: Of an unfinished event; joined once its end is there, since an image may come in hundreds of pieces.
        self._parts: list[bytes] = []
        #: The last two bytes of them: what separates events may come in pieces, too.
        self._seam = b""
        #: Events so far, told or not.
        self.events = 0

    def feed(self, data: bytes) -> bytes:
        """The events that are whole now, as they are to be told."""
        self._parts.append(data)
        seamed = self._seam + data
        self._seam = seamed[-2:]
        blocks = self._elements(seamed) if self._array else self._blocks(seamed)
        return b"".join([self._next(block) for block in blocks])

    def finish(self) -> bytes:
        """What was held back for an end that may belong to no event."""
        rest = b"".join(self._parts).removeprefix(b"[").removesuffix(b"]")
        self._parts.clear()
        return self._next(_block(rest)) if self._array and rest else b""

    def _blocks(self, newest: bytes) -> list[bytes]:
        if b"\n\n" not in newest:
            return []
        *blocks, rest = self._joined().split(b"\n\n")
        self._keep(rest)
        return blocks

    def _elements(self, newest: bytes) -> list[bytes]:
        """An element is known to be whole by what stands behind it, or, the newest one, by itself."""
        if b",\r\n" not in newest and not newest.endswith(b"}"):
            return []
        *elements, rest = self._joined().split(b",\r\n")
        if is_object(rest.removeprefix(b"[")):
            elements.append(rest)
            rest = b""
        self._keep(rest)
        return [_block(each.removeprefix(b"[")) for each in elements if each]

    def _joined(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def _keep(self, rest: bytes) -> None:
        if rest:
            self._parts.append(rest)

    def _next(self, block: bytes) -> bytes:
        self.events += 1
        return self._tell(self.events, block)


def _block(element: bytes) -> bytes:
    """An element as the block of an event."""
    return data_event(element)[:-2]


def by_number(after: int) -> Tell:
    """Events above this number, each with its number as its id."""

    def tell(number: int, block: bytes) -> bytes:
        return b"id: %d\n%b\n\n" % (number, block) if number > after else b""

    return tell


def by_sequence(after: int | None) -> Tell:
    """Events of a Responses stream above this ``sequence_number``; one without counts by its place, from 0."""

    def tell(number: int, block: bytes) -> bytes:
        if after is not None and sequence_of(block, number - 1) <= after:
            return b""
        return block + b"\n\n"

    return tell


def sequence_of(block: bytes, otherwise: int) -> int:
    """The ``sequence_number`` of an event."""
    data = b"\n".join(line[6:] for line in block.split(b"\n") if line.startswith(b"data: "))
    try:
        found = _SEQUENCED.decode(data).sequence_number
    except msgspec.MsgspecError:
        return otherwise
    return otherwise if found is None else found
