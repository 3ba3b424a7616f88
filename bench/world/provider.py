"""The world's provider: the product's own simulator behind connections that are refused, slow, stale or vanish.

Every performance is kept with the bytes it sent, so that what a client got can be compared with what was said.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
import trio.testing

from hoptrio.simulator.prompt import read_prompt
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.script import Script, parse_directive
from hoptrio.simulator.server import serve
from hoptrio.simulator.steps import Cut, End, Hang, Head, Reset, Send

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from bench.world.machine import Worker
    from hoptrio.protocols.events import Protocol
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.seen import Seen
    from hoptrio.simulator.steps import Steps
    from hoptrio.upstream.answer import Origin

_NUMBER = re.compile(rb"world (\d+)")
_GZIP_WBITS = 31
_GZIP_MAGIC = b"\x1f\x8b"
#: No connection lives longer, so that all of them end with their gateway.
_CONNECT_HANGS_S = 30.0


@dataclass
class Performance:
    """One request as the provider got it, and what it sent."""

    number: int
    seen: Seen
    prompt: Prompt
    script: Script
    raw: bytearray = field(default_factory=bytearray)
    #: When something was sent last.
    sent_at: float | None = None
    #: When everything that the script has to say was said.
    said_at: float | None = None
    #: The body ended by its framing.
    ended: bool = False
    #: Told of each step's moment: "mid-stream", "terminal".
    at: Callable[[str], None] = lambda _: None

    @property
    def body(self) -> bytes:
        """What was sent, decompressed."""
        if "gzip" not in self.script.wire or not self.raw.startswith(_GZIP_MAGIC):
            return bytes(self.raw)
        return zlib.decompressobj(_GZIP_WBITS).decompress(bytes(self.raw))

    def watched(self, steps: Steps) -> Steps:
        """The same steps, noted as they are taken."""
        for step in steps:
            if isinstance(step, Send | Head):
                self.sent_at = trio.current_time()
            if isinstance(step, Send):
                self.raw += step.data
            elif isinstance(step, End | Cut | Reset | Hang):
                self.said_at = trio.current_time()
            yield step
            if isinstance(step, Send):
                self.at("mid-stream")
            elif self.said_at is not None:
                self.at("terminal")
            self.ended = self.ended or isinstance(step, End)


class WorldProvider(SimulatedProvider):
    """Tells `on_seen` of every performance before its first step."""

    def __init__(self, on_seen: Callable[[Performance], None]) -> None:
        super().__init__()
        self._on_seen = on_seen

    def _generate(self, protocol: Protocol, path: str, query: dict[str, str], seen: Seen, body: bytes) -> Steps:
        steps = super()._generate(protocol, path, query, seen, body)
        prompt = read_prompt(protocol, path, query, body)
        found = _NUMBER.search(body)
        assert found is not None, "a request that no plan made"
        directive = next(line for line in prompt.text.splitlines() if line.startswith("sim:"))
        performance = Performance(int(found[1]), seen, prompt, parse_directive(directive[4:].strip()))
        self._on_seen(performance)
        return performance.watched(steps)


class Network:
    """Connections to the provider; `connect` is each gateway's connector."""

    def __init__(self, nursery: trio.Nursery, provider: WorldProvider, rng: Random) -> None:
        self._nursery = nursery
        self._provider = provider
        self._rng = rng
        self.connections = 0

    async def connect(self, worker: Worker, origin: Origin) -> trio.abc.Stream:
        """Mostly at once; sometimes slow, refused, or without any answer."""
        chance = self._rng.random()
        if chance < 0.015:
            raise OSError("refused")
        if chance < 0.03:
            await trio.sleep(_CONNECT_HANGS_S)
        await trio.sleep(self._rng.choice((0, 0, 0.02, 3)) if chance < 0.5 else 0)
        if not worker.alive:
            raise OSError("the process is dead")
        ours, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, worker, ours)
        return theirs

    async def _serve(self, worker: Worker, stream: trio.abc.Stream) -> None:
        """Some connections die on their own: idle ones are then stale, busy ones are cut."""
        lifetime_s = self._rng.expovariate(1 / 400)
        self.connections += 1
        try:
            with trio.move_on_after(lifetime_s) as wire:
                worker.wires[wire] = None
                await serve(self._provider, stream)
        finally:
            worker.wires.pop(wire)
            self.connections -= 1
            await trio.aclose_forcefully(stream)
