"""Clients that are cut off and come back, at random, in virtual time: what each got in all, and what it paid.

Two gateways share a ledger, as two processes of a machine do, and find each other's streams. Every client wants one
answer; it is cut off again and again, and each time comes back to either gateway, in one of the ways there are, until
it has the end. The whole is compared with what the same request gets uncut, and the books with the number of clients.
"""

from __future__ import annotations

import json
import random
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import RequestFilter
from hoptrio.spool.spools import Spools
from tests.support.harness import BODIES, GEMINI, gateway
from tests.support.provider import Cut, Pause, sse
from tests.support.streams import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from hoptrio.spool.playback import Playback
    from tests.support.client import Response
    from tests.support.harness import Harness
    from tests.support.provider import Step

__all__ = ["Report", "run"]

KINDS = ("chat", "responses", "messages", "gemini")
START_MS = 1_796_000_000_000


@dataclass
class Report:
    """What came of it; `faults` is empty if all was right."""

    clients: int = 0
    cuts: int = 0
    ways: dict[str, int] = field(default_factory=dict)
    upstream: int = 0
    captured: int = 0
    released: int = 0
    faults: list[str] = field(default_factory=list)


class Neighbours(Spools):
    """The spools of both gateways, without the sockets between them: those know no virtual time."""

    def __init__(self, own: Any) -> None:
        super().__init__(own)
        self.all: list[Spools] = []

    async def find(self, account_id: str, name: str, *, follow: bool = True) -> Playback | None:
        found = (each.own.find(account_id, name, follow=follow) for each in self.all)
        return next((playback for playback in found if playback is not None), None)


def wall_ms() -> int:
    """A wall clock that goes as the virtual one does."""
    return START_MS + int(trio.current_time() * 1000)


def script(chance: random.Random, kind: str, name: str) -> list[Step]:
    """The sample's stream with random pauses, under a name of its own; one in ten breaks off on its way."""
    steps: list[Step] = []
    events = [event.replace(b'"resp_1"', f'"resp_{name}"'.encode()) for event in SAMPLES[kind].events]
    breaks_at = chance.randrange(1, len(events)) if chance.random() < 0.1 else None
    for at, event in enumerate(events):
        steps += [Pause(chance.choice((0.0, 0.01, 0.3, 12.0))), Cut() if at == breaks_at else event]
    return sse(*steps)


