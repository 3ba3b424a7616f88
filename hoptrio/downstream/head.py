"""Head: one request head as a frozen value, and what about its raw bytes is refused before h11 reads them.

h11 0.16 is lenient where two parsers in a row may disagree about where a request ends (request smuggling): it takes a
bare LF for a line end, unfolds folded headers, lets ``Transfer-Encoding`` win over ``Content-Length``, merges repeated
lengths, and lets control characters other than NUL through. A gateway stands behind other proxies, so every such head
is refused (RFC 9112 sections 2.2, 5.2, 6.1, 6.3, 11.2). No message here repeats a byte of the request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - msgspec resolves annotations at run time
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

import msgspec

from hoptrio import limits
from hoptrio.errors import BadRequest, HeadTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Head", "check_raw_head", "find_head_end", "make_head", "sketch_head"]

#: Where h11 would end a head: leniently, so that a head with bare LFs is found, and then refused, at once.
_HEAD_END = re.compile(rb"\n\r?\n")
#: Every byte a head may hold: visible ASCII, obs-text, SP, HTAB, CR and LF.
_HEAD_BYTES = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), 0x09, 0x0D, 0x0A})
#: The first line of a head as far as its target, however long or broken the rest is.
_REQUEST_LINE = re.compile(rb"\s*(?P<method>[A-Z]{1,20}) (?P<target>/[!-~]{0,2000})")
_LENGTH = b"\ncontent-length:"
_CODING = b"\ntransfer-encoding:"
_NO_QUERY: Mapping[str, str] = MappingProxyType({})
_QUERY_FIELDS_MAX = 100


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one request."""

    method: bytes
    #: As sent.
    target: bytes
    #: Percent-decoded as UTF-8 (what is not becomes U+FFFD); ``*`` for ``OPTIONS *``.
    path: str
    #: Decoded; where a name is repeated the last value stands.
    query: Mapping[str, str]
    #: Lower-case names, in the order sent.
    headers: tuple[tuple[bytes, bytes], ...]
    #: The same by name, as `header` gives them.
    header_map: Mapping[str, str]
    #: ``b"1.1"`` or ``b"1.0"``.
    http_version: bytes
    #: The client's address as text, "" where the transport has none.
    peer: str

    def header(self, name: str) -> str | None:
        """The value of a header by its lower-case name, repeated lines joined by ``", "`` (RFC 9110 section 5.3); None
        if absent. Bytes beyond ASCII are read as Latin-1."""
        return self.header_map.get(name)


def find_head_end(inbox: bytearray, searched: int) -> int | None:
    """The offset behind the blank line that ends the head in `inbox`, None if it has not come yet.

    `searched` is the length that an earlier search has seen. Raises BadRequest for a first byte that begins no request
    (a TLS handshake on a plain port), HeadTooLarge beyond `limits.HEAD_BYTES_MAX`.
    """
    if inbox and inbox[0] < 0x21 and not b"\r\n".startswith(inbox[:2]):
        raise BadRequest("This is not an HTTP request.")
    match = _HEAD_END.search(inbox, max(0, searched - 2))
    if (match.end() if match is not None else len(inbox)) > limits.HEAD_BYTES_MAX:
        raise HeadTooLarge("The request head is too large.")
    return match.end() if match is not None else None


def check_raw_head(raw: bytes) -> None:
    """Refuse a head that HTTP parsers may read in different ways.

    `raw` runs from the request line to the blank line. Raises BadRequest, and HeadTooLarge for too many headers.
    """
    lines = raw.count(b"\r\n")
    if raw.count(b"\n") != lines or raw.count(b"\r") != lines:
        raise BadRequest("A line of the request head does not end in CRLF.")
    if b"\r\n " in raw or b"\r\n\t" in raw:
        raise BadRequest("A request header is folded over several lines.")
    if raw.translate(None, _HEAD_BYTES):
        raise BadRequest("The request head contains a control character.")
    if lines - 2 > limits.HEADERS_MAX:
        raise HeadTooLarge("The request has too many headers.")
    _check_framing(raw.lower())


def _check_framing(lowered: bytes) -> None:
    """One length or one coding, and each said once (RFC 9112 section 6.3)."""
    at = lowered.find(_LENGTH)
    if at < 0:
        return
    if _CODING in lowered:
        raise BadRequest("The request has both Transfer-Encoding and Content-Length.")
    value = lowered[at + len(_LENGTH) : lowered.index(b"\r", at)]
    if b"," in value or lowered.find(_LENGTH, at + 1) >= 0:
        raise BadRequest("The request has more than one Content-Length.")


def make_head(
    method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]], http_version: bytes, peer: str
) -> Head:
    """A head from what h11 has parsed.

    Raises BadRequest for an HTTP version other than 1.x, a coded HTTP/1.0 body (RFC 9112 section 6.1: its framing is
    faulty), or a target that is no path.
    """
    pairs = tuple(headers)
    if http_version[:2] != b"1.":
        raise BadRequest("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    if http_version == b"1.0" and any(name == b"transfer-encoding" for name, _ in pairs):
        raise BadRequest("An HTTP/1.0 request cannot have a Transfer-Encoding.")
    path, query = _split_target(target.decode("ascii"))
    return Head(
        method=method,
        target=target,
        path=path,
        query=query,
        headers=pairs,
        header_map=_by_name(pairs),
        http_version=b"1.0" if http_version == b"1.0" else b"1.1",
        peer=peer,
    )


def sketch_head(raw: bytes) -> Head | None:
    """As much of a refused head as its first line tells, so that the refusal can have the shape its caller reads.

    Nothing may be served by it: it has no headers, and `raw` may be cut or ambiguous.
    """
    line = _REQUEST_LINE.match(raw)
    if line is None:
        return None
    try:
        return make_head(line["method"], line["target"], (), b"1.1", "")
    except BadRequest:
        return None


def _by_name(pairs: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name_bytes, value_bytes in pairs:
        name, value = name_bytes.decode("ascii"), value_bytes.decode("latin-1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _split_target(target: str) -> tuple[str, Mapping[str, str]]:
    """Origin-form, absolute-form (which a server must accept) or ``*`` (RFC 9112 section 3.2)."""
    if target[0] != "/" and target != "*":
        scheme, separator, rest = target.partition("://")
        if not separator or scheme.lower() not in ("http", "https"):
            raise BadRequest("The request target is not a path.")
        authority = re.split("[/?]", rest, maxsplit=1)[0]
        target = rest[len(authority) :]
        target = target if target.startswith("/") else f"/{target}"
    path, _, query = target.partition("#")[0].partition("?")
    return unquote(path), _read_query(query) if query else _NO_QUERY


def _read_query(query: str) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX))
    except ValueError:
        raise BadRequest("The request has too many query parameters.") from None
