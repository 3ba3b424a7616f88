"""The trial: a crowd in front of a real gateway, and what must be true of it when the crowd has gone."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil
import trio

from hoptrio.ledger.ledger import open_ledger
from hoptrio.money import NANOS
from tests.chaos.crowd import KEYS, Sight, visit_all, visits
from tests.support.deployment import Deployment, Server, as_records, config_for, served
from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["DEPOSIT", "MODEL", "RSS_GROWTH_MAX", "Measure", "Report", "contradiction", "deploy", "run", "settled"]

MODEL = "sim-small"
#: What each account of the crowd starts with.
DEPOSIT = 100_000
RSS_GROWTH_MAX = 20 * 1024 * 1024
#: The longest stream has a deadline of 14 s; the gateway's bounds behind it are a few seconds each.
SETTLED_S = 40.0
#: Broken idle connections to the provider are swept every 10 s.
QUIET_S = 25.0
#: Streams before the memory counts as warmed up: caches, pools and the allocator's arenas have grown by then.
WARM_UP_SHARE = 5
_TERMINAL_ENDS = {("captured", None), ("captured", "no_evidence"), ("released", "no_evidence")}


@dataclass(frozen=True)
class Measure:
    """What a gateway process holds."""

    descriptors: int
    tasks: int
    streams: int
    rss: int


@dataclass
class Report:
    """What was seen and counted."""

    streams: int = 0
    seconds: float = 0.0
    base: Measure | None = None
    warm: Measure | None = None
    after: Measure | None = None
    audit: dict[str, Any] = field(default_factory=dict)
    balances: dict[str, tuple[str, str]] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    behaviours: Counter[str] = field(default_factory=Counter)
    #: What must not be: one line each.
    faults: list[str] = field(default_factory=list)
    exit_status: int | None = None


async def deploy(directory: Path, provider: str, *, url: str | None = None) -> tuple[Deployment, dict[str, str]]:
    """A deployment with an account and a key for each contract of the crowd; the keys' secrets by contract.

    `url` is its ledger's; by default a file of its own.

    Deadlines are short, or a provider that hangs would hang the trial; "patient" waits for the stall clock (10 s).
    """
    config = config_for(provider)
    config["contracts"] = {
        f"{preset}-now": {"preset": preset, "deadline_seconds": 2.5, "keepalive_seconds": 0.2}
        for preset in ("hoptrio", "hopbase", "anypath")
    }
    config["contracts"]["patient-now"] = {"preset": "hoptrio", "deadline_seconds": 14}
    config["server"] |= {"contract": "hoptrio-now", "shutdown_grace_seconds": 5}
    config["models"][MODEL]["stall_seconds"] = 10
    config["channels"]["simulated"]["max_streams"] = 2_000
    config["ledger"]["url"] = url or config["ledger"]["url"]
    deployment = Deployment(directory, config)
    secrets = {}
    async with open_ledger(deployment.url) as ledger:
        for name in KEYS:
            await ledger.create_account(name, DEPOSIT * NANOS)
            secrets[name] = (await ledger.create_key(name, contract=f"{name}-now"))[1]
    return deployment, secrets


async def run(
    directory: Path,
    *,
    seed: int,
    streams: int,
    at_once: int,
    limits: Mapping[str, float] | None = None,
    progress: Callable[[Sight], None] = lambda _: None,
) -> Report:
    """Send the crowd, wait until all is quiet, and look at everything. `limits`: other than the product's own."""
    report = Report(streams=streams)
    began = time.perf_counter()
    with ExitStack() as stack:
        provider = stack.enter_context(ExitStack())
        url = provider.enter_context(simulator())
        deployment, secrets = await deploy(directory, url)
        server = stack.enter_context(served(deployment, limits=limits))
        crowd = list(visits(seed, streams))
        sights: list[Sight] = []

        async def send(part: slice) -> None:
            def done(sight: Sight) -> None:
                sights.append(sight)
                progress(sight)

            await visit_all(server.address, crowd[part], secrets, model=MODEL, at_once=at_once, done=done)

        warm_up = max(1, streams // WARM_UP_SHARE)
        await send(slice(0, 1))
        report.base = await settled(server)
        await send(slice(1, warm_up))
        report.warm = await settled(server)
        await send(slice(warm_up, None))
        await settled(server)
        # The pool may keep idle connections to a provider that lives; of one that is gone nothing may stay.
        await trio.to_thread.run_sync(provider.close)
        report.after = await quiet(server, report.base)
        report.audit = await trio.to_thread.run_sync(deployment.audit)
        records = await trio.to_thread.run_sync(as_records, deployment)
        report.balances = {name: deployment.balance(name) for name in KEYS}
        report.exit_status = await trio.to_thread.run_sync(server.stop)
        report.faults += [f"logged: {line}"[:300] for line in server.logged(level="error")]
    report.seconds = time.perf_counter() - began
    _compare(report, sights, records)
    return report


def measure(server: Server) -> Measure:
    """What the gateway holds now."""
    state = server.ready()[1]
    process = psutil.Process(server.pid)
    return Measure(process.num_fds(), state["tasks"], state["streams"], process.memory_info().rss)


async def settled(server: Server) -> Measure:
    """Wait until no stream runs."""
    return await _until(server, lambda now: now.streams == 0, SETTLED_S)


async def quiet(server: Server, base: Measure) -> Measure:
    """Wait until descriptors and tasks are back at the base line; what they are then, or when that took too long."""
    return await _until(server, lambda now: now.descriptors <= base.descriptors and now.tasks <= base.tasks, QUIET_S)


async def _until(server: Server, holds: Callable[[Measure], bool], wait_s: float) -> Measure:
    until = trio.current_time() + wait_s
    while not holds(now := await trio.to_thread.run_sync(measure, server)) and trio.current_time() < until:  # noqa: ASYNC110 - another process is asked
        await trio.sleep(0.2)
    return now


def _compare(report: Report, sights: list[Sight], records: dict[str, dict[str, Any]]) -> None:
    """What the clients saw against what the ledger says."""
    for record in records.values():
        report.states[record["state"]] += 1
        report.reasons[record["reason"] or "complete"] += 1
        if record["state"] == "running" or record["reason"] == "internal":
            report.faults.append(f"{record['state']} for {record['reason']}: {record['id']}")
    for sight in sights:
        report.statuses[sight.status] += 1
        report.behaviours[sight.visit.behaviour] += 1
        fault = _fault(sight, records.get(sight.request_id))
        if fault:
            report.faults.append(f"{fault}: {sight.status} {sight.request_id} {sight.visit}")


def _fault(sight: Sight, record: dict[str, Any] | None) -> str:
    visit = sight.visit
    waited = visit.behaviour == "reads" or (visit.behaviour == "stalls" and visit.moment >= 0.3)
    if waited and not sight.status:
        return "a client that waited saw no answer"
    if sight.status and not sight.request_id:
        return "an answer without X-Request-Id"
    if waited and record is not None and record["reason"] == "not_dispatched":
        return "a client that waited was not served"
    if sight.status == 500:
        return "the gateway's own failure"
    if visit.plain and not (sight.terminal and record is not None and record["state"] == "captured"):
        return f"nothing went wrong, and yet {record and (record['state'], record['reason'])}, clean {sight.clean}"
    return contradiction(sight, record)


def contradiction(sight: Sight, record: dict[str, Any] | None) -> str:
    """A client that saw its terminal saw a stream that is settled, and captured unless it had no evidence."""
    if not sight.terminal or (record is not None and (record["state"], record["reason"]) in _TERMINAL_ENDS):
        return ""
    return f"a terminal was seen, and the ledger says {record and (record['state'], record['reason'])}"
