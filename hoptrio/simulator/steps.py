"""Steps: what a provider does to one connection, one after another. Pure values; `server` performs them.

A performance is an iterator of steps: at most one `Head` first, `Send`s and `Sleep`s, and one ending. Bytes are those
of the body: chunked framing is the driver's. Tests may run steps over a memory stream, or read them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Cut", "End", "Hang", "Head", "Raw", "Reset", "Send", "Sleep", "Step", "Steps"]


class Head(msgspec.Struct, frozen=True):
    """The response head. `length` None: chunked, or close-delimited if `chunked` is False."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None = None
    chunked: bool = True


class Send(msgspec.Struct, frozen=True):
    """Body bytes, in one write (and one chunk)."""

    data: bytes


class Raw(msgspec.Struct, frozen=True):
    """Bytes of the connection itself, without framing: what is sent where a head should be."""

    data: bytes


class Sleep(msgspec.Struct, frozen=True):
    """A pause in seconds of the provider's own schedule: a slow reader does not stretch it."""

    seconds: float


class End(msgspec.Struct, frozen=True):
    """The body ends by its framing; the connection may be used again."""


class Cut(msgspec.Struct, frozen=True):
    """FIN, whatever the framing says."""


class Reset(msgspec.Struct, frozen=True):
    """RST, after what was written has left."""


class Hang(msgspec.Struct, frozen=True):
    """Silence until the peer closes."""


Step = Head | Send | Raw | Sleep | End | Cut | Reset | Hang
if TYPE_CHECKING:
    Steps = Iterator[Step]
