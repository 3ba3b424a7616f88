"""Gateways with a prober each over one ledger, before simulated providers, in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import trio

from hoptrio.certification.certifier import Certifier
from hoptrio.certification.prober import Prober
from hoptrio.ledger.memory import MemoryStore
from tests.support.harness import PRICES, Harness, gateway, settings
from tests.support.simulated import Simulated, scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START_MS = 1_796_000_000_000
WORKS, SILENT = "events=3 pace=1ms", "events=3 pace=1ms usage=none"


def virtual_ms() -> int:
    return START_MS + int(trio.current_time() * 1000)


def channel(host: str, **changes: Any) -> dict[str, Any]:
    """A channel at a simulated provider."""
    made = {"protocols": ["chat"], "base_url": f"http://{host}/v1", "api_key": "sk-provider-secret", "models": ["m"]}
    return made | changes


@dataclass
class Process:
    """One gateway process."""

    world: Harness
    prober: Prober

    async def round(self) -> None:
        """The first round of probes."""
        await self.prober.round_over()

    async def streams(self, count: int = 1, **options: Any) -> list[int]:
        """So many streams one after another; their statuses."""
        return [(await self.world.call(**options)).status for _ in range(count)]


@dataclass
class Site:
    """What all processes share: the ledger and the providers."""

    network: Simulated
    store: MemoryStore = field(default_factory=lambda: MemoryStore(virtual_ms))

    def plays(self, **scripts: str) -> None:
        """Providers by name (their host is ``name.test``) do this from now on."""
        for name, script in scripts.items():
            host = f"{name}.test"
            if host in self.network.providers:
                self.network.providers[host]._default = scripted(script)._default
            else:
                self.network.providers[host] = scripted(script)

    def asked(self, name: str) -> int:
        return self.network.asked(f"{name}.test")

    @asynccontextmanager
    async def process(
        self,
        contract: str = "hoptrio",
        *,
        valid_days: int = 30,
        unasked: bool = True,
        models: dict[str, Any] | None = None,
        **channels: dict[str, Any],
    ) -> AsyncIterator[Process]:
        """A gateway for `channels`, with its prober."""
        config = settings(channels=channels, models=models or {"m": PRICES})
        made = gateway(
            config=config,
            contract=contract,
            now_ms=virtual_ms,
            certified=False,
            connect=self.network.connect,
            store=self.store,
        )
        async with made as world, trio.open_nursery() as nursery:
            certifier = Certifier(world.ledger, world.gateway.upstream, valid_days=valid_days)
            process = Process(world, Prober(world.gateway, certifier, unasked=unasked))
            nursery.start_soon(process.prober.run)
            yield process
            process.prober.stop()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with trio.open_nursery() as nursery:
        yield Site(Simulated(nursery))
        nursery.cancel_scope.cancel()
