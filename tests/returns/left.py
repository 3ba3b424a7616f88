"""Streams whose clients all left: what is kept of them, and that it is no more than may be, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.ledger.model import RequestFilter
from hoptrio.spool.spool import Caps
from tests.exchange.test_reattach import again, told
from tests.returns.trial import wall_ms
from tests.support.files import bytes_on_disk
from tests.support.harness import gateway, settings
from tests.support.provider import Pause, sse
from tests.support.streams import CHAT, data

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Kept", "run"]

DELTAS = 20


@dataclass
class Kept:
    """The most there was at any moment, in bytes, and what could be come back to afterwards."""

    streams: int = 0
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    #: The cap and a step of each stream that grew, at the moment of the most.
    memory_bound_bytes: int = 0
    disk_bytes: int = 0
    disk_bytes_max: int = 0
    whole: int = 0
    gone: int = 0
    #: Streams told otherwise than they were, or not settled as they must.
    faults: list[str] = field(default_factory=list)


async def run(directory: Path, *, streams: int, event_bytes: int, memory_bytes_max: int, disk_bytes_max: int) -> Kept:
    """Begin them all within a minute, leave them all, and look every virtual second until each has expired."""
    kept = Kept(streams, memory_bytes_max=memory_bytes_max, disk_bytes_max=disk_bytes_max)
    deltas = [data({"choices": [{"index": 0, "delta": {"content": "x" * event_bytes}}]})] * DELTAS
    paced = [step for delta in deltas for step in (Pause(1), delta)]
    script = sse(*CHAT.opening, *paced, *CHAT.closing, *CHAT.terminal)
    caps = Caps(kept_s=90, stream_bytes_max=16 * limits.MIB, memory_bytes_max=memory_bytes_max)
    config = settings()
    config["channels"]["one"]["max_streams"] = streams
    async with gateway(
        script, config=config, spool=directory, caps=caps, spool_bytes_max=disk_bytes_max, now_ms=wall_ms
    ) as world:
        spool = world.gateway.spools.own  # type: ignore[union-attr]

        async def look() -> None:
            while True:
                # What has not been counted yet, too: up to a step for each stream that grows.
                held = sum(len(each.buffer) for each in spool._transcripts.values())
                bound = memory_bytes_max + len(spool._growing) * limits.SPOOL_STEP_BYTES
                if held > bound:
                    kept.faults.append("memory beyond its cap and a step of each stream that grows")
                if held > kept.memory_bytes:
                    kept.memory_bytes, kept.memory_bound_bytes = held, bound
                kept.disk_bytes = max(kept.disk_bytes, bytes_on_disk(directory))
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            for _ in range(streams):
                client = await world.start("chat")
                await client.read(events=1)
                await client.leave()
                await trio.sleep(60 / streams)
            await world.settled()
            await trio.sleep(2 * limits.SPOOL_TICK_S)
            payloads = [event.split(b"data: ")[1].removesuffix(b"\n\n") for event in [*CHAT.opening, *deltas]]
            records = await world.ledger.requests(RequestFilter(limit=streams))
            for record in records:
                response = await again(world, record.id)
                if response.status == 410:
                    kept.gone += 1
                elif [each for _, each in told(response)][: len(payloads)] == payloads and response.clean:
                    kept.whole += 1
                else:
                    kept.faults.append(f"{record.id} was told otherwise")
                if (record.state, record.charge_nanos) != ("captured", CHAT.charge_nanos):
                    kept.faults.append(f"{record.id} is {record.state}")
            await trio.sleep(caps.kept_s + 2)
            nursery.cancel_scope.cancel()
        if len(spool) or spool.memory_bytes or spool.disk_bytes > limits.SPOOL_SEGMENT_BYTES_MAX:
            kept.faults.append("something is kept for ever")
        if not (await world.ledger.audit()).ok:
            kept.faults.append("the audit found something")
    if kept.disk_bytes > disk_bytes_max:
        kept.faults.append("disk beyond its cap")
    return kept
