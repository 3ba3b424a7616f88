"""A request body: bytes to one parsed JSON object, and a parsed object back to bytes.

What goes upstream is always serialised from the parsed value, never the caller's bytes, so that a body has one meaning
for pricing and for the provider: of duplicate keys the last wins here, and only that one is sent. Integers of any size
survive exactly; floats are IEEE doubles (RFC 8259 section 6), and a number beyond them is refused, as are NaN, invalid
UTF-8 and lone surrogates, which have no UTF-8 form. Messages name a position, never a content.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.limits import JSON_BRACKETS_MAX, JSON_DEPTH_MAX

__all__ = ["encode_object", "parse_object"]

_decoder = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()

#: The first half of a surrogate pair, and behind it anything but the beginning of a second half.
_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\(?:u[0-9a-fA-F]{0,3})?\Z|\Z)")
_ESCAPE_BYTES = 6


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a request body.

    Raises BadRequest if it is empty, not valid JSON in UTF-8, not an object, too deep or of too many values.
    """
    if not body:
        raise BadRequest("The request body is empty; a JSON object is needed.", code="invalid_json")
    brackets = body.count(b"[") + body.count(b"{")
    if brackets > JSON_BRACKETS_MAX:
        raise BadRequest("The request body holds too many JSON values.", code="invalid_json")
    try:
        value = _decoder.decode(body)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The request body cannot be used: {_reason(error, body)}.", code="invalid_json") from None
    if brackets > JSON_DEPTH_MAX:
        _check_depth(value)
    return value


def encode_object(value: dict[str, Any]) -> bytes:
    """Serialise a parsed body: compact, UTF-8, keys in their order."""
    return _encoder.encode(value)


def _reason(error: msgspec.DecodeError, body: bytes) -> str:
    """The decoder's own words, which name a byte offset or a type and never quote; its path would show indexes only."""
    reason = str(error).partition(" - at ")[0]
    if "surrogate" in reason:
        return f"a string is not valid text: half of a surrogate pair{reason[reason.find(' (byte') :]}"
    if "truncated" in reason and (end := _half_at_the_end(body)):
        return f"a string is not valid text: half of a surrogate pair (byte {end})"
    return reason


def _half_at_the_end(body: bytes) -> int:
    """Where the first half of a pair ends that has less behind it than a second half needs; 0 = there is none. The
    decoder takes that for a body that was cut."""
    found = _HALF.search(body, max(0, len(body) - 2 * _ESCAPE_BYTES + 1))
    if found is None:
        return 0
    before = body[: found.start()]
    escaped = (len(before) - len(before.rstrip(b"\\"))) % 2
    return 0 if escaped else found.end()


def _check_depth(value: dict[str, Any]) -> None:
    """Walk level by level, so that the check itself cannot recurse."""
    level: list[Any] = [value]
    for _ in range(JSON_DEPTH_MAX):
        level = [
            child
            for container in level
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BadRequest:
    return BadRequest(f"The request body is nested deeper than {JSON_DEPTH_MAX} levels.", code="invalid_json")
