"""How a response is framed: its status line and headers as bytes, and chunks. Sans-IO.

The writer's own, since every name and value is known here to be fit: they are constants of ours, or come from a head
that h11 has read. h11 makes an event, lists and a step of its state machine of each, 50 us a response where this takes
2, and would be kept in memory for as long as the stream lives. What can be wrong is checked all the same: a line end
inside a value would be a header, or a response, of somebody else's (RFC 9112 section 11.1).
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CONTINUE", "LAST_CHUNK", "chunk", "head", "says_close"]

#: The interim answer to ``Expect: 100-continue`` (RFC 9110 section 10.1.1).
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: The end of a chunked body without trailers (RFC 9112 section 7.1).
LAST_CHUNK = b"0\r\n\r\n"


def head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The head of a response, up to its blank line. Raises ValueError for a header that is more than one line."""
    lines = [_status_line(status)]
    lines += [b"%b: %b" % header for header in headers]
    made = b"\r\n".join(lines) + b"\r\n\r\n"
    if made.count(b"\n") != len(lines) + 1 or made.count(b"\r") != len(lines) + 1 or b"\0" in made:
        raise ValueError("a response header has a line end or NUL in it")
    return made


def chunk(data: bytes) -> bytes:
    """One chunk; `data` is not empty, which would be the last (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def says_close(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request's ``Connection`` header, of lower-case name, has the option ``close`` (RFC 9112 9.6)."""
    return any(
        name == b"connection" and b"close" in [option.strip() for option in value.lower().split(b",")]
        for name, value in headers
    )


@lru_cache
def _status_line(status: int) -> bytes:
    try:
        reason = HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        reason = b""
    return b"HTTP/1.1 %d %b" % (status, reason)
