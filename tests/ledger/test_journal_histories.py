"""Random histories of processes with journals: settlements, outages, full disks, kills, starts, sweeps; one store.

At the end everything is there again and every process has ended. Then each hold that was placed was resolved exactly
once, what was confirmed was charged (or taken late, if a sweep was quicker), and the books balance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger import journal
from hoptrio.ledger.audit import audit
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import EntryKind, Hold, HoldState, Placed
from hoptrio.ledger.recover import Sweep
from hoptrio.ledger.shelf_memory import MemoryShelf
from tests.ledger.conftest import Make
from tests.ledger.test_journals import Door

BALANCE, AMOUNT = 10_000, 100
WHATS = ["place", "settle", "settle", "release", "cut", "mend", "full", "kill", "stop", "sweep", "wait", "outage"]
#: (machine, what, how much)
steps = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(WHATS),
        st.integers(0, 150),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class Machine:
    """One of two: its journals, the process that runs there, and the holds that this one has open."""

    name: str
    shelf: MemoryShelf = field(default_factory=MemoryShelf)
    started: int = 0
    open: list[Hold] = field(default_factory=list)


class History:
    """Lives one list of steps."""

    def __init__(self, make) -> None:
        self.make = make
        self.store = MemoryStore(lambda: 0)
        self.machines = [Machine("a"), Machine("b")]
        self.placed: list[Hold] = []
        #: Hold id -> what its client was told that it cost.
        self.confirmed: dict[str, int] = {}

    async def live(self, script) -> None:
        async with trio.open_nursery() as self.nursery:
            for machine in self.machines:
                await self.start(machine)
            ledger = self.machines[0].ledger
            await ledger.create_account("acme", BALANCE)
            self.key, _ = await ledger.create_key("acme")
            for which, what, amount in script:
                await getattr(self, what)(self.machines[which], amount)
            await self.end()

    async def start(self, machine) -> None:
        machine.started += 1
        machine.owner, machine.door = f"{machine.name}{machine.started}", Door(self.store)
        machine.scope, machine.open = trio.CancelScope(), []
        machine.ledger = await self.nursery.start(self.process, machine)
        machine.sweep = Sweep(machine.ledger)

    async def process(self, machine, task_status) -> None:
        machine.over = trio.Event()
        with machine.scope:
            async with memory_ledger(machine.door, owner=machine.owner, shelf=machine.shelf) as ledger:
                task_status.started(ledger)
                await trio.sleep_forever()
        machine.over.set()

    async def place(self, machine, amount) -> None:
        hold = self.make.hold(self.key, AMOUNT, owner=machine.owner)
        try:
            if isinstance(await machine.ledger.place(hold), Placed):
                self.placed.append(hold)
                machine.open.append(hold)
        except LedgerUnavailable:
            pass

    async def settle(self, machine, amount) -> None:
        await self.resolve(machine, amount)

    async def release(self, machine, amount) -> None:
        await self.resolve(machine, None)

    async def resolve(self, machine, amount) -> None:
        if not machine.open:
            return
        hold = machine.open.pop()
        resolution = self.make.release(hold) if amount is None else self.make.capture(hold, amount)
        answer = await machine.ledger.settle(resolution)
        if answer is not None:
            self.confirmed[hold.id] = answer.charge_nanos

    async def cut(self, machine, amount) -> None:
        machine.door.shut = True

    async def outage(self, machine, amount) -> None:
        for each in self.machines:
            each.door.shut = True

    async def full(self, machine, amount) -> None:
        machine.shelf.full = True

    async def mend(self, machine, amount) -> None:
        machine.door.shut = machine.shelf.full = False
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)

    async def kill(self, machine, amount) -> None:
        """While it wrote a settlement that nobody was told of, of which so many bytes arrived."""
        writing = [journal.as_record(self.make.capture(hold, amount)) for hold in machine.open[-1:]]
        machine.shelf.crash(machine.owner, torn=b"".join(writing)[: 4 * amount])
        machine.door.shut = True
        await self.stop(machine, amount)

    async def stop(self, machine, amount) -> None:
        machine.scope.cancel()
        await machine.over.wait()
        machine.shelf.full = False
        await self.start(machine)

    async def sweep(self, machine, amount) -> None:
        await machine.sweep.once()

    async def wait(self, machine, amount) -> None:
        await trio.sleep(limits.LEASE_S)
        for each in self.machines:
            await each.sweep.once()

    async def end(self) -> None:
        """All is mended, what still runs is settled, and the leases of the dead run out."""
        for machine in self.machines:
            await self.mend(machine, 0)
        for machine in self.machines:
            while machine.open:
                await self.settle(machine, 7)
        for _ in range(6):
            for machine in self.machines:
                await machine.sweep.once()
            await trio.sleep(limits.SWEEP_S)
        self.look([machine.shelf.files for machine in self.machines])
        self.nursery.cancel_scope.cancel()

    def look(self, files) -> None:
        assert [len(each) for each in files] == [1, 1], "nothing but the journals of those who run"
        assert [machine.shelf.aside for machine in self.machines] == [{}, {}]
        with self.store.books() as books:
            assert audit(books).violations == ()
        entries = self.store.entries(self.key.account.id, 0, 10_000)
        for hold in self.placed:
            row, kinds = self.store.hold(hold.id), [each.kind for each in entries if each.hold_id == hold.id]
            assert row.state is not HoldState.OPEN
            assert sorted(set(kinds) - {EntryKind.LATE_CAPTURE}) in ([EntryKind.CAPTURE], [EntryKind.RELEASE])
            assert len(kinds) == len(set(kinds))
            if hold.id in self.confirmed:
                assert row.charge_nanos == self.confirmed[hold.id] <= AMOUNT
        account = self.store.account("acme")
        assert account.held_nanos == 0
        assert account.balance_nanos == BALANCE - sum(self.store.hold(hold.id).charge_nanos for hold in self.placed)


@settings(max_examples=60)
@given(script=steps)
def test_every_hold_is_resolved_once_and_what_was_confirmed_is_charged(script):
    history = History(Make())
    trio.run(history.live, script, clock=trio.testing.MockClock(autojump_threshold=0))
