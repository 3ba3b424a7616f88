"""Kills: a process that dies without a word under a crowd, at every moment of a stream's life, again and again.

A `Fleet` is one ledger and the nodes on it. In each round a node is started doomed (`doomed`), a crowd comes to all
nodes, something dies, what died is started again, and then everything must be as if nothing had been: every hold
resolved once, books that balance, and no client was shown the end of a stream that is not settled.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import trio

from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import RequestFilter
from tests.chaos.crowd import KEYS, NO_EVIDENCE, Sight, Visit, visit_all, visits
from tests.chaos.doomed import POINTS, VICTIMS, Doom
from tests.chaos.trial import DEPOSIT, MODEL, contradiction, deploy
from tests.support.deployment import Deployment, Server
from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from bench.postgres import PostgresServer
    from hoptrio.ledger.ledger import Ledger

__all__ = ["RESOLVED_S", "Round", "books_balance", "no_holds", "rounds"]

#: What a dead process held is resolved by then, counted from the next start (and from the end of the crowd).
RESOLVED_S = 30.0
#: As many holds as are wanted of a node that is killed are open by then, or never.
ORPHANED_S = 8.0


@dataclass
class Round:
    """One death, and what became of it."""

    point: str
    victim: str
    #: Whether it came to that.
    died: bool = False
    open_holds: int = 0
    resolved_s: float = 0.0
    captured: int = 0
    released: int = 0
    faults: list[str] = field(default_factory=list)


async def rounds(
    directory: Path, *, seed: int, count: int, at_once: int = 40, database: PostgresServer | None = None
) -> AsyncIterator[Round]:
    """`count` deaths of one fleet: one node of two workers on SQLite, a second node beside it on `database`."""
    chance = random.Random(seed)
    victims = VICTIMS if database else [each for each in VICTIMS if each != "database"]
    with simulator() as provider:
        async with _fleet(directory, provider, database) as fleet:
            for number, (point, victim) in enumerate(itertools.islice(_fates(chance, victims), count)):
                doom = Doom(
                    point=point,
                    victim=victim,
                    passages=0 if point == "sweeping" else chance.randrange(at_once // 2),
                    delay_s=chance.choice((0.0, chance.uniform(0.0, 0.02))),
                    mark=str(directory / f"died-{number}"),
                    database=database.pid if database else 0,
                )
                yield await fleet.round(doom, seed=seed * 1000 + number, at_once=at_once)


def _fates(chance: random.Random, victims: list[str]) -> Iterator[tuple[str, str]]:
    """Every point with every victim, in an order of its own each time around."""
    every = list(itertools.product(POINTS, victims))
    while True:
        chance.shuffle(every)
        yield from every


@asynccontextmanager
async def _fleet(directory: Path, provider: str, database: PostgresServer | None) -> AsyncIterator[Fleet]:
    (directory / "a").mkdir()
    deployment, secrets = await deploy(directory / "a", provider, url=database.url if database else None)
    deployment.config["server"]["workers"] = 2
    deployment.write_config()
    async with open_ledger(deployment.url) as ledger:
        fleet = Fleet(deployment, secrets, ledger, database)
        if database:
            (directory / "b").mkdir()
            config = deployment.config | {"server": deployment.config["server"] | {"workers": 1}}
            fleet.beside = Node(Deployment(directory / "b", config))
            await trio.to_thread.run_sync(fleet.beside.start)
        try:
            yield fleet
        finally:
            fleet.node.kill()
            if fleet.beside:
                fleet.beside.kill()


class Node:
    """One node, dead or alive."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.server: Server | None = None

    def start(self, doom: Doom | None = None) -> None:
        """Start it in a process group of its own. A doomed one may die before it is ready."""
        directory = self.deployment.directory
        if doom is None:
            self.server = Server(["serve", "--json"], directory, preexec=os.setpgrp)
            return
        with suppress(RuntimeError):
            self.server = Server(
                ["serve", "--json"],
                directory,
                preexec=os.setpgrp,
                module="tests.chaos.doomed",
                environment=doom.environment(),
            )

    @property
    def runs(self) -> bool:
        """Its first process lives."""
        return self.server is not None and self.server.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send every process of it a signal."""
        assert self.server is not None
        with suppress(ProcessLookupError):
            os.killpg(self.server.pid, number)

    def kill(self) -> None:
        """Every process of it, at once."""
        if self.server is not None:
            self.signal(signal.SIGKILL)
            self.server.stop(signal.SIGKILL)
            self.server = None

    def stop(self) -> None:
        """As an operator does."""
        if self.server is not None:
            self.server.stop(timeout_s=40)
            self.server = None


class Fleet:
    """The node that dies, the one beside it, and the ledger of both."""

    def __init__(
        self, deployment: Deployment, secrets: dict[str, str], ledger: Ledger, database: PostgresServer | None
    ) -> None:
        self.node = Node(deployment)
        self.beside: Node | None = None
        self._secrets = secrets
        self._ledger = ledger
        self._database = database

    async def round(self, doom: Doom, *, seed: int, at_once: int) -> Round:
        """One death."""
        this = Round(doom.point, doom.victim)
        sights: list[Sight] = []
        if doom.point == "sweeping":
            await self._orphan(seed + 500, at_once, sights)
        await trio.to_thread.run_sync(self.node.start, doom)
        if self.beside is not None:
            self.beside.signal(signal.SIGCONT)
        await self._crowd(doom, seed, at_once, sights)
        # From here on nothing dies any more.
        this.died = not doom.claim()
        await self._let_die(doom)
        if self._database is not None:
            await trio.to_thread.run_sync(self._database.restart)
        this.open_holds = len(await self._ledger.open_holds())
        await self._revive()
        began = trio.current_time()
        await self._crowd(None, seed + 1, at_once // 4, sights)
        if not await no_holds(self._ledger, RESOLVED_S):
            this.faults.append(f"held after {RESOLVED_S} s: {await self._ledger.open_holds()}")
        this.resolved_s = trio.current_time() - began
        await trio.to_thread.run_sync(self.node.stop)
        await self._check(this, sights)
        return this

    async def _orphan(self, seed: int, at_once: int, sights: list[Sight]) -> None:
        """Leave open holds of a dead node behind."""
        await trio.to_thread.run_sync(self.node.start)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._visits, self.node, seed, at_once, sights)
            with trio.move_on_after(ORPHANED_S):
                while len(await self._ledger.open_holds()) < at_once // 8:  # noqa: ASYNC110 - other processes are asked
                    await trio.sleep(0.02)
            if self.beside is not None:
                # It would sweep first.
                self.beside.signal(signal.SIGSTOP)
            await trio.to_thread.run_sync(self.node.kill)

    async def _crowd(self, doom: Doom | None, seed: int, at_once: int, sights: list[Sight]) -> None:
        """A crowd before every node that lives; a database that dies under it is started again after a while."""
        async with trio.open_nursery() as nursery:
            if doom is not None and doom.victim == "database":
                nursery.start_soon(self._mourn, doom)
            async with trio.open_nursery() as crowds:
                for node in (self.node, self.beside):
                    if node is not None and node.runs:
                        crowds.start_soon(self._visits, node, seed, at_once, sights)
                    seed += 7
            nursery.cancel_scope.cancel()

    async def _visits(self, node: Node, seed: int, at_once: int, sights: list[Sight]) -> None:
        assert node.server is not None
        # Those who wait for the stall clock would make every round as long.
        crowd = [visit for visit in visits(seed, 2 * at_once) if visit.key != "patient"]
        address = node.server.address
        await visit_all(address, crowd, self._secrets, model=MODEL, at_once=at_once, done=sights.append)

    async def _mourn(self, doom: Doom) -> None:
        assert self._database is not None
        while not doom.fulfilled:  # noqa: ASYNC110 - another process is waited for
            await trio.sleep(0.02)
        await self._let_die(doom)
        await trio.to_thread.run_sync(self._database.restart)

    async def _let_die(self, doom: Doom) -> None:
        """Until the kill behind the mark has happened, and been felt for a while."""
        await trio.sleep(doom.delay_s + 0.3)

    async def _revive(self) -> None:
        """Start the node again if it died."""
        if not self.node.runs:
            self.node.kill()
            await trio.to_thread.run_sync(self.node.start)

    async def _check(self, this: Round, sights: list[Sight]) -> None:
        for sight in sights:
            record = await self._ledger.request(sight.request_id) if sight.request_id else None
            seen = {"state": record.state, "reason": record.reason} if record else None
            if record is not None and "late_capture" in record.flags:
                # Another node took the hold for an orphan's before the journal of the dead one was found.
                seen = {"state": "captured", "reason": None}
            elif seen == {"state": "released", "reason": "orphaned"} and not _provable(sight.visit):
                # The same, and what the journal had was a release: nothing is left to change.
                seen["reason"] = "no_evidence"
            if fault := contradiction(sight, seen):
                this.faults.append(f"{fault}: {sight.request_id} {sight.visit}")
        running = await self._ledger.requests(RequestFilter(state="running"))
        this.faults += [f"still running: {record.id}" for record in running]
        audit = await self._ledger.audit()
        this.captured, this.released = audit.captured, audit.released
        this.faults += audit.violations
        if audit.open_holds or audit.held_nanos:
            this.faults.append(f"held at the end: {audit.open_holds}")
        if audit.balance_nanos + audit.platform_nanos != DEPOSIT * len(KEYS) * 10**9:
            this.faults.append(f"the books do not balance: {audit}")


def _provable(visit: Visit) -> bool:
    """Its terminal comes with usage that is evidence."""
    return not any(f"usage={kind}" in visit.directive for kind in NO_EVIDENCE)


async def no_holds(ledger: Ledger, within_s: float) -> bool:
    """Wait until no hold is open; False if that takes longer."""
    with trio.move_on_after(within_s):
        while await ledger.open_holds():  # noqa: ASYNC110 - other processes are asked
            await trio.sleep(0.05)
        return True
    return False


def books_balance(audit: dict[str, Any], deposits: int) -> bool:
    """What `ledger audit` says: everything that was paid in is a balance or was captured, and nothing is held."""
    paid = Decimal(audit["balances"]) + Decimal(audit["captured_amount"])
    return bool(audit["ok"]) and audit["open_holds"] == 0 and audit["held"] == "0" and paid == deposits
