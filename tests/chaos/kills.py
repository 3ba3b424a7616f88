"""Kills: a gateway that dies without a word under a crowd, again and again, on one database."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import trio

from hoptrio import limits
from tests.chaos.crowd import KEYS, Sight, visit_all, visits
from tests.chaos.trial import DEPOSIT, MODEL, contradiction, deploy, settled
from tests.support.deployment import Deployment, Server, as_records, served
from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["RESOLVED_S", "Round", "books_balance", "held", "resolved", "rounds"]

#: One sweep, and the restart's own first commit.
RESOLVED_S = limits.SWEEP_S + 2.0


@dataclass
class Round:
    """One life of the gateway and what its successor made of it."""

    killed_after_s: float
    #: Holds that were open when it died.
    open_holds: int = 0
    resolved_s: float = 0.0
    audit: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


async def rounds(directory: Path, *, seed: int, count: int, at_once: int = 100) -> AsyncIterator[Round]:
    """`count` lives, each ended by SIGKILL at a random moment under a crowd of `at_once`."""
    chance = random.Random(seed)
    with simulator() as provider:
        deployment, secrets = await deploy(directory, provider)
        for number in range(count):
            yield await _round(deployment, secrets, chance.uniform(0.1, 2.5), seed * 1000 + number, at_once)


async def _round(deployment: Deployment, secrets: dict[str, str], after_s: float, seed: int, at_once: int) -> Round:
    this = Round(killed_after_s=after_s)
    sights: list[Sight] = []
    with served(deployment) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_crowd, server, secrets, seed, at_once, sights)
            await _under_way(server, at_once // 5)
            await trio.sleep(after_s)
            server.stop(signal.SIGKILL)
            nursery.cancel_scope.deadline = trio.current_time() + 1
    this.open_holds = (await trio.to_thread.run_sync(deployment.audit))["open_holds"]
    with served(deployment) as server:
        began = trio.current_time()
        await resolved(deployment)
        this.resolved_s = trio.current_time() - began
        await settled(server)
        this.audit = await trio.to_thread.run_sync(deployment.audit)
        records = await trio.to_thread.run_sync(as_records, deployment)
    this.faults += [fault for sight in sights if (fault := contradiction(sight, records.get(sight.request_id)))]
    this.faults += [f"still running: {each['id']}" for each in records.values() if each["state"] == "running"]
    if not books_balance(this.audit, DEPOSIT * len(KEYS)):
        this.faults.append(f"the books do not balance: {this.audit}")
    return this


async def _crowd(server: Server, secrets: dict[str, str], seed: int, at_once: int, sights: list[Sight]) -> None:
    crowd = list(visits(seed, 10 * at_once))
    await visit_all(server.address, crowd, secrets, model=MODEL, at_once=at_once, done=sights.append)


async def _under_way(server: Server, count: int) -> None:
    """Wait until `count` streams run: a slow machine's random moment must not fall before the first."""
    with trio.fail_after(20):
        while (await trio.to_thread.run_sync(server.ready))[1]["streams"] < count:  # noqa: ASYNC110 - another process is asked
            await trio.sleep(0.02)


async def resolved(deployment: Deployment) -> None:
    """Wait until nothing is held; a test fails where that takes longer than the sweep may."""
    with trio.fail_after(RESOLVED_S + 2):
        while await trio.to_thread.run_sync(held, deployment):  # noqa: ASYNC110 - another process is asked
            await trio.sleep(0.1)


def held(deployment: Deployment) -> bool:
    """Some account has something held."""
    return any(account["held"] != "0" for account in deployment.command("account", "list"))


def books_balance(audit: dict[str, Any], deposits: int) -> bool:
    """Everything that was paid in is a balance or was captured, and nothing is held."""
    paid = Decimal(audit["balances"]) + Decimal(audit["captured_amount"])
    return bool(audit["ok"]) and audit["open_holds"] == 0 and audit["held"] == "0" and paid == deposits
