"""Case: a fault that gateways have had in public, what is right, and the streams that show which of both it is. Pure.

A case is a frozen value; `plays` makes its streams for one protocol. Each `Play` is one request: the provider's script,
what is asked, how the client behaves, and what must be true of the wire and, where it can be seen, of the money.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.client import Manner
from hoptrio.conform.request import Ask
from hoptrio.conform.verdict import Finding
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings
    from hoptrio.conform.upstream import Asked
    from hoptrio.conform.wire import Wire
    from hoptrio.simulator.steps import Steps

__all__ = ["ALL", "FREE", "Case", "Charge", "Check", "Free", "Play", "Trial", "Unseen"]

ALL = tuple(Protocol)


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """The money is captured, by this usage. Fields as in ``GET /v1/requests/{id}``."""

    usage: dict[str, int]


class Free(msgspec.Struct, frozen=True, kw_only=True):
    """The money is given back, all of it."""


FREE = Free()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One play as it went."""

    protocol: Protocol
    #: What the channel of the model that was asked for speaks.
    channel: Protocol
    settings: Settings
    wire: Wire
    #: What the provider was asked, by this play alone.
    asked: tuple[Asked, ...]


Check = Callable[[Trial], Finding | None]


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """One stream of a case. `script`: what the simulated provider is told (`hoptrio simulate --help`)."""

    script: str = ""
    #: The provider's steps, where no script can say them.
    exact: Callable[[], Steps] | None = None
    ask: Ask = Ask()
    #: Asked as turns on one WebSocket instead, each on the model whose channel speaks this.
    turns: tuple[Protocol, ...] = ()
    manner: Manner = Manner()
    checks: tuple[Check, ...]
    #: What must be true of the money; None: nothing is asked.
    money: Charge | Free | None = None
    #: What tells it from the other plays of its case.
    label: str = ""
    #: A conforming gateway is done with it by then.
    seconds: float = 5.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, by its number in the collection of them."""

    number: int
    name: str
    #: One sentence each.
    fault: str
    right: str
    protocols: tuple[Protocol, ...] = ALL
    #: Tried once all others are over.
    last: bool = False
    plays: Callable[[Protocol, Settings], tuple[Play, ...]]

    def seconds(self, settings: Settings) -> float:
        """How long the longest of its streams takes at a conforming gateway."""
        return max(play.seconds for protocol in self.protocols for play in self.plays(protocol, settings))

    def as_dict(self) -> dict[str, Any]:
        """What is told of it."""
        return {"number": self.number, "name": self.name, "fault": self.fault, "right": self.right}


class Unseen(msgspec.Struct, frozen=True):
    """A fault that cannot be seen from outside, and why."""

    number: int
    name: str
    why: str
