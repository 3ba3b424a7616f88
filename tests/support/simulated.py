"""The product's own simulator behind memory streams: a connector for `Upstream`, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
import trio.testing

from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.server import serve

if TYPE_CHECKING:
    from hoptrio.upstream.answer import Origin

__all__ = ["Simulated", "scripted"]


def scripted(script: str) -> SimulatedProvider:
    """One that does this for every request that says nothing else."""
    return SimulatedProvider(default=parse_directive(script))


@dataclass
class Simulated:
    """Simulated providers by host name; a host that is not there refuses connections."""

    nursery: trio.Nursery
    providers: dict[str, SimulatedProvider] = field(default_factory=dict)

    async def connect(self, origin: Origin) -> trio.abc.Stream:
        """The connector."""
        if origin.host not in self.providers:
            raise ConnectionRefusedError
        await trio.lowlevel.checkpoint()
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(serve, self.providers[origin.host], ours)
        return theirs

    def asked(self, host: str) -> int:
        """Requests that a provider got."""
        return self.providers[host].seen.count
