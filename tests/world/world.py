"""World: one seeded run of the gateway among clients, providers and operators, on the mock clock.

The seed decides everything, the scheduler's order included, so that a broken invariant can be met again. A run is a
row of gateway processes over one store: each is drained or killed at some time, and the next one takes over.
"""

from __future__ import annotations

import hashlib
import random
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog.testing
import trio
import trio.testing

from hoptrio.config import build
from hoptrio.contract import Reason
from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain
from hoptrio.errors import HoptrioError
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.metering.price import pin
from hoptrio.upstream.client import Upstream
from tests.world import draw, invariants
from tests.world.books import Books, Door
from tests.world.client import SEVERAL, UNBUFFERED, connection, visit
from tests.world.history import History
from tests.world.provider import Network, Performance, WorldProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hoptrio.downstream.connection import Exchange
    from hoptrio.ledger.audit import AuditReport
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import Hold
    from tests.support.client import Response
    from tests.world.client import Resettable

_EPOCH_MS = 1_780_000_000_000
#: Requests a virtual second: with streams of up to ten minutes some fifty run at a time.
_RATE = 2.0
#: A process lives for so long and, on average, so much more.
_LIFETIME_MIN_S = 60.0
_LIFETIME_S = 400.0
#: A drained process cuts off what is not told by then (service.run).
_LAST_WORDS_S = 15.0
_ACCOUNTS = {"large": 1000 * 10**9, "middle": 10**8, "small": 2 * 10**7}


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Summary:
    """What a run was."""

    seed: int
    streams: int
    captured: int
    released: int
    processes: int
    virtual_s: float
    #: Of the log of everything that happened, in order.
    digest: str

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.streams} streams, {self.captured} captured, {self.released} released, "
            f"{self.processes} processes, {self.virtual_s:.0f} virtual s, {self.digest[:16]}"
        )


def run(seed: int, streams: int, progress: Callable[[int], None] = lambda _: None) -> Summary:
    """Live one world. Raises Broken, with the history of the request that broke."""
    with _same_schedule(seed):
        clock = trio.testing.MockClock(autojump_threshold=0)
        return trio.run(World(seed, streams, progress).live, clock=clock)


@contextmanager
def _same_schedule(seed: int) -> Iterator[None]:
    """Trio runs ready tasks in an order drawn from its own generator; here it is the seed's."""
    core: Any = trio._core._run
    before = core._ALLOW_DETERMINISTIC_SCHEDULING, core._r.getstate()
    core._ALLOW_DETERMINISTIC_SCHEDULING = True
    core._r.seed(seed)
    try:
        yield
    finally:
        core._ALLOW_DETERMINISTIC_SCHEDULING = before[0]
        core._r.setstate(before[1])


class Process:
    """One gateway process: what is built, and how it ends."""

    def __init__(self, ledger: Ledger, door: Door, gateway: Gateway, upstream: Upstream, nursery: trio.Nursery) -> None:
        self.ledger = ledger
        self.door = door
        self.gateway = gateway
        self.handler = Handler(gateway)
        self.upstream = upstream
        #: Its connections.
        self.nursery = nursery
        self.backlogs = BacklogTotal()
        self.drain = Drain()


