"""Where a response body ends: chunked, by length, or by the close of the connection. Sans-IO; sees one body only.

h11 reads the head and has then already refused every head whose framing is ambiguous (two lengths, an unknown transfer
coding). The body is read here because h11 makes an event, and its state machine a step, of every chunk: 4 us where this
takes less than one. In return nothing is accepted here that h11 would refuse (tests/upstream/test_framing.py compares
them): sizes are plain hexadecimal, lines end in CRLF, and the CRLF behind a chunk's data is checked.

`feed` gives the body's bytes of one read, joined. `end` is None until the body is over, and after that `feed` is not
called again. Bytes behind the end (`excess`) mean that the connection cannot be used for another request.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from typing import Protocol as Interface

from hoptrio import limits
from hoptrio.upstream.answer import BodyEnd

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ChunkedBody", "ClosedBody", "Framing", "SizedBody", "framing_of"]

#: RFC 9112 7.1: chunk-size [chunk-ext] CRLF.
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?[ \t]*")
#: Digits of sizes that are remembered: lines of up to 1 MiB.
_PLAIN_DIGITS_MAX = 5
#: RFC 9112 7.1.2: a trailer line is a field line.
_FIELD_LINE = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


class Framing(Interface):
    """One body's framing."""

    end: BodyEnd | None
    excess: bool

    def feed(self, data: bytes) -> bytes:
        """The body's bytes within `data`, which is not empty; b"" if it holds none."""

    def eof(self) -> BodyEnd:
        """The connection was closed in order: what that means for this body. Sets `end`."""


def framing_of(status: int, headers: Iterable[tuple[bytes, bytes]]) -> Framing:
    """The framing of a response to a POST or GET (RFC 9112 6.3), whose headers h11 has validated."""
    fields = dict(headers)
    if status in (204, 304):
        return SizedBody(0)
    if b"transfer-encoding" in fields:
        return ChunkedBody()
    if b"content-length" in fields:
        return SizedBody(int(fields[b"content-length"]))
    return ClosedBody()


class SizedBody:
    """A body of a known length."""

    __slots__ = ("_left", "end", "excess")

    def __init__(self, length: int) -> None:
        self._left = length
        self.end: BodyEnd | None = BodyEnd.CLEAN if length == 0 else None
        self.excess = False

    def feed(self, data: bytes) -> bytes:
        left = self._left - len(data)
        if left > 0:
            self._left = left
            return data
        self.end = BodyEnd.CLEAN
        self.excess = left < 0
        return data[: self._left] if left < 0 else data

    def eof(self) -> BodyEnd:
        self.end = BodyEnd.TRUNCATED
        return self.end


class ClosedBody:
    """A body that lasts until the connection is closed, which proves nothing about its being whole."""

    __slots__ = ("end", "excess")

    def __init__(self) -> None:
        self.end: BodyEnd | None = None
        self.excess = False

    def feed(self, data: bytes) -> bytes:
        return data

    def eof(self) -> BodyEnd:
        self.end = BodyEnd.CLOSED
        return self.end


class ChunkedBody:
    """A chunked body (RFC 9112 7.1). Trailers are checked and thrown away."""

    __slots__ = ("_footer", "_held", "_left", "_trailer_bytes", "end", "excess")

    def __init__(self) -> None:
        #: Bytes of an unfinished line.
        self._held = b""
        #: Bytes of the current chunk's data still to come.
        self._left = 0
        #: The CRLF behind a chunk's data is still to come.
        self._footer = False
        #: Bytes of trailer lines so far; None before the last chunk.
        self._trailer_bytes: int | None = None
        self.end: BodyEnd | None = None
        self.excess = False

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data = self._held + data
            self._held = b""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and self.end is None and not self._held:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._footer = not self._left
            elif self._footer:
                at = self._read_footer(data, at)
            elif self._trailer_bytes is None:
                at = self._read_chunks(data, at, parts)
            else:
                at = self._read_trailer(data, at)
        if self.end is BodyEnd.CLEAN:
            self.excess = at < len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def eof(self) -> BodyEnd:
        self.end = BodyEnd.TRUNCATED
        return self.end

    def _read_footer(self, data: bytes, at: int) -> int:
        if data.startswith(b"\r\n", at):
            self._footer = False
            return at + 2
        if data[at:] == b"\r":
            self._held = b"\r"
        else:
            self.end = BodyEnd.RESET
        return at

    def _read_chunks(self, data: bytes, at: int, parts: list[bytes]) -> int:
        """Whole chunks, of which most reads consist; then the size of one that is cut, or of the last."""
        while (line_stop := data.find(b"\r\n", at)) > at:
            read_size = _plain_size if line_stop - at <= _PLAIN_DIGITS_MAX else _any_size
            if (size := read_size(data[at:line_stop])) < 0:
                break
            start = line_stop + 2
            stop = start + size
            if size == 0:
                self._trailer_bytes = 0
                return start
            if not data.startswith(b"\r\n", stop):
                self._left = size
                return start
            parts.append(data[start:stop])
            at = stop + 2
        if at < len(data):
            self._hold_line(data, at, limits.CHUNK_LINE_BYTES_MAX)
        return at

    def _read_trailer(self, data: bytes, at: int) -> int:
        stop = data.find(b"\r\n", at)
        spent = self._trailer_bytes or 0
        if stop == at:
            self.end = BodyEnd.CLEAN
        elif stop < 0:
            self._hold_line(data, at, limits.TRAILER_BYTES_MAX - spent)
            return at
        elif _FIELD_LINE.fullmatch(data, at, stop) is None or stop - at > limits.TRAILER_BYTES_MAX - spent:
            self.end = BodyEnd.RESET
        self._trailer_bytes = spent + stop + 2 - at
        return stop + 2

    def _hold_line(self, data: bytes, at: int, bytes_max: int) -> None:
        """Keep an unfinished line for the next `feed`; a line that is finished but did not match is an error."""
        if b"\n" in data[at:] or len(data) - at > bytes_max:
            self.end = BodyEnd.RESET
        else:
            self._held = data[at:]


def _any_size(line: bytes) -> int:
    """The size that a chunk's line says, without its CRLF; -1 if it says none."""
    found = _SIZE_LINE.fullmatch(line)
    return -1 if found is None else int(found[1], 16)


#: For lines without an extension: a stream's chunks have few sizes, and the pattern takes three times as long.
_plain_size = lru_cache(maxsize=4096)(_any_size)
