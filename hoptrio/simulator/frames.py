"""Frames: an answer as its protocol's events, before time, failure and framing are added. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.simulator.script import Failure

__all__ = ["Dialect", "Frame"]


class Frame(NamedTuple):
    """One event: its name (b"" where the protocol has none) and its data.

    `piece`: text, reasoning or tool arguments, which is what is paced and what failures are placed by.
    """

    name: bytes
    data: bytes
    piece: bool = False


class Dialect(Interface):
    """One answer in one protocol. Made for one request; each part is asked for once, in the order written here."""

    def opening(self) -> list[Frame]:
        """What comes before the answer."""

    def content(self) -> Iterator[Frame]:
        """The pieces, and the boundaries of items and blocks."""

    def closing(self) -> list[Frame]:
        """Finish reasons and usage, where they are not in the terminal."""

    def terminal(self) -> list[Frame]:
        """What makes the stream complete."""

    def errors(self, failure: Failure) -> list[Frame]:
        """The events that report `failure`."""

    def ping(self) -> Frame | None:
        """An event that says nothing, where the protocol has one."""

    def body(self) -> dict[str, Any]:
        """The whole answer as one JSON value, for a request that does not stream."""
