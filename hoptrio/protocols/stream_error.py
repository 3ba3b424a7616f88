"""Errors that turn up where an event or an answer was due, for the protocols whose readers share this. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from hoptrio.protocols.members import UNREADABLE, loads

__all__ = ["one_line", "stream_error"]


def stream_error(data: bytes) -> Any:
    """The value of a truthy top-level ``error`` member, also inside a list of one, as Google's clouds print it; None
    if there is none."""
    value = loads(data)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return (value.get("error") or None) if isinstance(value, dict) else None


def one_line(data: bytes) -> bytes:
    """JSON on one line, for an error that was printed over several outside ``data:``; official clients read only one
    ``data:`` line an event. What is not JSON is returned as it is."""
    if b"\n" not in data:
        return data
    try:
        return msgspec.json.format(data, indent=-1)
    except UNREADABLE:
        return data
