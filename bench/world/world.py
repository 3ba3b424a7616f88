"""World: one seeded run of nodes and workers among clients, providers, operators and faults, on the mock clock.

The seed decides everything, the scheduler's order included, so that a broken invariant can be met again. Every commit,
dispatch, byte to a client and end passes here and is judged at that moment (`books`, `invariants`); when the clients
are gone the weather calms, everything comes to its end, and the whole is judged once more.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import structlog.testing
import trio
import trio.testing

from bench.world import checks, draw, invariants, machine
from bench.world.books import Books, Observer, Row
from bench.world.checks import Broken, Checks
from bench.world.client import SEVERAL, UNBUFFERED, connection, visit
from bench.world.database import Database, Door, Link
from bench.world.history import History
from bench.world.machine import Machine, Worker, open_nursery
from bench.world.provider import Network, Performance, WorldProvider
from bench.world.weather import Operators, Weather
from hoptrio import limits
from hoptrio.admission.certificates import Certificates
from hoptrio.config import build
from hoptrio.exchange.gateway import Gateway
from hoptrio.ledger import recover
from hoptrio.ledger.ledger import Ledger, memory_ledger
from hoptrio.ledger.model import Hold, Resolution
from hoptrio.ledger.writer import InlineWriter
from hoptrio.metering.price import pin
from tests.support.certified import certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence

    from hoptrio.ledger.audit import AuditReport
    from hoptrio.ledger.journal import Settlement
    from hoptrio.ledger.operations import Operation, Release
    from hoptrio.upstream.client import Upstream
    from tests.support.client import Response

#: Requests a virtual second: with streams of up to ten minutes some hundred run at a time.
_RATE = 2.0
#: Of the answers to an operator's commands, so many are lost: what is asked for again must not be done again.
_OPERATORS_LOSE = 0.2
_CHOOSES_READY = 0.6
_CHOOSES_UP = 0.1
#: A dead owner's holds are resolved within this (issue of the ledger; a lease, two sweeps and what a commit takes).
ORPHANS_S = 30.0
#: In the end: the longest stream and its telling, and then the orphans of what died last.
_LAST_STREAM_S = 2000.0
#: A provider that pauses (700 s at most) notices only then that its client is gone.
_PROVIDER_NOTICES_S = 1000.0
_LINES_KEPT = 25
#: What a process says when its journal cannot be written: only the world's own disks say so.
_ON_FULL_DISKS = "the journal cannot be written"
_HOLD_ID = re.compile(r"hold_[0-9a-f]+")


@dataclass
class Summary:
    """What a run was; several add up."""

    streams: int = 0
    virtual_s: float = 0.0
    #: How streams ended, as their records and clients have it; what became of holds; what was done to the world.
    ends: Counter[str] = field(default_factory=Counter)
    settlements: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    #: Of the log of everything that happened, in order.
    digest: str = ""


def run(seed: int, streams: int, progress: Callable[[int], None] = lambda _: None) -> Summary:
    """Live one world. Raises Broken, with the history of the request that broke."""
    with _same_schedule(seed), _process_tables(), _no_threads():
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


@contextmanager
def _process_tables() -> Iterator[None]:
    """The sweep asks the simulated machine which of its processes live, and not this one's /proc."""
    module: Any = recover
    before = module.fate
    module.fate = machine.fate
    try:
        yield
    finally:
        module.fate = before


@contextmanager
def _no_threads() -> Iterator[None]:
    """Text is measured on the loop, whatever its size: the mock clock jumps while a thread works."""
    before = limits.MEASURE_INLINE_BYTES_MAX
    limits.MEASURE_INLINE_BYTES_MAX = sys.maxsize
    try:
        yield
    finally:
        limits.MEASURE_INLINE_BYTES_MAX = before


