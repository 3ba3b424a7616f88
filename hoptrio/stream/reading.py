"""How the answers of one channel are read, and what its client gets of them: `Native` or `Converting`.

Metering and judgement are the channel's own protocol's in both; they differ only in the bytes for the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from typing import Protocol as Interface

from hoptrio.metering.evidence import usage
from hoptrio.protocols import convert
from hoptrio.upstream.failure import from_provider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.convert.naming import ToolName
    from hoptrio.protocols.convert.reader import Tell
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Reader, Rules, Unary

__all__ = ["Converting", "Native", "Reading", "Whole"]


class Whole(NamedTuple):
    """A whole answer: what the provider said, and the client's body."""

    unary: Unary
    body: bytes
    #: Why it cannot be expressed in the client's protocol; "" = it can.
    unconvertible: str = ""


class Reading(Interface):
    """What a stream asks of either."""

    @property
    def rules(self) -> Rules:
        """The channel's protocol."""

    @property
    def tell(self) -> Tell:
        """A provider's error as the client is told of it."""

    def reader(self) -> Reader:
        """A reader for one stream."""

    def whole(self, body: bytes) -> Whole:
        """A 2xx body that did not stream."""


class Native:
    """A channel of the client's own protocol. `hide_usage` withholds usage that the client did not ask for."""

    def __init__(self, rules: Rules, call: Call, *, hide_usage: bool, tell: Tell = from_provider) -> None:
        self.rules = rules
        self.tell = tell
        self._call = call
        self._hide_usage = hide_usage

    def reader(self) -> Reader:
        """See `Reading`."""
        return self.rules.reader(self._call, hide_usage=self._hide_usage)

    def whole(self, body: bytes) -> Whole:
        """See `Reading`."""
        return Whole(self.rules.read(self._call, body), body)


class Converting:
    """A channel of another protocol, whose `rules` these are, for the client's `call`; `names` are the client's tools
    by the names the channel has for them, `created_s` is the wall clock."""

    def __init__(self, rules: Rules, call: Call, *, names: Mapping[str, ToolName], created_s: int, tell: Tell) -> None:
        self.rules = rules
        self.tell = tell
        self._call = call
        self._names = names
        self._created_s = created_s

    def reader(self) -> Reader:
        """See `Reading`."""
        return convert.reader(
            self._call,
            self.rules.protocol,
            created_s=self._created_s,
            names=self._names,
            tell=self.tell,
            weigh=usage,
        )

    def whole(self, body: bytes) -> Whole:
        """See `Reading`."""
        read = convert.read(
            self._call, self.rules.protocol, body, created_s=self._created_s, names=self._names, weigh=usage
        )
        return Whole(read, read.body, read.unconvertible)
