"""Members of raw JSON objects: whether a value is there, whether it is empty, and how to cut one out byte-exactly.

Readers decode an event only as far as its facts need; everything else stays `msgspec.Raw`. Nothing here changes a byte
that it was not asked to remove.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

__all__ = [
    "ABSENT",
    "EMPTY_BYTES_MAX",
    "UNREADABLE",
    "cut_member",
    "cut_usage",
    "is_filled",
    "is_object",
    "loads",
    "split_members",
]

#: The default of a `Raw` field; its length is 0, which no JSON value has.
ABSENT = msgspec.Raw(b"")

#: Everything that decoding bytes of a stranger may raise.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

T = TypeVar("T")

_EMPTY = frozenset({b"", b"null", b'""', b"[]", b"{}", b"false", b"0"})
#: A longer value is never empty.
EMPTY_BYTES_MAX = 5

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_RAW: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)
_MEMBERS: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

# To the next bracket or comma at this depth, or to the next bracket, over strings. Possessive: linear time.
_TO_COMMA = re.compile(rb'(?:[^"{}\[\],]++|"(?:[^"\\]++|\\.)*+")*+[{}\[\],]', re.DOTALL)
_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+[{}\[\]]', re.DOTALL)
_COMMA = ord(",")
_KEY = re.compile(rb'\s*+("(?:[^"\\]++|\\.)*+")', re.DOTALL)


def is_filled(value: msgspec.Raw) -> bool:
    """Whether a member is there and says something: not null, false, 0, or an empty string, list or object."""
    return len(value) > EMPTY_BYTES_MAX or bytes(value) not in _EMPTY


def is_object(data: bytes) -> bool:
    """Whether `data` is one whole JSON object."""
    return data.lstrip().startswith(b"{") and _decode(_RAW, data) is not None


def split_members(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, values raw; {} if `data` is anything else. Of a duplicate key the last counts."""
    return _decode(_MEMBERS, data) or {}


def loads(data: bytes | msgspec.Raw) -> Any:
    """Any JSON value; None if `data` is not JSON."""
    return _decode(_ANY, data)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T | None:
    """Decode, and once more without lone surrogates: providers cut ``\\ud83d\\ude00`` into two deltas, msgspec refuses
    either half, and facts beside such a text must not be lost for it. Facts hold no surrogates."""
    try:
        return decoder.decode(data)
    except UNREADABLE:
        pass
    try:
        return decoder.decode(_SURROGATE.sub(rb"\\ufffd", bytes(data)))
    except UNREADABLE:
        return None


def cut_usage(data: bytes, value: msgspec.Raw) -> bytes:
    """A JSON object without its top-level member ``usage``, all other bytes unchanged. `value` is that member's value
    as decoded from `data`, which must be valid.

    If the bytes ``"usage"`` stand there once and no escape can spell them, they are that member's key, and the length
    of its value is known: nothing has to be scanned. That is nearly every chunk.
    """
    key = data.find(b'"usage"')
    after = key + len(b'"usage"')
    if data.find(b'"usage"', after) >= 0 or data.find(b"\\u00") >= 0:
        return cut_member(data, "usage")
    head = data[:key].rstrip()
    tail = data[data.index(b":", after) + 1 :].lstrip()[len(value) :]
    if head.endswith(b","):
        return head[:-1] + tail
    return head + tail.lstrip().removeprefix(b",")


def cut_member(data: bytes, name: str) -> bytes:
    """A JSON object without every top-level member called `name`, however it is spelled and how often.

    `data` must be one valid JSON object. A member goes with the white space around it and one comma.
    """
    first = start = at = data.index(b"{") + 1
    kept: list[bytes] = []
    while True:
        at = _end(_TO_COMMA, data, at)
        sign = data[at - 1]
        if sign in b"{[":
            at = _skip_container(data, at)
            continue
        member = data[start : at - 1]
        if not _is_called(member, name):
            kept.append(member)
        if sign != _COMMA:
            return data[:first] + b",".join(kept) + data[at - 1 :]
        start = at


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    if match is None:
        raise ValueError("not a JSON object")
    return match.end()


def _skip_container(data: bytes, at: int) -> int:
    """From behind an opening bracket to behind the bracket that closes it."""
    depth = 1
    while depth:
        at = _end(_TO_BRACKET, data, at)
        depth += 1 if data[at - 1] in b"{[" else -1
    return at


def _is_called(member: bytes, name: str) -> bool:
    key = _KEY.match(member)
    return key is not None and loads(key[1]) == name