class World(Observer):
    """See the module; `live` is its life."""

    nursery: trio.Nursery
    network: Network

    def __init__(self, seed: int, streams: int, progress: Callable[[int], None]) -> None:
        self.seed = seed
        self.streams = streams
        self._progress = progress
        rng = self._rng = random.Random(seed)
        self._epoch_ms = draw.epoch_ms(rng, streams / _RATE)
        self._log = hashlib.sha256()
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._broken: Broken | None = None
        self._scope = trio.CancelScope()
        #: No more clients come.
        self._calm = trio.Event()
        self._config = draw.config(rng)
        self.built = build(self._config)
        #: (when, model -> pinned prices) of each price list.
        self._price_lists: list[tuple[float, dict[str, str]]] = []
        self._histories: dict[int, History] = {}
        self._by_hold: dict[str, History] = {}
        self._done = 0
        self._keys: list[tuple[str, str]] = []
        self.key_ids: list[str] = []
        self.accounts = list(draw.ACCOUNTS)
        self.faults: Counter[str] = Counter()
        self._checks = Checks(self._broke)
        self.database = Database(random.Random(seed + 1), trio.current_time, self.now_ms)
        self.books = Books(self.database.store, self._checks, self, trio.current_time, self.now_ms)
        self._workers: dict[str, Worker] = {}
        #: Of every worker that lives: when its lease was renewed last. Of those that died: when, while holds are open.
        self._renewed: dict[str, float] = {}
        self._died: dict[str, float] = {}
        self._machines: list[Machine] = []
        self._virtual_s = 0.0

    def now_ms(self) -> int:
        """The database's wall clock, which no machine has."""
        return self._epoch_ms + int(trio.current_time() * 1000)

    # -- life -------------------------------------------------------------------------------------------------------

    async def live(self) -> Summary:
        """Everything, then the last look at it."""
        report: AuditReport | None = None
        self.database.well_since = 0.0
        try:
            with self._scope, structlog.testing.capture_logs(processors=[self._logged]):
                async with trio.open_nursery() as self.nursery:
                    wires = await self.nursery.start(open_nursery)
                    self.network = Network(wires, WorldProvider(self._performed), random.Random(self.seed + 2))
                    door = Door(
                        self.database, Link(trio.current_time), self.books, broken=self.bug, lossy=_OPERATORS_LOSE
                    )
                    async with memory_ledger(door, owner=None, now_ms=self.now_ms) as ledger:  # type: ignore[arg-type]
                        report = await self._all(ledger)
                    self.nursery.cancel_scope.cancel()
        except Exception:
            # What breaks may raise as well, wherever it is met.
            if self._broken is None:
                raise
        if report is not None:
            self._look_at_the_end(report)
        if self._broken is not None:
            raise self._broken
        return self._summary()

    async def _all(self, ledger: Ledger) -> AuditReport:
        self._took_prices()
        await self._certify()
        await self._open_accounts(ledger)
        for number, site in enumerate(draw.sites(self._rng)):
            rng = random.Random(self.seed + 10 + number)
            made = Machine(self, site, rng)
            self._machines.append(made)
            made.boot()
        async with trio.open_nursery() as wild:
            wild.start_soon(Operators(self, ledger, random.Random(self.seed + 3)).live)
            wild.start_soon(Weather(self, random.Random(self.seed + 4)).live)
            for each in self._machines:
                wild.start_soon(each.live)
            self.nursery.start_soon(self._watch_orphans)
            await self._arrive()
        self.database.calm()
        await self._last_streams()
        self._virtual_s = trio.current_time()
        return await ledger.audit()

    async def _last_streams(self) -> None:
        """No client is left and nothing happens any more: every stream ends on its own, then every process."""
        with trio.move_on_after(_LAST_STREAM_S) as late:
            while any(worker.running for each in self._machines for worker in each.workers):  # noqa: ASYNC110
                await trio.sleep(0.5)
        self._checks.that(checks.QUIET, not late.cancelled_caught, "streams never end")
        await trio.sleep(ORPHANS_S + 1)
        self._checks.that(checks.QUIET, not self.books.open, f"open in the end: {list(self.books.open)}")
        for each in self._machines:
            each.shut_down()
        while any(each.workers for each in self._machines):  # noqa: ASYNC110 - in virtual time a poll costs nothing
            await trio.sleep(0.5)
        with trio.move_on_after(_PROVIDER_NOTICES_S):
            while self.network.connections:  # noqa: ASYNC110
                await trio.sleep(5)
        left = self.network.connections
        self._checks.that(checks.QUIET, not left, f"{left} provider connections are left")
        files = [name for each in self._machines if each.disk for name in (*each.disk.files, *each.disk.aside)]
        self._checks.that(checks.QUIET, not files, f"journals are left: {files}")

    async def still_wild(self, length_s: float) -> bool:
        """Wait, but no longer than clients come; whether they still do."""
        with trio.move_on_after(length_s):
            await self._calm.wait()
        return not self._calm.is_set()

    async def _certify(self) -> None:
        """Every channel, before anything can go wrong: the world is not about probes."""
        store = self.database.store
        store.apply(certificates(self.built.catalogue))
        self._certificates = Certificates(Ledger(store, InlineWriter(store), None, self.now_ms))
        await self._certificates.refresh()

    async def _open_accounts(self, ledger: Ledger) -> None:
        for name, deposit_nanos in draw.ACCOUNTS.items():
            await ledger.create_account(name, deposit_nanos=deposit_nanos)
            for contract in self.built.contracts:
                key, secret = await ledger.create_key(name, contract=contract, **draw.terms(self._rng))
                self._keys.append((secret, contract))
                self.key_ids.append(key.id)

    def gateway(self, ledger: Ledger, upstream: Upstream) -> Gateway:
        """What a worker runs."""
        built = self.built
        made = Gateway(
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
        made.certificates = self._certificates
        return made

    # -- clients ----------------------------------------------------------------------------------------------------

    async def _arrive(self) -> None:
        rng = self._rng
        async with trio.open_nursery() as clients:
            number = 0
            while number < self.streams:
                await trio.sleep(rng.expovariate(_RATE))
                plans = [draw.plan(rng, number, len(self._keys))]
                if plans[0].fate in SEVERAL:
                    more = min(rng.choice((0, 0, 1, 2)), self.streams - number - 1)
                    plans += [draw.plan(rng, number + 1 + i, len(self._keys)) for i in range(more)]
                number += len(plans)
                clients.start_soon(self._visit, [self._history(plan) for plan in plans])
            # What has begun goes on to its end.
            self._calm.set()

    def _history(self, plan: draw.Plan) -> History:
        contract = self.built.contracts[self._keys[plan.key][1]]
        history = History(plan, contract, lambda _: None)
        history.saw = partial(self._client_saw, history)
        self._histories[plan.number] = history
        return history

    async def _visit(self, histories: list[History]) -> None:
        """One client's requests, on as few connections as its answers allow."""
        waiting = histories
        while waiting:
            client, server = connection(waiting[0].plan.fate in UNBUFFERED)
            self.nursery.start_soon((await self._chosen()).connect, server)
            for history in waiting:
                self._note(history, "connects")
            await visit(client, waiting, self._secret)
            done = [history for history in waiting if history.sent]
            waiting = [history for history in waiting if not history.sent]
            self._done += len(done)
            self._progress(self._done)
            for history in done:
                got = [(each.status, each.clean, len(each.body)) for each in history.responses]
                self._note(history, f"client is done: {got}")

    async def _chosen(self) -> Machine:
        """A node that serves, as a load balancer sees it: mostly one that is ready; where none serves, some clients
        wait at one that is up."""
        while True:
            serving = [each for each in self._machines if each.accepting]
            ready = [each for each in serving if not each.link.cut]
            if ready and self._rng.random() < _CHOOSES_READY:
                return self._rng.choice(ready)
            if serving:
                return self._rng.choice(serving)
            up = [each for each in self._machines if each.up]
            if up and self._rng.random() < _CHOOSES_UP:
                return self._rng.choice(up)
            await trio.sleep(0.5)

    def _secret(self, history: History) -> str:
        return "sk-nobody" if history.plan.key < 0 else self._keys[history.plan.key][0]

    # -- workers ----------------------------------------------------------------------------------------------------

    def worker_started(self, worker: Worker) -> None:
        self._workers[worker.owner] = worker

    def worker_ended(self, worker: Worker) -> None:
        """Its end in order, or the end of what a crash left."""
        if not worker.crashed:
            self.say(f"{worker.owner} has ended")
            self.owner_died(worker)
        self._renewed.pop(worker.owner, None)

    def owner_died(self, worker: Worker) -> None:
        self._died[worker.owner] = trio.current_time()

    async def _watch_orphans(self) -> None:
        """Every hold of a dead owner is resolved in time, from when someone could have swept it on."""
        while True:
            await trio.sleep(1)
            if not self._died:
                continue
            held = {row.hold.owner for row in self.books.open.values()}
            able_since = min((worker.sweeping_since for each in self._machines for worker in each.workers), default=inf)
            for owner, died_at in list(self._died.items()):
                if owner not in held:
                    del self._died[owner]
                    continue
                late_s = trio.current_time() - max(died_at, able_since) - ORPHANS_S
                row = next(row for row in self.books.open.values() if row.hold.owner == owner)
                what = f"{row.hold.id} of {owner}, dead since {died_at:.1f}, is open {late_s:.1f} s too long"
                self._checks.that(checks.ORPHAN, late_s <= 0, what)

    def handled(self, worker: Worker, client_request_id: str) -> History:
        """A worker begins with a request."""
        history = self._histories[int(client_request_id[1:])]
        history.worker = worker
        history.started_at = trio.current_time()
        history.disturbed = worker.door.ill or not worker.alive
        self._note(history, f"handled by {worker.owner}")
        return history

    def over(self, history: History) -> None:
        """A worker is done with a request."""
        now = history.over_at = trio.current_time()
        self._note(history, "over")
        worker = history.worker
        if history.hold is not None and not history.disturbed:
            self._checks.that(checks.ONCE, history.settled_at is not None, "over, and not resolved", history)
        since = history.dispatched_at
        if since is not None and worker is not None and not worker.crashed:
            took_s = now - since
            in_time = took_s <= history.contract.deadline_seconds + invariants.LAST_S
            self._checks.that(checks.ANSWER, in_time, f"over {took_s} s after its dispatch", history)

    def commit_failed(self, operations: Sequence[Operation]) -> None:
        """A hold whose commit has no good answer is refused, and its client told so."""
        for operation in operations:
            if isinstance(operation, Hold):
                self._of(operation).disturbed = True

    def disturb(self) -> None:
        """What runs anywhere may be told less than the contract says of a quiet day."""
        for each in self._machines:
            each.disturb()

    def release_by_hand(self, hold_id: str) -> None:
        self._by_hold[hold_id].disturbed = True
        self.faults["hold released by hand"] += 1

    # -- prices -----------------------------------------------------------------------------------------------------

    def new_prices(self) -> None:
        """Every running worker reloads."""
        self.built = build(draw.repriced(self._rng, self._config))
        self._took_prices()
        for worker in self._workers.values():
            worker.take_prices()
        self.say("new prices")

    def _took_prices(self) -> None:
        pins = {name: pin(model.prices, model.tiers) for name, model in self.built.catalogue.models.items()}
        self._price_lists.append((trio.current_time(), pins))

    def _prices_since(self, since: float, model: str) -> set[str]:
        before = [pins for at, pins in self._price_lists if at <= since]
        after = [pins for at, pins in self._price_lists if at > since]
        return {pins[model] for pins in (*before[-1:], *after)}

    # -- what the ledger's books tell -------------------------------------------------------------------------------

    def hold_placed(self, row: Row) -> None:
        hold = row.hold
        history = self._by_hold[hold.id] = self._of(hold)
        self._note(history, f"held {hold.amount_nanos} on {hold.request.channel}")
        self._checks.that(checks.ONCE, history.row is None, "two holds", history)
        history.row = row
        history.held_at = trio.current_time()
        history.prices = hold.prices
        in_force = hold.prices in self._prices_since(history.started_at or 0.0, hold.request.model)
        self._checks.that(checks.AMOUNT, in_force, "the pinned prices were never in force", history)

    def hold_resolved(self, row: Row, operation: Resolution | Release) -> None:
        history = self._by_hold[row.hold.id]
        history.resolved_at = trio.current_time()
        record = self._take_record(history)
        self._note(history, f"{record.state} {record.reason} {record.evidence} {record.charge_nanos} {record.flags}")
        if row.reason == "orphaned":
            self._swept(row, history)
        stall_s = self.built.catalogue.models[record.model].stall_s if history.contract.stall else None
        # From a journal the gateway's word comes to the ledger when that lets it.
        said_at = history.resolved_at if history.settled_at is None else history.settled_at
        wrong = invariants.money(history, said_at, stall_s if record.stream else None)
        self._checks.none(checks.AMOUNT, wrong, history)

    def captured_late(self, row: Row) -> None:
        history = self._by_hold[row.hold.id]
        self._take_record(history)
        self._note(history, f"captured late: {row.charge_nanos}, and {row.uncollected_nanos} could not be taken")
        self._checks.none(checks.AMOUNT, invariants.captured_late(history), history)

    def _take_record(self, history: History) -> Any:
        assert history.hold is not None
        history.record = self.database.store._requests[history.hold.request.id]
        return history.record

    def hold_answered(self, row: Row) -> None:
        history = self._by_hold[row.hold.id]
        if history.settled_at is None:
            history.settled_at = trio.current_time()
            self._note(history, "its gateway's word is in the ledger")

    def journalled(self, settlements: Sequence[Settlement]) -> None:
        """A process has synced these to its machine's disk: a promise, whatever becomes of it."""
        for settlement in settlements:
            history = self._by_hold[settlement.hold_id]
            history.promised = True
            self._note(history, "journalled")
            if history.settled_at is None:
                history.settled_at = trio.current_time()

    def renewed(self, owner: str) -> None:
        now = trio.current_time()
        if now - self._renewed.get(owner, now) >= limits.LEASE_S:
            self._workers[owner].silent_until = now
        self._renewed[owner] = now

    def _swept(self, row: Row, history: History) -> None:
        """A live owner's hold may be swept only if its node was cut off, and its lease stood still, while it was there.

        Not that it still does: a sweep that found it so may meet a lock on its way, and come a moment too late.
        """
        worker = self._workers[row.hold.owner]
        silent_s = trio.current_time() - self._renewed.get(worker.owner, inf)
        silent = silent_s >= limits.LEASE_S or worker.silent_until >= row.placed_at
        lost = not worker.alive or (silent and worker.machine.link.cut_until >= row.placed_at)
        what = f"{row.hold.id} is swept, its owner {worker.owner} lives and renewed {silent_s:.1f} s ago"
        self._checks.that(checks.LIVE, lost, what, history)

    def _of(self, hold: Hold) -> History:
        return self._histories[int((hold.request.client_request_id or "")[1:])]

    # -- what provider and client see -------------------------------------------------------------------------------

    def _performed(self, performance: Performance) -> None:
        history = self._histories[performance.number]
        self._note(history, f"provider asked by {performance.prompt.framing}")
        performance.asked_at = trio.current_time()
        if history.dispatched_at is None:
            history.dispatched_at = performance.asked_at
        history.performances.append(performance)
        self._checks.none(checks.DISPATCH, invariants.dispatched(history), history)
        if history.worker is not None:
            performance.at = history.worker.at
            history.worker.at("dispatch")

    def _client_saw(self, history: History, response: Response) -> None:
        unsettled = invariants.unsettled_terminal(history, response)
        self._checks.that(checks.SETTLED, not unsettled, "an end was shown before its settlement", history)

    # -- judging ----------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """One line of the world's log."""
        line = f"{trio.current_time():.6f} {text}"
        self._lines.append(line)
        self._log.update(line.encode() + b"\n")

    def _note(self, history: History, text: str) -> None:
        history.note(trio.current_time(), text)
        self.say(f"{history.plan.number} {text}")

    def bug(self, what: str) -> None:
        """Something that no fault explains."""
        self._broke("no bug", what, None)

    def quiet(self, wrongs: Iterable[str]) -> None:
        """A process has ended; what it left."""
        self._checks.none(checks.QUIET, wrongs)

    def _broke(self, name: str, what: str, history: History | None) -> None:
        """The first invariant that breaks ends the world."""
        if self._broken is not None:
            return
        if history is None and (found := _HOLD_ID.search(what)):
            history = self._by_hold.get(found[0])
        lately = "\n".join(f"  {line}" for line in self._lines)
        self._broken = Broken(
            f"{name}: {what}\n{history or ''}\nbefore it in the world:\n{lately}\n"
            f"digest {self._log.hexdigest()[:16]} at {trio.current_time():.3f}; "
            f"again: python -m bench.world --seed {self.seed} --streams {self.streams}"
        )
        self._scope.cancel()

    def _logged(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """A bug that was contained is still a bug."""
        if event["event"].startswith(_ON_FULL_DISKS):
            return event
        if method in ("error", "exception", "critical"):
            self.bug(f"logged: {event}")
        return event

    def _look_at_the_end(self, report: AuditReport) -> None:
        self._checks.none(checks.QUIET, report.violations)
        books, store = self.books, self.database.store
        money = books.moved_nanos - books.taken_nanos + books.shared_nanos
        self._checks.that(checks.AGREES, money == report.balance_nanos, f"{report.balance_nanos} is left of {money}")
        counted = report.captured + report.released
        self._checks.that(checks.ONCE, counted == len(books.rows), f"{counted} resolutions of {len(books.rows)} holds")
        for history in self._histories.values():
            if history.hold is not None:
                known = history.hold.request.id in store._requests
                self._checks.that(checks.KEPT, known, "no record", history)
                self._kept(history)
            self._checks.none(checks.ANSWER, invariants.answer(history), history)
            self._checks.none(checks.UNDISPATCHED, invariants.undispatched(history), history)

    def _kept(self, history: History) -> None:
        """What a process that lived on had to say of a hold is in the ledger."""
        worker, row = history.worker, history.row
        lost = not history.promised and (worker is None or worker.crashed or worker.gave_up)
        self._checks.that(checks.KEPT, lost or (row is not None and row.answered), "its settlement is lost", history)

    def _summary(self) -> Summary:
        ends, settlements = Counter[str](), Counter[str]()
        for history in self._histories.values():
            ends[invariants.end(history)] += 1
        for row in self.books.rows.values():
            late = " late" if row.late else ""
            settlements[f"{row.state}{late}" + (f": {row.reason}" if row.reason else "")] += 1
        return Summary(
            streams=self._done,
            virtual_s=self._virtual_s,
            ends=ends,
            settlements=settlements,
            faults=self.faults,
            checks=self._checks.counts,
            digest=self._log.hexdigest(),
        )
