"""Run: provider, database, gateway, crowd, disturbances and samples together, and what is left when all have gone."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from bench.books import Balance, Books
from bench.contestants.hoptrio import DEPOSIT_NANOS, INPUT_NANOS, OUTPUT_NANOS
from bench.process import fetch, module, running
from bench.provider import Served
from bench.reconcile import Prices, reconcile, reconcile_balance
from bench.soak.again import with_second_requests
from bench.soak.crowd import Crowd
from bench.soak.database import database
from bench.soak.disturber import Disturber
from bench.soak.gateway import serving
from bench.soak.result import Audit, End
from bench.soak.sampler import Sampler, figures, measured
from bench.soak.visit import visits
from bench.soak.visitor import AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.cores import Cores
    from bench.process import Running
    from bench.reconcile import Reconciled
    from bench.soak.crowd import Ended
    from bench.soak.database import Database
    from bench.soak.gateway import Gateway
    from bench.soak.sampled import Mark, Process, Sample
    from bench.soak.schedule import Plan

__all__ = ["Lived", "Load", "Told", "soak"]

_RUN = 1
#: What streams whose clients left early and holds of dead workers are given.
_SETTLED_S = 90.0
_POLL_S = 0.3
_IDLE_S = 1.0
_END_S = 150.0


class Load(NamedTuple):
    """Visits a second on average, and at most so many at a time; no answer is meant to take longer than `longest_s`.
    What idles is given `quiet_s` to be closed when everybody has left."""

    rate: float = 2.2
    at_once: int = 60
    longest_s: float = 60.0
    seed: int = 1
    quiet_s: float = 90.0


class Told(NamedTuple):
    """Whom to tell: what is being done ("" = nothing in particular), and each sample."""

    step: Callable[[str], None]
    sample: Callable[[Sample], None]


class Lived(NamedTuple):
    """Everything that a run leaves for its report."""

    samples: tuple[Sample, ...]
    marks: tuple[Mark, ...]
    ended: tuple[Ended, ...]
    end: End
    #: When the last visit began.
    loaded_s: float
    interrupted: bool


def soak(plan: Plan, load: Load, kind: str, cores: Cores, out: Path, told: Told) -> Lived:
    """One run on a database of that kind; its samples and the gateway's log are written to `out` as they come. SIGINT
    or SIGTERM ends it early. Raises RuntimeError if something does not start."""
    samples, log = out / "samples.jsonl", out / "gateway.log"
    for each in (samples, log):
        each.unlink(missing_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hoptrio-soak-")))
        told.step(f"{kind} starts")
        store = stack.enter_context(database(kind, folder))
        provider = stack.enter_context(running("the provider", module("bench.provider", "0"), cores=cores.provider))
        port = int(provider.await_line(str.strip))
        told.step("the gateway starts")
        gateway = stack.enter_context(serving(folder, log, port, store, cores, _RUN))
        told.step("")
        return trio.run(_Run(plan, load, gateway, store, provider, port, samples, told).run)


class _Run:
    """One run."""

    def __init__(
        self,
        plan: Plan,
        load: Load,
        gateway: Gateway,
        store: Database,
        provider: Running,
        port: int,
        samples: Path,
        told: Told,
    ) -> None:
        self._plan = plan
        self._gateway = gateway
        self._provider = provider
        self._port = port
        self._told = told
        self._interrupted = False
        self._over = trio.Event()
        self._quiet_s = load.quiet_s
        self._books = Books(store.place, DEPOSIT_NANOS, INPUT_NANOS, OUTPUT_NANOS)
        self._crowd = Crowd(
            gateway.door,
            visits(load.seed, _RUN, longest_s=load.longest_s),
            rate=load.rate,
            at_once=load.at_once,
            seed=load.seed,
        )
        self._sampler = Sampler(gateway, self._crowd, self._books, samples, told.sample)
        self._disturber = Disturber(gateway, store, told.step)

    async def run(self) -> Lived:
        """All of it."""
        await trio.sleep(_IDLE_S)
        before = measured(self._gateway, private=True)
        loaded_s = await self._load()
        self._told.step("everybody has left")
        await self._quiet()
        return Lived(
            tuple(self._sampler.samples),
            tuple(self._disturber.marks),
            tuple(self._crowd.ended),
            await trio.to_thread.run_sync(self._ending, before),
            loaded_s,
            self._interrupted,
        )

    async def _load(self) -> float:
        """Until the plan's end or a signal, which is the time that is returned, and until the last client has left."""
        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sampler.run, began_s)
            nursery.start_soon(self._heed)
            async with trio.open_nursery() as crowd:
                crowd.start_soon(self._crowd.run, began_s)
                async with trio.open_nursery() as disturbances:
                    disturbances.start_soon(self._disturber.run, self._plan.turns, began_s)
                    with trio.move_on_at(began_s + self._plan.lasts_s):
                        await self._over.wait()
                    disturbances.cancel_scope.cancel()
                loaded_s = trio.current_time() - began_s
                self._crowd.stop()
                self._told.step("the last streams")
            nursery.cancel_scope.cancel()
        return loaded_s

    async def _heed(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                self._interrupted = True
                self._over.set()

    async def _quiet(self) -> None:
        """Nothing runs, and nothing is held; those that left early are read to their end."""
        with trio.move_on_after(_SETTLED_S):
            while True:
                found = figures(await trio.to_thread.run_sync(self._gateway.metrics))
                holds = found.get("holds")
                if found.get("streams") == 0 and holds is not None and not sum(holds.values()):
                    return
                await trio.sleep(_POLL_S)

    def _ending(self, before: tuple[Process, ...]) -> End:
        """With nobody there any more: what is left, how it ends, and what the ledger says. Blocks."""
        served = msgspec.json.decode(fetch(self._port, f"/seen/{_RUN}"), type=list[Served])
        # The pool may keep idle connections to a provider that lives; of one that is gone nothing may stay.
        self._provider.end()
        after = self._idle(before)
        self._told.step("the gateway ends")
        status = self._gateway.end(_END_S)
        self._told.step("the ledger is audited")
        found = self._reconciled(served)
        return End(
            before=before,
            after=after,
            exit_status=status,
            audit=_audit(self._gateway.config),
            reconciled=msgspec.structs.replace(found, wrong=(*found.wrong, *self._unbalanced(found.charged_nanos))),
            logged=_errors(self._gateway.log),
        )

    def _idle(self, before: tuple[Process, ...]) -> tuple[Process, ...]:
        """The processes when their descriptors are as few as they were, or when that took too long."""
        until = time.monotonic() + self._quiet_s
        most = max(each.descriptors for each in before)
        while True:
            after = measured(self._gateway, private=True)
            if max(each.descriptors for each in after) <= most or time.monotonic() > until:
                return after
            time.sleep(_POLL_S)

    def _reconciled(self, served: list[Served]) -> Reconciled:
        """Every stream, by what its client, the provider and the ledger say."""
        books = self._books
        told = with_second_requests(books.lines(_RUN), books.lines(_RUN, AGAIN), served)
        seen = [each.seen for each in self._crowd.ended]
        prices = Prices(books.input_nanos, books.output_nanos)
        found = reconcile(seen, told.served, told.lines, prices, deaths=True)
        return msgspec.structs.replace(found, wrong=(*told.wrong, *found.wrong))

    def _unbalanced(self, charged_nanos: int) -> Iterator[str]:
        books, balance = self._books, self._books.balance()
        yield from reconcile_balance(Balance(books.deposit_nanos, 0), balance, charged_nanos)
        if balance.balance_nanos != books.deposit_nanos - books.captured_nanos():
            yield "the balance is not the sum of its entries"


def _audit(config: Path) -> Audit:
    """What the command says; it may say that the ledger is wrong."""
    argv = module("hoptrio", "ledger", "audit", "--config", str(config), "--json")
    done = subprocess.run(argv, capture_output=True, check=False, timeout=600)
    return msgspec.json.decode(done.stdout, type=Audit)


def _errors(log: Path) -> dict[str, int]:
    """Lines at level error, by their event."""
    found: Counter[str] = Counter()
    for text in log.read_text(errors="replace").splitlines():
        if not text.startswith("{"):
            if "Traceback" in text:
                found["traceback"] += 1
            continue
        line = json.loads(text)
        if line.get("level") in ("error", "critical"):
            found[str(line.get("event"))] += 1
    return dict(found)
