"""What dead processes have left in their journals is applied exactly once, before anybody calls their holds orphans."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from structlog.testing import capture_logs

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger import journal
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import EntryKind, HoldState, Placed
from hoptrio.ledger.operations import Release
from hoptrio.ledger.owner import Fate
from hoptrio.ledger.recover import Sweep, recover
from hoptrio.ledger.shelf_memory import MemoryShelf
from hoptrio.ledger.store import StoreUnavailable

DOWN = StoreUnavailable("no route to host")


class Door:
    """The store as one process reaches it, until it is cut off from it."""

    inline = reads_inline = True

    def __init__(self, store):
        self._store = store
        self.shut = False

    def __getattr__(self, name):
        return _no_way if self.shut and name != "close" else getattr(self._store, name)


def _no_way(*_):
    raise StoreUnavailable("no route to host")


class Node:
    """A machine: its journals, and its processes, which it can prove dead or not."""

    def __init__(self, name, store):
        self.name = name
        self.store = store
        self.shelf = MemoryShelf()

    @asynccontextmanager
    async def process(self, number):
        """A running process: (its ledger, its door)."""
        door = Door(self.store)
        async with memory_ledger(door, owner=f"{self.name}{number}", shelf=self.shelf) as ledger:
            yield ledger, door

    async def left_by(self, number, make, *, settled=2, open_=1, torn=b""):
        """Holds of a process that was cut off, settled some of them and was killed: (settled ones, others)."""
        async with self.process(number) as (ledger, door):
            holds = [await placed(ledger, make) for _ in range(settled + open_)]
            door.shut = True
            for hold in holds[:settled]:
                assert await ledger.settle(make.capture(hold, 20, provider_ids=(f"resp_{hold.id}",)))
            self.shelf.crash(ledger.owner, torn)
        return holds[:settled], holds[settled:]


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def node(store):
    return Node("a", store)


@pytest.fixture
def dead(monkeypatch):
    """Owners that a machine proves dead."""
    names = set()
    monkeypatch.setattr("hoptrio.ledger.recover.fate", lambda name: Fate.DEAD if name in names else Fate.UNKNOWN)
    return names


async def placed(ledger, make, amount_nanos=100):
    if await ledger.account("acme") is None:
        await ledger.create_account("acme", 1000)
        await ledger.create_key("acme")
    [key] = await ledger.keys()
    hold = make.hold(key, amount_nanos, owner=ledger.owner)
    assert isinstance(await ledger.place(hold), Placed)
    return hold


async def states(ledger, holds):
    return [((await ledger.hold(hold.id)).state.value, (await ledger.hold(hold.id)).charge_nanos) for hold in holds]


async def test_what_a_dead_process_settled_is_applied_and_the_rest_of_its_holds_is_released(
    node, make, dead, autojump_clock
):
    settled, orphans = await node.left_by(1, make)
    dead.add("a1")
    async with node.process(2) as (ledger, _):
        with capture_logs() as logs:
            assert await recover(ledger) == 1
        assert await states(ledger, settled) == [("captured", 20)] * 2
        assert await states(ledger, orphans) == [("released", 0)]
        assert (await ledger.audit()).violations == ()
        assert len(node.shelf.files) == 1, "its own"
        assert [(each["event"], each["settlements"], each["new"]) for each in logs] == [("journal adopted", 2, 2)]
        assert await ledger.owners_of([f"resp_{settled[0].id}"])


async def test_what_was_applied_before_is_applied_no_second_time(node, store, make, dead, autojump_clock):
    settled, _ = await node.left_by(1, make)
    again = {name: bytes(data) for name, data in node.shelf.files.items()}
    dead.add("a1")
    async with node.process(2) as (ledger, _):
        await recover(ledger)
        entries = await ledger.entries(settled[0].request.account_id)
        node.shelf.files |= {name: bytearray(data) for name, data in again.items()}
        with capture_logs() as logs:
            await recover(ledger)
        assert [(each["settlements"], each["new"]) for each in logs] == [(2, 0)]
        assert await ledger.entries(settled[0].request.account_id) == entries
        assert (await ledger.audit()).violations == ()


async def test_a_record_that_was_being_written_is_left_out(node, make, dead, autojump_clock):
    await node.left_by(1, make, torn=journal.as_record(Release("hold_0001", "not_dispatched"))[:-1])
    dead.add("a1")
    async with node.process(2) as (ledger, _):
        await recover(ledger)
        assert (await ledger.account("acme")).balance_nanos == 960
        assert node.shelf.aside == {}


async def test_a_damaged_journal_is_applied_as_far_as_it_reads_and_set_aside(node, make, dead, autojump_clock):
    settled, _ = await node.left_by(1, make, settled=3)
    [data] = node.shelf.files.values()
    data[data.index(settled[1].id.encode())] ^= 1
    before = bytes(data)
    dead.add("a1")
    async with node.process(2) as (ledger, _):
        with capture_logs() as logs:
            assert await recover(ledger) == 2
        assert await states(ledger, settled) == [("captured", 20), ("released", 0), ("captured", 20)]
        assert [(each["event"], each["damaged"], each["log_level"]) for each in logs] == [
            ("a journal is set aside", True, "error")
        ]
    assert list(map(bytes, node.shelf.aside.values())) == [before]


async def test_settlements_of_another_database_are_set_aside(node, make, dead, autojump_clock):
    await node.left_by(1, make)
    node.store = MemoryStore()
    async with node.process(2) as (ledger, _):
        with capture_logs() as logs:
            await recover(ledger)
        assert [(each["event"], each["refused"]) for each in logs] == [("a journal is set aside", 2)]


async def test_an_owner_whose_journal_another_process_has_waits(node, make, dead, autojump_clock):
    settled, orphans = await node.left_by(1, make)
    dead.add("a1")
    async with node.process(2) as (adopting, door), node.process(3) as (other, _):
        door.shut = True
        with trio.move_on_after(1):
            await adopting.adopt()
        assert await recover(other) == 0
        assert await states(other, orphans) == [("open", 0)]
        door.shut = False
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await recover(adopting) == 1
        assert await states(other, settled + orphans) == [("captured", 20)] * 2 + [("released", 0)]
        assert (await other.audit()).violations == ()


async def test_an_adoption_that_an_outage_interrupts_goes_on_where_it_was(
    node, make, dead, autojump_clock, monkeypatch
):
    monkeypatch.setattr(limits, "COMMIT_OPS_MAX", 2)
    settled, orphans = await node.left_by(1, make, settled=5)
    dead.add("a1")
    async with node.process(2) as (ledger, door):
        door.shut = True
        began = trio.current_time()
        assert await ledger.adopt() == {"a1", "a2"}
        assert trio.current_time() - began == limits.SWEEP_S, "the own lease must not stand still"
        assert await recover(ledger) == 0
        door.shut = False
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await recover(ledger) == 1
        assert await states(ledger, settled + orphans) == [("captured", 20)] * 5 + [("released", 0)]


async def test_who_ends_before_the_adoption_is_done_leaves_it_to_the_next(node, make, dead, autojump_clock):
    settled, _ = await node.left_by(1, make)
    dead.add("a1")
    async with node.process(2) as (ledger, door):
        door.shut = True
        await ledger.adopt()
    async with node.process(3) as (ledger, _):
        assert await recover(ledger) == 1
        assert await states(ledger, settled) == [("captured", 20)] * 2


# -- two nodes ---------------------------------------------------------------------------------------------------------


async def test_a_hold_that_was_released_elsewhere_becomes_a_late_capture(node, store, make, autojump_clock):
    other = Node("b", store)
    async with node.process(1) as (cut_off, door), other.process(1) as (ledger, _), trio.open_nursery() as nursery:
        hold = await placed(cut_off, make)
        nursery.start_soon(cut_off.run_sweep)
        nursery.start_soon(ledger.run_sweep)
        await trio.sleep(60)
        assert (await ledger.hold(hold.id)).state is HoldState.OPEN
        door.shut = True
        await trio.sleep(limits.LEASE_S + 2 * limits.SWEEP_S)
        assert (await ledger.hold(hold.id)).reason == "orphaned"
        assert (await cut_off.settle(make.capture(hold, 20))).charge_nanos == 20
        door.shut = False
        await trio.sleep(limits.SWEEP_S)
        row = await ledger.hold(hold.id)
        assert (row.state, row.late, row.charge_nanos) == (HoldState.RELEASED, True, 20)
        assert (await ledger.account("acme")).balance_nanos == 980
        assert (await ledger.audit()).violations == ()
        nursery.cancel_scope.cancel()


async def test_a_late_capture_takes_what_is_there_and_no_balance_is_negative(node, store, make, autojump_clock):
    settled, _ = await node.left_by(1, make, settled=1, open_=0)
    async with Node("b", store).process(1) as (ledger, _):
        assert await ledger.release(settled[0].id, "its node is lost")
        await ledger.adjust("acme", -995, "paid out")
    async with node.process(2) as (ledger, _):
        await ledger.adopt()
        kinds = {each.kind: each for each in await ledger.entries(settled[0].request.account_id)}
        assert (kinds[EntryKind.LATE_CAPTURE].amount_nanos, kinds[EntryKind.UNCOLLECTED].memo_nanos) == (-5, 15)
        assert (await ledger.account("acme")).balance_nanos == 0
        assert (await ledger.audit()).violations == ()


async def test_after_an_outage_of_all_nodes_nothing_is_released_and_everything_is_settled(
    node, store, make, autojump_clock
):
    other = Node("b", store)
    async with node.process(1) as (one, _), other.process(1) as (two, _), trio.open_nursery() as nursery:
        holds = [await placed(each, make) for each in (one, one, two, two)]
        nursery.start_soon(one.run_sweep)
        nursery.start_soon(two.run_sweep)
        await trio.sleep(20)
        store.outage = DOWN
        await trio.sleep(3 * limits.LEASE_S)
        for ledger, hold in zip((one, two), (holds[0], holds[2]), strict=True):
            assert (await ledger.settle(make.capture(hold, 20))).first
            with pytest.raises(LedgerUnavailable):
                await ledger.place(make.hold(only_key(store), 1, owner=ledger.owner))
            assert not await ledger.ping()
        store.outage = None
        await trio.sleep(limits.LEASE_S - 1)
        assert await states(one, holds) == [("captured", 20), ("open", 0)] * 2
        assert await one.ping()
        await trio.sleep(600)
        assert await states(one, holds) == [("captured", 20), ("open", 0)] * 2, "live owners keep what they hold"
        nursery.cancel_scope.cancel()


def only_key(store):
    outage, store.outage = store.outage, None
    [key] = store.keys(None)
    store.outage = outage
    return key


async def test_a_node_that_never_comes_back_gives_its_holds_up_after_one_lease(node, store, make, autojump_clock):
    settled, orphans = await node.left_by(1, make)
    async with Node("b", store).process(1) as (ledger, _), trio.open_nursery() as nursery:
        nursery.start_soon(Sweep(ledger).run)
        await trio.sleep(limits.LEASE_S - 1)
        assert await states(ledger, settled + orphans) == [("open", 0)] * 3
        await trio.sleep(2 * limits.SWEEP_S)
        assert await states(ledger, settled + orphans) == [("released", 0)] * 3
        nursery.cancel_scope.cancel()
    async with node.process(2) as (ledger, _):
        await ledger.adopt()
        assert await states(ledger, settled + orphans) == [("released", 20), ("released", 20), ("released", 0)]
        assert (await ledger.audit()).violations == ()
