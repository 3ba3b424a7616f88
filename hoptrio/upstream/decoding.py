"""Decoding of labelled compression, gzip and deflate (RFC 9110 8.4.1), a piece at a time. Sans-IO.

Providers are asked for ``identity``; some compress all the same. What is asked of the decoder is that one piece of
input never becomes more than `limits.READ_BYTES_MAX` of output at once, however far it expands: the rest waits for the
next `pull`. A body that expands beyond `limits.DECODED_RATIO_MAX` is taken for a bomb. An unknown label is a broken
decoder from the start, so that a body nobody can read ends as `BodyEnd.UNDECODABLE` like any other.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Decoder", "decoder_for"]

_GZIP_WBITS = 31
_ZLIB_WBITS = 15
_RAW_WBITS = -15


def decoder_for(headers: Iterable[tuple[bytes, bytes]]) -> Decoder | None:
    """A decoder for the body under these headers (lower-case names); None if the body is sent as it is."""
    labels: list[bytes] = []
    for name, value in headers:
        if name == b"content-encoding":
            labels += (label.strip().lower() for label in value.split(b","))
    labels = [label for label in labels if label not in (b"", b"identity")]
    return Decoder(labels) if labels else None


class Decoder:
    """A body's compression, undone. `feed` what arrived, then `pull` until it gives b""."""

    __slots__ = ("_given_bytes", "_layers", "_taken_bytes", "broken")

    def __init__(self, labels: list[bytes]) -> None:
        """`labels` in the order of the header, which is the order in which they were applied."""
        known = all(label in (b"gzip", b"x-gzip", b"deflate") for label in labels)
        #: The body cannot be decoded, and no more comes out.
        self.broken = not known or len(labels) > limits.DECODED_LAYERS_MAX
        self._layers = [] if self.broken else [_Layer(label != b"deflate") for label in reversed(labels)]
        self._taken_bytes = 0
        self._given_bytes = 0

    @property
    def complete(self) -> bool:
        """Every layer saw its own end mark (or the body was empty)."""
        return not self.broken and all(layer.complete for layer in self._layers)

    @property
    def more(self) -> bool:
        """The last `pull` left something that needs no further input."""
        return any(layer.more for layer in self._layers)

    def feed(self, data: bytes) -> None:
        """Take compressed bytes; what an earlier `feed` left has been pulled before."""
        if not self.broken:
            self._taken_bytes += len(data)
            self._layers[0].feed(data)

    def pull(self) -> bytes:
        """The next decoded bytes, at most `limits.READ_BYTES_MAX`; b"" when more input is needed, or if `broken`."""
        if self.broken:
            return b""
        try:
            out = self._pull(len(self._layers) - 1)
        except zlib.error:
            self.broken = True
            return b""
        self._given_bytes += len(out)
        if self._given_bytes > limits.DECODED_BYTES_FREE + self._taken_bytes * limits.DECODED_RATIO_MAX:
            self.broken = True
            return b""
        return out

    def _pull(self, index: int) -> bytes:
        layer = self._layers[index]
        out = layer.pull()
        while not out and index > 0:
            data = self._pull(index - 1)
            if not data:
                break
            layer.feed(data)
            out = layer.pull()
        return out


class _Layer:
    """One encoding. A gzip body may have several members (RFC 1952 2.2); deflate is zlib's format or, from some
    servers, the raw one, which the first two bytes tell apart (RFC 1950 2.2)."""

    __slots__ = ("_fed", "_full", "_gzip", "_inflate", "_rest")

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(_GZIP_WBITS) if gzip else None
        self._rest = b""
        self._fed = False
        #: The last `pull` was cut at its limit, so zlib may hold more output.
        self._full = False

    @property
    def complete(self) -> bool:
        return not self._fed or (not self._rest and self._inflate is not None and self._inflate.eof)

    @property
    def more(self) -> bool:
        return bool(self._rest) or self._full

    def feed(self, data: bytes) -> None:
        self._fed = True
        self._rest += data

    def pull(self) -> bytes:
        """Raises zlib.error for what is not the format."""
        while self.more:
            inflate = self._opened()
            if inflate is None:
                break
            out = inflate.decompress(self._rest, limits.READ_BYTES_MAX)
            self._rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            self._full = len(out) == limits.READ_BYTES_MAX and not inflate.eof
            if out:
                return out
        return b""

    def _opened(self) -> zlib._Decompress | None:
        """The decompressor for what comes next; None if that cannot be told yet."""
        if self._inflate is None:
            if len(self._rest) < 2:
                return None
            zlib_header = self._rest[0] & 0x0F == 8 and int.from_bytes(self._rest[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(_ZLIB_WBITS if zlib_header else _RAW_WBITS)
        elif self._inflate.eof:
            if not self._gzip:
                raise zlib.error("bytes behind the end")
            self._inflate = zlib.decompressobj(_GZIP_WBITS)
        return self._inflate
