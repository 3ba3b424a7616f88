"""Machine: a node with its own clock, its link to the database, its workers and what its supervisor does about them.

A `Worker` is one gateway process: its own `Gateway`, `Ledger` and `Upstream`, as `hoptrio.service.run` nests them. It
ends by a drain, or it crashes: then its door is shut and its sockets break in the same step, before any of its tasks
is cancelled, so that nothing of what these still do reaches anyone. The supervisor's rules are those of
`hoptrio.service.supervisor`, which lives among real processes and cannot run here.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import trio

from bench.world.database import Door, Link
from bench.world.disk import Disk
from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain
from hoptrio.errors import LedgerUnavailable
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.owner import Fate
from hoptrio.service.run import LAST_WORDS_S
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from bench.world.client import Resettable
    from bench.world.draw import Site
    from bench.world.history import History
    from bench.world.world import World
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.journal import Settlement
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.operations import Operation

#: Where a crash may be laid: at the door, at the provider, and in the code that begins.
MOMENTS = (
    "before hold",
    "after hold",
    "dispatch",
    "mid-stream",
    "terminal",
    "before capture",
    "after capture",
    "before sweep",
    "after sweep",
)
#: Where there are journals.
JOURNAL_MOMENTS = ("before journal", "after journal", "adoption")
#: A crash that was laid and never met comes anyway.
_CRASH_ANYWAY_S = 60.0
#: The process whose code runs.
_HERE: ContextVar[Worker] = ContextVar("worker")
_NEVER_ENDS_S = 2000.0
#: How often a drain looks whether its last connection has ended.
_LOOK_S = 0.5


def fate(owner: str) -> Fate:
    """`hoptrio.ledger.owner.fate`, which asks /proc: here the table of the machine whose worker asks."""
    here = _HERE.get(None)
    worker = None if here is None else here.machine.processes.get(owner)
    if worker is None:
        return Fate.UNKNOWN
    return Fate.ALIVE if worker.alive else Fate.DEAD


class Worker:
    """One gateway process. `alive` until it crashed or its ledger is closed."""

    def __init__(self, world: World, machine: Machine, owner: str) -> None:
        self._world = world
        self.machine = machine
        self.owner = owner
        self.door = Door(
            world.database, machine.link, world.books, broken=world.bug, at=self.at, failed=self._commit_failed
        )
        self.alive = True
        self.crashed = False
        #: It ended in order, and its ledger still owed something.
        self.gave_up = False
        self.ready_at = inf
        #: When its lease was renewed after it had stood still for as long as it lasts; -inf if it never has.
        self.silent_until = -inf
        self.accepting = False
        #: Set when nothing of it runs for others any more: a crash, or the end of a drain.
        self.ended = trio.Event()
        self.ready_or_ended = trio.Event()
        self.drain = Drain()
        self.running: dict[int, History] = {}
        self.sockets: dict[Resettable, None] = {}
        self.wires: dict[trio.CancelScope, None] = {}
        self._crash_at: str | None = None
        self._grace_s = 0.0
        self._retiring = False
        self._told = trio.Event()
        self._gateway: Gateway | None = None
        self._connections: trio.Nursery | None = None

    @property
    def stopping(self) -> bool:
        """It was told to end."""
        return self._told.is_set()

    @property
    def sweeping_since(self) -> float:
        """Since when it could watch the leases of others; inf = it cannot."""
        if not self.alive or self._connections is None:
            return inf
        return max(self.ready_at, self._world.database.connected_since(self.machine.link))

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """From start to end; what a crash leaves is unwound behind it."""
        _HERE.set(self)
        try:
            async with memory_ledger(
                self.door,  # type: ignore[arg-type]
                owner=self.owner,
                shelf=self.machine.disk,
                now_ms=self.machine.now_ms,
            ) as ledger:
                async with (
                    Upstream(partial(self._world.network.connect, self)) as upstream,
                    trio.open_nursery() as services,
                ):
                    services.start_soon(ledger.run_sweep)
                    self._connections = await services.start(open_nursery)
                    await self._serve(ledger, upstream)
                    services.cancel_scope.cancel()
                self._connections = None
            self.gave_up = not self.crashed and ledger._writer.backlog > 0
        except* LedgerUnavailable:
            # As in the product: no lease, no gateway.
            self._world.say(f"{self.owner} cannot start")
        self._over()

    def _over(self) -> None:
        self.alive = self.accepting = False
        self.ready_or_ended.set()
        self.ended.set()
        self._world.worker_ended(self)

    async def _serve(self, ledger: Ledger, upstream: Upstream) -> None:
        gateway = self._gateway = self._world.gateway(ledger, upstream)
        self.handler = Handler(gateway)
        self.backlogs = BacklogTotal()
        self.at("start")
        self.ready_at = trio.current_time()
        self.accepting = not self.crashed
        self.ready_or_ended.set()
        self.machine.changed()
        self._world.say(f"{self.owner} is ready")
        await self._told.wait()
        if not self.crashed:
            await self._drain(gateway)
        assert self._connections is not None
        self._connections.cancel_scope.cancel()
        await self._nothing_left(gateway, upstream)

    async def _drain(self, gateway: Gateway) -> None:
        """As `hoptrio.service.run` does."""
        self._world.say(f"{self.owner} drains for {self._grace_s}")
        gateway.draining = not self._retiring
        self.drain.start()
        with trio.move_on_after(self._grace_s):
            await self._quiet()
        self.disturb()
        gateway.registry.stop_all(Reason.SHUTDOWN)
        with trio.move_on_after(LAST_WORDS_S):
            await self._quiet()
        self.disturb()

    async def _quiet(self) -> None:
        while not self.crashed and self._connections is not None and self._connections.child_tasks:  # noqa: ASYNC110
            await trio.sleep(_LOOK_S)

    async def _nothing_left(self, gateway: Gateway, upstream: Upstream) -> None:
        """Every connection ends, and then nothing of any stream remains, whatever the end was."""
        assert self._connections is not None
        with trio.move_on_after(_NEVER_ENDS_S) as late:
            while self._connections.child_tasks:  # noqa: ASYNC110 - in virtual time a poll costs nothing
                await trio.sleep(_LOOK_S)
        # The rest of a provider's body is read in the background, for at most a second.
        await trio.sleep(2)
        busy = {name: count for name, count in gateway.load._running.items() if count}
        left = [
            (late.cancelled_caught, "connections never end"),
            (len(gateway.registry), f"{len(gateway.registry)} streams are registered"),
            (upstream.busy, repr(upstream)),
            (self.backlogs.bytes, f"{self.backlogs.bytes} bytes wait for nobody"),
            (busy, f"channels still count streams: {busy}"),
        ]
        self._world.quiet(f"{self.owner}: {what}" for wrong, what in left if wrong)

    # -- orders -----------------------------------------------------------------------------------------------------

    def stop(self, grace_s: float, *, retiring: bool = False) -> None:
        """SIGTERM, or RETIRE when another has taken its place."""
        self._grace_s, self._retiring = grace_s, retiring
        self.accepting = False
        self._told.set()

    def crash_at(self, moment: str) -> None:
        """Lay a crash at one of `MOMENTS`."""
        self._crash_at = moment

    def at(self, moment: str) -> None:
        """The process is at this moment of some stream's life."""
        if moment == self._crash_at and self.alive:
            self.crash(moment)

    def crash(self, where: str) -> None:
        """kill -9: from this step on nothing of it reaches anyone."""
        if not self.alive:
            return
        self._world.say(f"{self.owner} is killed {where}")
        self._world.faults[f"worker killed {where}"] += 1
        self.crashed, self.alive, self.accepting = True, False, False
        self.door.close_for_good()
        if self.machine.disk is not None:
            self.machine.disk.die(self.owner)
        self.disturb()
        for socket in self.sockets:
            socket.die()
        for wire in self.wires:
            wire.cancel()
        self._told.set()
        self.ready_or_ended.set()
        self.ended.set()
        self._world.owner_died(self)

    def journalled(self, settlements: Sequence[Settlement]) -> None:
        """These are on the machine's disk."""
        self._world.journalled(settlements)

    def take_prices(self) -> None:
        """SIGHUP."""
        if self._gateway is not None:
            self._gateway.catalogue = self._world.built.catalogue

    # -- connections ------------------------------------------------------------------------------------------------

    def accept(self, socket: Resettable) -> None:
        """Serve a connection."""
        assert self._connections is not None
        self._connections.start_soon(self._serve_socket, socket)

    async def _serve_socket(self, socket: Resettable) -> None:
        self.sockets[socket] = None
        try:
            await serve_connection(
                socket, self._handle, refuse=self.handler.refuse, backlogs=self.backlogs, drain=self.drain
            )
        finally:
            del self.sockets[socket]

    async def _handle(self, exchange: Exchange) -> None:
        history = self._world.handled(self, exchange.head.header_map["x-client-request-id"])
        self.running[history.plan.number] = history
        try:
            await self.handler.handle(exchange)
        finally:
            del self.running[history.plan.number]
            self._world.over(history)

    def disturb(self) -> None:
        """What runs here now may be told less than the contract says of a quiet day."""
        for history in self.running.values():
            history.disturbed = True

    def _commit_failed(self, operations: Sequence[Operation]) -> None:
        self._world.commit_failed(operations)