async def run(directory: Path, *, seed: int, clients: int, at_once: int = 20) -> Report:
    """One trial."""
    report = Report()
    chance = random.Random(seed)
    for kind in KINDS:
        await _crowd(directory / kind, report, chance, kind, clients // len(KINDS), at_once)
    return report


async def _crowd(directory: Path, report: Report, chance: random.Random, kind: str, clients: int, at_once: int) -> None:
    store = MemoryStore(wall_ms)
    async with AsyncExitStack() as stack:
        worlds: list[Harness] = []
        for name in ("one", "two"):
            (directory / name).mkdir(parents=True)
            scripts = [script(chance, kind, f"{name}{at}") for at in range(clients * 3)]
            opened = gateway(*scripts, store=store, now_ms=wall_ms, spool=directory / name)
            world = await stack.enter_async_context(opened)
            world.gateway.spools = Neighbours(world.gateway.spools.own)  # type: ignore[union-attr]
            worlds.append(world)
        worlds[1].secret, worlds[1].key = worlds[0].secret, worlds[0].key
        for world in worlds:
            world.gateway.spools.all = [each.gateway.spools for each in worlds]  # type: ignore[union-attr]
        limiter = trio.CapacityLimiter(at_once)
        async with trio.open_nursery() as nursery:
            for number in range(clients):
                client = Returning(report, random.Random(chance.random()), worlds, kind, number)
                nursery.start_soon(partial(_limited, limiter, client))
        for world in worlds:
            await world.settled()
        await _judge(report, worlds, kind)


async def _limited(limiter: trio.CapacityLimiter, client: Returning) -> None:
    async with limiter:
        await client.run()


async def _judge(report: Report, worlds: list[Harness], kind: str) -> None:
    """The books: each client one capture of the right amount, every dispatch one hold, nothing held."""
    ledger = worlds[0].ledger
    records = await ledger.requests(RequestFilter(limit=100_000))
    held = [record for record in records if record.state in ("captured", "released")]
    report.upstream += sum(len(world.provider.seen) for world in worlds)
    report.captured += sum(record.state == "captured" for record in held)
    report.released += sum(record.state == "released" for record in held)
    wrong = {record.charge_nanos for record in held if record.state == "captured"} - {SAMPLES[kind].charge_nanos}
    if wrong:
        report.faults.append(f"{kind}: charges of {wrong}")
    if sum(len(world.provider.seen) for world in worlds) != len(held):
        report.faults.append(f"{kind}: {len(held)} holds, and other than that many requests upstream")
    if len(records) != len(held):
        report.faults.append(f"{kind}: {len(records) - len(held)} requests were refused, or still run")
    audit = await ledger.audit()
    if not audit.ok or (await ledger.account("acme")).held_nanos:  # type: ignore[union-attr]
        report.faults.append(f"{kind}: the audit says {audit.violations}")


class Returning:
    """One client, which wants one answer and is cut off on its way to it."""

    def __init__(self, report: Report, chance: random.Random, worlds: list[Harness], kind: str, number: int) -> None:
        self._report = report
        self._chance = chance
        self._worlds = worlds
        self._kind = kind
        self._number = number
        self._headers = {"idempotency-key": f"{kind}-{number}"}
        self._body = self._make_body()
        self._request_id = ""
        self._got: list[bytes] = []
        self._ways = {"again": self._again, "events": self._events, "own": self._own}

    def _make_body(self) -> dict[str, Any]:
        if self._kind == "gemini":
            return {**GEMINI, "labels": {"n": str(self._number)}}
        return {**BODIES[self._kind], "metadata": {"n": str(self._number)}}

    async def run(self) -> None:
        """Until it has the end of an answer that was paid for; one that broke off is asked for anew."""
        self._report.clients += 1
        for _ in range(60):
            if await self._try():
                break
        else:
            self._fault("never came to its end")
            return
        expected = [event.split(b"data: ")[1].removesuffix(b"\n\n") for event in SAMPLES[self._kind].events]
        name = re.escape(f'"{self._response_id()}"'.encode()) if self._kind == "responses" else b"$^"
        if [re.sub(name, b'"resp_1"', event) for event in self._got] != expected:
            self._fault(f"got {len(self._got)} events, and not the {len(expected)} there are")
        record = await self._worlds[0].ledger.request(self._request_id)
        if record is None or record.state != "captured":
            self._fault(f"saw the end of {self._request_id}, which is {record and record.state}")

    async def _try(self) -> bool:
        """One connection, cut off or not; True with the end."""
        world = self._chance.choice(self._worlds)
        cut = self._chance.randrange(1, 5) if self._chance.random() < 0.7 else None
        way = self._chance.choice(("again", "events", "own")) if self._request_id else "again"
        if way == "own" and not (self._kind == "responses" and self._got):
            way = "events"
        self._report.ways[way] = self._report.ways.get(way, 0) + 1
        response = await self._ways[way](world, cut)
        if response is None or not response.clean:
            self._report.cuts += 1
            await trio.sleep(self._chance.choice((0.0, 0.1, 5.0)))
            return False
        return True

    async def _again(self, world: Harness, cut: int | None) -> Response | None:
        """The same request once more: from the first event."""
        client = await world.start(self._kind, self._body, headers=self._headers)
        response = await client.read(events=cut)
        await client.leave()
        if response.status != 200:
            self._fault(f"a retry got {response.status}: {response.body!r}")
            return None
        known = response.headers["x-request-id"] == self._request_id
        if known and response.data[: len(self._got)] != self._got[: len(response.data)]:
            self._fault("a retry was told another answer")
        if not known:
            before = await world.ledger.request(self._request_id) if self._request_id else None
            if before is not None and before.state != "released":
                self._fault(f"a second request was made while the first is {before.state}")
        self._request_id = response.headers["x-request-id"]
        self._got = max(response.data, self._got if known else [], key=len)
        return response

    async def _events(self, world: Harness, cut: int | None) -> Response | None:
        """What is missing, by number."""
        return await self._after(world, f"/v1/requests/{self._request_id}/events?after={len(self._got)}", cut)

    async def _own(self, world: Harness, cut: int | None) -> Response | None:
        """What is missing, in OpenAI's form."""
        number = json.loads(self._got[-1])["sequence_number"]
        path = f"/v1/responses/{self._response_id()}?stream=true&starting_after={number}"
        return await self._after(world, path, cut)

    def _response_id(self) -> str:
        return str(json.loads(self._got[0])["response"]["id"])

    async def _after(self, world: Harness, path: str, cut: int | None) -> Response | None:
        client = world.connect()
        head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {world.secret}\r\n\r\n"
        await client.send(head.encode())
        response = await client.read(events=cut)
        await client.leave()
        if response.status != 200:
            self._fault(f"coming back got {response.status}: {response.body!r}")
            return None
        self._got += response.data
        return response

    def _fault(self, what: str) -> None:
        self._report.faults.append(f"{self._kind} client {self._number}: {what}")