class World:
    """See the module; `live` is its life."""

    def __init__(self, seed: int, streams: int, progress: Callable[[int], None]) -> None:
        self.seed = seed
        self.streams = streams
        self._progress = progress
        self._rng = random.Random(seed)
        self._operator_rng = random.Random(seed + 1)
        self._log = hashlib.sha256()
        self._position = 0
        self._broken: Broken | None = None
        self._scope = trio.CancelScope()
        self._config = draw.config(self._rng)
        self._built = build(self._config)
        #: (when, model -> pinned prices) of each price list.
        self._price_lists: list[tuple[float, dict[str, str]]] = []
        self._histories: dict[int, History] = {}
        self._by_hold: dict[str, History] = {}
        #: The audit of the last process, once every stream has ended.
        self._report: AuditReport | None = None
        self._ended_at = 0.0
        self._operators = trio.CancelScope()
        self._done = 0
        self._keys: list[tuple[str, str]] = []
        self._key_ids: list[str] = []
        self._process: Process | None = None
        self._processes = 0
        self._serving = trio.Event()
        self._clients_gone = trio.Event()
        self._store = MemoryStore(_now_ms)
        self._books = Books(
            self._store, broken=self._hold_broke, placed=self._hold_placed, resolved=self._hold_resolved
        )
        self._door_rng = random.Random(seed + 3)
        self._door = Door(self._store, self._books, self._door_rng)

    # -- life -------------------------------------------------------------------------------------------------------

    async def live(self) -> Summary:
        """Everything, then the last look at it."""
        with self._scope, structlog.testing.capture_logs(processors=[self._logged]):
            async with trio.open_nursery() as nursery:
                provider_nursery = await nursery.start(_nursery)
                network = Network(provider_nursery, WorldProvider(self._performed), random.Random(self.seed + 2))
                self._took_prices()
                nursery.start_soon(self._arrive)
                nursery.start_soon(self._operate, name="operator")
                while self._report is None:
                    await self._run_process(network)
                await trio.sleep(1)
                self._demand(network.connections == 0, f"{network.connections} provider connections are left")
                nursery.cancel_scope.cancel()
        if self._broken is None:
            self._look_at_the_end()
        if self._broken is not None:
            raise self._broken
        report = self._last_report()
        return Summary(
            self.seed,
            self._done,
            report.captured,
            report.released,
            self._processes,
            self._ended_at,
            self._log.hexdigest(),
        )

    async def _run_process(self, network: Network) -> None:
        """One process from its start to its end by drain or kill, or to the end of the world."""
        while self._store.outage is not None:  # noqa: ASYNC110 - in virtual time a poll costs nothing
            await trio.sleep(0.5)
        self._processes += 1
        door = self._door = Door(self._store, self._books, self._door_rng)
        async with memory_ledger(door, owner=f"process {self._processes}", now_ms=_now_ms) as ledger:  # type: ignore[arg-type]
            if not self._keys:
                await self._open_accounts(ledger)
            async with Upstream(network.connect) as upstream, trio.open_nursery() as services:
                services.start_soon(ledger.run_sweep)
                connections = await services.start(_nursery)
                process = Process(ledger, door, self._gateway(ledger, upstream), upstream, connections)
                self._process = process
                self._serving.set()
                self._say("process starts")
                await self._end(process)
                services.cancel_scope.cancel()

    async def _end(self, process: Process) -> None:
        rng = self._operator_rng
        with trio.move_on_after(_LIFETIME_MIN_S + rng.expovariate(1 / _LIFETIME_S)):
            await self._clients_gone.wait()
        if self._clients_gone.is_set():
            await self._last_streams(process)
            return
        self._serving = trio.Event()
        self._process = None
        self._disturb()
        if rng.random() < 0.5:
            self._say("process is killed")
            process.door.dead = True
        else:
            await self._drain(process, rng.choice((0.0, 5.0, 60.0, 600.0)))
        process.nursery.cancel_scope.cancel()
        await self._nothing_left(process)

    async def _drain(self, process: Process, grace_s: float) -> None:
        """As service.run does."""
        self._say(f"process drains for {grace_s}")
        process.gateway.draining = True
        process.drain.start()
        with trio.move_on_after(grace_s):
            await self._quiet(process)
        self._disturb()
        process.gateway.registry.stop_all(Reason.SHUTDOWN)
        with trio.move_on_after(_LAST_WORDS_S):
            await self._quiet(process)
        self._disturb()

    async def _quiet(self, process: Process) -> None:
        while process.nursery.child_tasks:  # noqa: ASYNC110 - in virtual time a poll costs nothing
            await trio.sleep(0.1)

    async def _last_streams(self, process: Process) -> None:
        """No client is left: every stream ends on its own; then the last audit."""
        await self._nothing_left(process)
        self._operators.cancel()
        self._store.outage, self._door.deaf, self._door.locked = None, False, False
        await trio.sleep(80)
        self._ended_at = trio.current_time()
        self._report = await process.ledger.audit()

    async def _nothing_left(self, process: Process) -> None:
        """Every connection of a process ends, and then nothing of any stream remains."""
        with trio.move_on_after(2000) as late:
            await self._quiet(process)
        self._demand(not late.cancelled_caught, f"{len(process.nursery.child_tasks)} connections never end")
        # The rest of a provider's body is read in the background, for at most a second.
        await trio.sleep(2)
        gateway = process.gateway
        self._demand(len(gateway.registry) == 0, f"{len(gateway.registry)} streams are registered")
        self._demand(process.upstream.busy == 0, f"{process.upstream!r}")
        self._demand(process.backlogs.bytes == 0, f"{process.backlogs.bytes} bytes wait for nobody")
        busy = {name: count for name, count in gateway.load._running.items() if count}
        self._demand(not busy, f"channels still count streams: {busy}")

    def _gateway(self, ledger: Ledger, upstream: Upstream) -> Gateway:
        built = self._built
        return Gateway(
            ledger=ledger,
            upstream=upstream,
            catalogue=built.catalogue,
            contracts=built.contracts,
            contract=built.server.contract,
            max_streams=400,
            cors_origins=built.server.cors_origins,
            currency=built.ledger.currency,
            released_output_limit=0,
        )

    async def _open_accounts(self, ledger: Ledger) -> None:
        for name, deposit_nanos in _ACCOUNTS.items():
            await ledger.create_account(name, deposit_nanos=deposit_nanos)
            for contract in self._built.contracts:
                limits: dict[str, Any] = {}
                if name == "middle":
                    limits = {"max_streams": 4} if self._rng.random() < 0.5 else {}
                    if self._rng.random() < 0.3:
                        limits |= {"budget_nanos": 5 * 10**6, "budget_per": "day"}
                key, secret = await ledger.create_key(name, contract=contract, **limits)
                self._keys.append((secret, contract))
                self._key_ids.append(key.id)

    # -- clients ----------------------------------------------------------------------------------------------------

    async def _arrive(self) -> None:
        rng = self._rng
        await self._serving.wait()
        async with trio.open_nursery() as clients:
            number = 0
            while number < self.streams:
                await trio.sleep(rng.expovariate(_RATE))
                plans = [draw.plan(rng, number, len(self._keys))]
                if plans[0].fate in SEVERAL:
                    more = rng.choice((0, 0, 1, 2))
                    plans += [draw.plan(rng, number + 1 + i, len(self._keys)) for i in range(more)]
                number += len(plans)
                clients.start_soon(self._visit, [self._history(plan) for plan in plans])
        self._clients_gone.set()

    def _history(self, plan: draw.Plan) -> History:
        contract = self._built.contracts[self._keys[plan.key][1]]
        history = History(plan, contract, lambda _: None)
        history.saw = partial(self._client_saw, history)
        self._histories[plan.number] = history
        return history

    async def _visit(self, histories: list[History]) -> None:
        await self._serving.wait()
        client, server = connection(histories[0].plan.fate in UNBUFFERED)
        self._connect(server)
        for history in histories:
            self._note(history, "connects")
        await visit(client, histories, self._secret)
        self._done += len(histories)
        self._progress(self._done)
        for history in histories:
            got = [(each.status, each.clean, len(each.body)) for each in history.responses]
            self._note(history, f"client is done: {got}")

    def _secret(self, history: History) -> str:
        return "sk-nobody" if history.plan.key < 0 else self._keys[history.plan.key][0]

    def _connect(self, server: Resettable) -> None:
        process = self._process
        assert process is not None
        process.nursery.start_soon(self._serve, process, server)

    async def _serve(self, process: Process, server: Resettable) -> None:
        await serve_connection(
            server,
            partial(self._handle, process),
            refuse=process.handler.refuse,
            backlogs=process.backlogs,
            drain=process.drain,
        )

    async def _handle(self, process: Process, exchange: Exchange) -> None:
        number = int(exchange.head.header_map["x-client-request-id"][1:])
        history = self._histories[number]
        history.started_at = trio.current_time()
        history.disturbed = self._store.outage is not None or process.door.ill
        self._note(history, "handled")
        try:
            await process.handler.handle(exchange)
        finally:
            self._over(history)

    # -- operators --------------------------------------------------------------------------------------------------

    async def _operate(self) -> None:
        """Something happens every minute or so."""
        rng = self._operator_rng
        happenings = [self._outage, self._lost_answers, self._new_prices, self._deposit, self._revoke, self._disable]
        happenings.append(self._lock)
        await self._serving.wait()
        with self._operators:
            while True:
                await trio.sleep(rng.expovariate(1 / 40))
                try:
                    await rng.choice(happenings)(rng)
                except HoptrioError as refused:
                    self._say(f"operator: {type(refused).__name__}")

    async def _outage(self, rng: random.Random) -> None:
        length_s = rng.choice((0.3, 4.0, 8.0, 14.0, 60.0))
        self._say(f"outage for {length_s}")
        self._disturb()
        self._store.outage = StoreUnavailable("outage", busy=rng.random() < 0.3)
        await trio.sleep(length_s)
        self._disturb()
        self._store.outage = None
        await trio.sleep(20)

    async def _lost_answers(self, rng: random.Random) -> None:
        length_s = rng.choice((0.3, 3.0, 12.0))
        self._say(f"answers are lost for {length_s}")
        self._disturb()
        door = self._door
        door.deaf = True
        await trio.sleep(length_s)
        self._disturb()
        door.deaf = False

    async def _lock(self, rng: random.Random) -> None:
        """Another process holds the write lock: reads go on."""
        length_s = rng.choice((0.3, 3.0, 7.0, 14.0))
        self._say(f"writes are locked for {length_s}")
        self._disturb()
        door = self._door
        door.locked = True
        await trio.sleep(length_s)
        self._disturb()
        door.locked = False

    async def _new_prices(self, rng: random.Random) -> None:
        self._built = build(draw.repriced(rng, self._config))
        self._took_prices()
        if self._process is not None:
            self._process.gateway.catalogue = self._built.catalogue
        self._say("new prices")

    async def _deposit(self, rng: random.Random) -> None:
        if self._process is not None:
            await self._process.ledger.deposit(rng.choice(list(_ACCOUNTS)), rng.choice((10**6, 10**7)))
            self._say("deposit")

    async def _revoke(self, rng: random.Random) -> None:
        if self._process is not None and rng.random() < 0.2:
            await self._process.ledger.revoke_key(rng.choice(self._key_ids))
            self._say("key revoked")

    async def _disable(self, rng: random.Random) -> None:
        name = rng.choice(("small", "middle"))
        if self._process is not None:
            await self._process.ledger.disable(name)
            self._say("account disabled")
        await trio.sleep(5)
        if self._process is not None:
            await self._process.ledger.disable(name, disabled=False)

    def _took_prices(self) -> None:
        pins = {name: pin(model.prices, model.tiers) for name, model in self._built.catalogue.models.items()}
        self._price_lists.append((trio.current_time(), pins))

    # -- what is seen -----------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        """One line of the world's log."""
        self._position += 1
        self._log.update(f"{trio.current_time():.6f} {text}\n".encode())

    def _note(self, history: History, text: str) -> None:
        history.note(trio.current_time(), text)
        self._say(f"{history.plan.number} {text}")

    def _break(self, history: History | None, what: str) -> None:
        """The first invariant that breaks ends the world."""
        if self._broken is None:
            at = f"seed {self.seed}, {self.streams} streams, position {self._position}"
            self._broken = Broken(f"{what}\n{at}\n{history or ''}")
            self._scope.cancel()

    def _logged(self, logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
        """A bug that was contained is still a bug."""
        if method in ("error", "exception", "critical"):
            self._break(None, f"logged: {event}")
        return event

    def _demand(self, holds: bool, what: str) -> None:
        if not holds:
            self._break(None, what)

    def _disturb(self) -> None:
        """What runs now may be told less than the contract says of a quiet day."""
        for history in self._histories.values():
            if history.over_at is None:
                history.disturbed = True

    def _hold_broke(self, hold_id: str, what: str) -> None:
        self._break(self._by_hold.get(hold_id), what)

    def _hold_placed(self, hold: Hold) -> None:
        history = self._histories[int((hold.request.client_request_id or "")[1:])]
        self._by_hold[hold.id] = history
        self._note(history, f"held {hold.amount_nanos} on {hold.request.channel}")
        if history.hold is not None:
            self._break(history, "two holds")
        history.hold = hold
        history.held_at = trio.current_time()
        history.prices = hold.prices
        if hold.prices not in self._prices_since(history.started_at or 0.0, hold.request.model):
            self._break(history, "the pinned prices were never in force")

    def _prices_since(self, since: float, model: str) -> set[str]:
        before = [pins for at, pins in self._price_lists if at <= since]
        after = [pins for at, pins in self._price_lists if at > since]
        return {pins[model] for pins in (*before[-1:], *after)}

    def _hold_resolved(self, hold_id: str, operation: Any) -> None:
        history = self._by_hold[hold_id]
        history.resolved_at = trio.current_time()
        record = history.record = self._store._requests[self._books.holds[hold_id].request.id]
        self._note(history, f"{record.state} {record.reason} {record.evidence} {record.charge_nanos} {record.flags}")
        stall_s = self._built.catalogue.models[record.model].stall_s if history.contract.stall else None
        if not record.stream:
            stall_s = None
        for wrong in invariants.money(history, history.resolved_at, stall_s):
            self._break(history, wrong)

    def _performed(self, performance: Performance) -> None:
        history = self._histories[performance.number]
        self._note(history, f"provider asked by {performance.prompt.framing}")
        history.dispatched_at = trio.current_time()
        history.performances.append(performance)
        if history.hold is None:
            self._break(history, "dispatched without a hold")

    def _client_saw(self, history: History, response: Response) -> None:
        if invariants.unsettled_terminal(history, response):
            self._break(history, "an end was shown before its settlement")

    def _over(self, history: History) -> None:
        now = history.over_at = trio.current_time()
        self._note(history, "over")
        if history.hold is not None and history.resolved_at is None and not history.disturbed:
            self._break(history, "over, and not resolved")
        since = history.dispatched_at
        if since is not None and now - since > history.contract.deadline_seconds + invariants.LAST_S:
            self._break(history, f"over {now - since} s after its dispatch")

    def _last_report(self) -> AuditReport:
        assert self._report is not None
        return self._report

    def _look_at_the_end(self) -> None:
        report = self._last_report()
        self._demand(report.ok, f"audit: {report.violations[:5]}")
        self._demand(not self._books.open, f"{len(self._books.open)} holds are open")
        self._demand(self._books.settlements == report.captured + report.released, "the audit counts other settlements")
        for history in self._histories.values():
            if history.hold is not None and history.hold.request.id not in self._store._requests:
                self._break(history, "no record")
            for wrong in invariants.answer(history):
                self._break(history, wrong)


def _now_ms() -> int:
    return _EPOCH_MS + int(trio.current_time() * 1000)


async def _nursery(task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
    """A nursery in a task of its own, so that cancelling it cancels nothing else."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()