class Machine:
    """One node."""

    def __init__(self, world: World, site: Site, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self.name = site.name
        self._count = site.workers
        self._skew_ms = site.skew_ms
        self.disk = Disk(_HERE.get, rng) if site.journal else None
        self.link = Link(trio.current_time)
        self.up = True
        self.workers: list[Worker] = []
        #: What this boot's /proc knows, dead ones included.
        self.processes: dict[str, Worker] = {}
        self._pids = 0
        self._boot = 0
        self._change = trio.Event()
        #: How many workers to come die at their start.
        self.doomed = 0

    def now_ms(self) -> int:
        """This machine's own clock."""
        return self._world.now_ms() + self._skew_ms

    @property
    def serving(self) -> list[Worker]:
        """Those that run and were not told to end, or are about to run."""
        return [worker for worker in self.workers if worker.alive and not worker.stopping]

    @property
    def accepting(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.accepting]

    def changed(self) -> None:
        """Wake what waits for a worker."""
        self._change.set()
        self._change = trio.Event()

    async def connect(self, socket: Resettable) -> None:
        """The listening socket outlives every worker, so a connection waits for the next one; not for the next boot."""
        while self.up:
            ready = self.accepting
            if ready:
                self._rng.choice(ready).accept(socket)
                return
            await self._change.wait()
        socket.die()

    # -- the supervisor ---------------------------------------------------------------------------------------------

    def boot(self, *, same_machine: bool = False) -> None:
        """Start every worker. After a reboot nothing is known of the processes before."""
        self.up = True
        self._boot += 1
        if not same_machine:
            self.processes.clear()
        for _ in range(self._count):
            self._world.nursery.start_soon(self._keep, self._boot)
        self.changed()

    async def _keep(self, boot: int, task_status: trio.TaskStatus[Worker] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep one worker running until it is told to stop; what crashes is started again, later each time."""
        restart_s = 0.0
        while boot == self._boot and self.up:
            worker = self._start()
            await worker.ready_or_ended.wait()
            task_status.started(worker)
            task_status = trio.TASK_STATUS_IGNORED
            await worker.ended.wait()
            if len(self.serving) >= self._count:
                return
            stable = worker.ready_at + limits.WORKER_STABLE_S <= trio.current_time()
            longer = min(max(2 * restart_s, limits.WORKER_RESTART_MIN_S), limits.WORKER_RESTART_MAX_S)
            restart_s = 0.0 if stable else longer
            await trio.sleep(restart_s)

    def _start(self) -> Worker:
        self._pids += 1
        worker = Worker(self._world, self, f"{self.name}:boot{self._boot}:{self._pids}:{self._pids}")
        self.workers.append(worker)
        self.processes[worker.owner] = worker
        self._world.worker_started(worker)
        if self.doomed:
            self.doomed -= 1
            worker.crash_at("start")
        self._world.nursery.start_soon(self._live, worker)
        return worker

    async def _live(self, worker: Worker) -> None:
        await worker.run()
        self.workers.remove(worker)

    # -- what happens to it -----------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Something happens every minute or two, until the world is calm; what has begun goes on to its end."""
        happenings = (
            [self.kill_one] * 5 + [self.kill_all] * 2 + [self.lose_power] * 2 + [self.crash_loop] * 1
            + [self.roll] * 2 + [self.restart] * 2 + [self.cut_off] * 4 + [self.fill_disk]
        )  # fmt: skip
        while await self._world.still_wild(6 + self._rng.expovariate(1 / 30)):
            await self._rng.choice(happenings)()
        self.doomed = 0

    async def kill_one(self) -> None:
        """A worker crashes, at a moment of some stream's life or at any."""
        ready = self.accepting
        if not ready:
            return
        worker = self._rng.choice(ready)
        if self._rng.random() < 0.3:
            worker.crash("at any time")
            return
        worker.crash_at(self._moment())
        with trio.move_on_after(_CRASH_ANYWAY_S):
            await worker.ended.wait()
        worker.crash("at any time")

    def _moment(self) -> str:
        return self._rng.choice(MOMENTS if self.disk is None else MOMENTS + JOURNAL_MOMENTS)

    async def fill_disk(self) -> None:
        """Nothing can be written to the machine's disk: the database confirms alone."""
        if self.disk is None:
            return
        self._world.faults["disk full"] += 1
        self._world.say(f"the disk of {self.name} is full")
        self.disk.full = True
        await self._world.still_wild(self._rng.choice((1.0, 10.0, 40.0)))
        self.disk.full = False

    async def kill_all(self) -> None:
        """All processes of the machine are killed, the supervisor too, and started again by whoever does that."""
        await self._down("killed", self._rng.choice((0.5, 3.0, 20.0, 45.0)), same_machine=True)

    async def lose_power(self) -> None:
        """The machine stops and boots again: nothing is known of its processes before."""
        await self._down("lost power", self._rng.choice((5.0, 14.0, 30.0, 70.0)), same_machine=False)

    async def _down(self, how: str, length_s: float, *, same_machine: bool) -> None:
        self._world.faults[f"node {how}"] += 1
        self.up = False
        for worker in list(self.workers):
            worker.crash(f"when its node was {how}")
        self.changed()
        await trio.sleep(length_s)
        self.boot(same_machine=same_machine)

    async def crash_loop(self) -> None:
        """The next workers die as they start; the supervisor waits longer each time."""
        self._world.faults["crash loop"] += 1
        self.doomed = self._rng.randint(2, 6)
        if self.accepting:
            self._rng.choice(self.accepting).crash("before a crash loop")

    async def roll(self) -> None:
        """A rolling restart: each worker is told to retire when another is ready."""
        self._world.faults["rolling restart"] += 1
        for old in self.accepting:
            new = await self._world.nursery.start(self._keep, self._boot)
            if not new.accepting:
                return
            if old.alive:
                self._stop(old, self._rng.choice((5.0, 60.0, 600.0)), retiring=True)

    def _stop(self, worker: Worker, grace_s: float, *, retiring: bool = False) -> None:
        """Some are killed while they drain."""
        if self._rng.random() < 0.2:
            worker.crash_at(self._moment())
        worker.stop(grace_s, retiring=retiring)

    async def restart(self) -> None:
        """A planned restart under load: SIGTERM to all, and the next start when all have ended."""
        self._world.faults["drain"] += 1
        grace_s = self._rng.choice((0.0, 5.0, 60.0, 600.0))
        for worker in self._halt():
            self._stop(worker, grace_s)
        for worker in list(self.workers):
            await worker.ended.wait()
        await trio.sleep(self._rng.choice((0.0, 2.0, 20.0)))
        self.boot(same_machine=True)

    def shut_down(self) -> None:
        """For good, in order."""
        for worker in self._halt():
            worker.stop(0.0)

    def _halt(self) -> list[Worker]:
        """From now on no worker is started; those that run."""
        self._boot += 1
        return list(self.workers)

    async def cut_off(self) -> None:
        """The machine does not reach the database, and serves on."""
        length_s = self._rng.choice((0.5, 4.0, 12.0, 18.0, 25.0, 40.0, 70.0))
        self._world.faults["node cut off from the database"] += 1
        self._world.say(f"{self.name} is cut off for {length_s}")
        self.disturb()
        self.link.cut_off()
        await trio.sleep(length_s)
        self.link.heal()
        self.disturb()

    def disturb(self) -> None:
        for worker in self.workers:
            worker.disturb()


async def open_nursery(task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
    """A nursery in a task of its own, so that cancelling it cancels nothing else."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()
