"""Wire: everything that a client was sent, with its time, and how it ended. Pure.

`read` follows WHATWG HTML 9.2.6 as a client does. It shares no code with the gateway's own splitter, so that a mistake
in the one cannot hide in the other, and counts what a popular parser would make of an ``id:`` (case 1).
"""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Ending", "Event", "Reading", "Wire", "as_json", "read"]

_BOM = b"\xef\xbb\xbf"


class Ending(StrEnum):
    """How an answer ended."""

    #: By its framing, or by an orderly close where it has none.
    CLEAN = "clean"
    #: The connection was closed before the framing's end.
    TRUNCATED = "truncated"
    RESET = "reset"
    #: It had not ended when we stopped waiting.
    OPEN = "open"
    #: We left.
    LEFT = "left"


class Event(NamedTuple):
    """One dispatched event. `at_s`: when its last byte came, in seconds after the request was sent."""

    name: bytes
    data: bytes
    at_s: float


class Reading(NamedTuple):
    """A body as a client's parser reads it."""

    events: tuple[Event, ...] = ()
    comments: tuple[bytes, ...] = ()
    #: Fields other than ``data`` and ``event`` that were there.
    fields: frozenset[bytes] = frozenset()
    #: Blank lines that the OpenAI SDK for Python takes for an event without data: any, once an id was seen.
    empty_events: int = 0
    bom: bool = False


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Times are seconds after the request was sent."""

    status: int = 0
    headers: dict[str, str] = {}
    #: Statuses of interim responses (1xx).
    interim: tuple[int, ...] = ()
    pieces: tuple[tuple[float, bytes], ...] = ()
    ending: Ending
    ended_s: float
    #: When the head came.
    head_s: float = 0.0
    reading: Reading = Reading()

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    @property
    def events(self) -> tuple[Event, ...]:
        return self.reading.events

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id") or self.headers.get("request-id")


def read(pieces: Sequence[tuple[float, bytes]]) -> Reading:
    """Read (time, bytes) pieces of a body; what no blank line ends is not dispatched."""
    body = b"".join(data for _, data in pieces)
    ends = list(accumulate(len(data) for _, data in pieces))
    bom = body.startswith(_BOM)
    events: list[Event] = []
    comments: list[bytes] = []
    fields: set[bytes] = set()
    name, data, empty, at = b"", list[bytes](), 0, 0
    for ended in body.removeprefix(_BOM).splitlines(keepends=True):
        at += len(ended)
        line = ended.rstrip(b"\r\n")
        if line == ended:
            break
        if not line:
            if data:
                last = at - 1 + (len(_BOM) if bom else 0)
                events.append(Event(name, b"\n".join(data), pieces[bisect_right(ends, last)][0]))
            elif b"id" in fields:
                empty += 1
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif not field:
            comments.append(value)
        else:
            fields.add(field)
    return Reading(tuple(events), tuple(comments), frozenset(fields), empty, bom)


def as_json(data: bytes) -> Any:
    """The value, or None for what is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
