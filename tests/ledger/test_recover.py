"""The sweep: the holds of dead owners are released, those of live ones never."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import trio

from hoptrio import limits
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import HoldState
from hoptrio.ledger.operations import Release
from hoptrio.ledger.owner import Fate, fate, this_process
from hoptrio.ledger.recover import Sweep, recover
from hoptrio.ledger.store import StoreUnavailable


async def hold_of(ledger, make):
    """An open hold of the ledger's own process."""
    if await ledger.account("acme") is None:
        await ledger.create_account("acme", 1000)
    key, _ = await ledger.create_key("acme")
    hold = make.hold(key, 100, owner=ledger.owner)
    await ledger.place(hold)
    return hold


async def left_by(process, make, count=1):
    """The holds that a process left open."""
    async with process as ledger:
        return [await hold_of(ledger, make) for _ in range(count)]


async def test_a_lease_that_stands_still_is_a_dead_owner(make, autojump_clock):
    store = MemoryStore()
    [hold] = await left_by(memory_ledger(store, owner="a"), make)
    async with memory_ledger(store, owner="b") as ledger, trio.open_nursery() as nursery:
        nursery.start_soon(ledger.run_sweep)
        await trio.sleep(limits.LEASE_S - 0.1)
        assert (await ledger.hold(hold.id)).state is HoldState.OPEN
        await trio.sleep(limits.SWEEP_S)
        assert ((await ledger.hold(hold.id)).state, (await ledger.hold(hold.id)).reason) == (
            HoldState.RELEASED,
            "orphaned",
        )
        assert (await ledger.request(hold.request.id)).reason == "orphaned"
        nursery.cancel_scope.cancel()


async def test_each_stream_of_a_dead_owner_is_told_of_once_however_many_look(make, autojump_clock):
    store, told = MemoryStore(), []
    holds = await left_by(memory_ledger(store, owner="a"), make, count=3)
    async with (
        memory_ledger(store, owner="b") as first,
        memory_ledger(store, owner="c") as second,
        trio.open_nursery() as nursery,
    ):
        for ledger in (first, second):
            nursery.start_soon(ledger.run_sweep, lambda record, account: told.append((record, account)))
        await trio.sleep(limits.LEASE_S + 2 * limits.SWEEP_S)
        nursery.cancel_scope.cancel()
    assert sorted(record.id for record, _ in told) == sorted(hold.request.id for hold in holds)
    assert {(record.reason, record.state, record.model, account) for record, account in told} == {
        ("orphaned", "released", holds[0].request.model, "acme")
    }


async def test_the_holds_of_a_live_owner_stay_whatever_the_clocks_say(make, autojump_clock):
    store = MemoryStore(lambda: 0)
    async with (
        memory_ledger(store, owner="a") as first,
        memory_ledger(store, owner="b") as second,
        trio.open_nursery() as nursery,
    ):
        holds = [await hold_of(first, make), await hold_of(second, make)]
        nursery.start_soon(first.run_sweep)
        nursery.start_soon(second.run_sweep)
        await trio.sleep(600)
        assert [(await first.hold(hold.id)).state for hold in holds] == [HoldState.OPEN] * len(holds)
        nursery.cancel_scope.cancel()


async def test_after_an_outage_everyone_gets_a_whole_lease(make, autojump_clock):
    store = MemoryStore()
    [hold] = await left_by(memory_ledger(store, owner="a"), make)
    async with memory_ledger(store, owner="b") as ledger, trio.open_nursery() as nursery:
        nursery.start_soon(ledger.run_sweep)
        await trio.sleep(limits.LEASE_S - 1)
        store.outage = StoreUnavailable("down")
        await trio.sleep(limits.LEASE_S)
        store.outage = None
        await trio.sleep(limits.LEASE_S - 0.1)
        assert (await ledger.hold(hold.id)).state is HoldState.OPEN
        await trio.sleep(2 * limits.SWEEP_S)
        assert (await ledger.hold(hold.id)).state is HoldState.RELEASED
        nursery.cancel_scope.cancel()


async def test_one_that_was_cut_off_alone_loses_no_hold_that_it_places_when_it_is_back(make, autojump_clock):
    """Its lease has stood still for the others; what it places before its sweep renews must not look orphaned."""
    store = MemoryStore()
    async with (
        memory_ledger(store, owner="a") as back,
        memory_ledger(store, owner="b") as other,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(other.run_sweep)
        await trio.sleep(2 * limits.LEASE_S)
        hold = await hold_of(back, make)
        await trio.sleep(limits.LEASE_S - limits.SWEEP_S)
        assert (await back.hold(hold.id)).state is HoldState.OPEN
        nursery.cancel_scope.cancel()


async def test_an_owner_that_renews_while_its_holds_are_listed_keeps_them(make, autojump_clock):
    store = MemoryStore()
    async with memory_ledger(store, owner="a") as back, memory_ledger(store, owner="b") as other:
        hold = await hold_of(back, make)
        sweep = Sweep(other)
        await sweep.once()
        await trio.sleep(limits.LEASE_S)
        listed = other.open_holds

        async def renewed_meanwhile(owner):
            await back.renew()
            return await listed(owner)

        other.open_holds = renewed_meanwhile
        assert await sweep.once() == 0
        assert (await back.hold(hold.id)).state is HoldState.OPEN


async def test_a_lock_that_makes_the_sweep_wait_counts_against_nobody(make, autojump_clock):
    """Two locks: the watcher meets only their ends and is never refused, the owner meets their beginnings."""
    store = MemoryStore()
    locked = StoreUnavailable("locked", busy=True)
    async with (
        memory_ledger(store, owner="a") as owner,
        memory_ledger(store, owner="b") as watcher,
        trio.open_nursery() as nursery,
    ):
        hold = await hold_of(owner, make)
        nursery.start_soon(owner.run_sweep)
        await trio.sleep(3)
        nursery.start_soon(watcher.run_sweep)
        for quiet_s, locked_s in ((1.9, 6.0), (1.0, 6.0)):
            await trio.sleep(quiet_s)
            store.outage = locked
            await trio.sleep(locked_s)
            store.outage = None
        await trio.sleep(60)
        assert (await owner.hold(hold.id)).state is HoldState.OPEN
        nursery.cancel_scope.cancel()


async def test_its_own_holds_are_not_swept(make, autojump_clock):
    async with memory_ledger(owner="a") as ledger:
        hold = await hold_of(ledger, make)
        sweep = Sweep(ledger)
        for _ in range(10):
            assert await sweep.once() == 0
            await trio.sleep(limits.LEASE_S)
        assert (await ledger.hold(hold.id)).state is HoldState.OPEN


async def test_an_owner_that_this_machine_knows_to_be_dead_is_resolved_at_once(engine, make):
    [hold] = await left_by(engine.open(_dead_process()), make)
    async with engine.open(this_process()) as ledger:
        own = await hold_of(ledger, make)
        assert await recover(ledger) == 1
        assert (await ledger.hold(hold.id)).reason == "orphaned"
        assert (await ledger.hold(own.id)).state is HoldState.OPEN
        assert await recover(ledger) == 0


async def test_of_an_owner_with_another_journal_nobody_here_knows_what_it_had_settled(make, autojump_clock):
    """Its next start has a lease to apply its journal; those who share the journal know at once."""
    store = MemoryStore()
    theirs = _dead_process(journal="theirs")
    [hold] = await left_by(memory_ledger(store, owner=theirs), make)
    async with memory_ledger(store, owner=this_process("ours")) as ledger:
        sweep = Sweep(ledger)
        assert await sweep.once() == 0
        await trio.sleep(limits.LEASE_S)
        assert await sweep.once() == 1
    [hold] = await left_by(memory_ledger(store, owner=theirs), make)
    async with memory_ledger(store, owner=this_process("theirs")) as ledger:
        assert await recover(ledger) == 1
        assert (await ledger.hold(hold.id)).reason == "orphaned"


async def test_a_hold_that_cannot_be_released_keeps_nobody_from_the_others(make, autojump_clock):
    """A row that somebody damaged behind the ledger's back."""
    store = MemoryStore()
    await left_by(memory_ledger(store, owner="damaged"), make)
    [hold] = await left_by(memory_ledger(store, owner="dead"), make)
    apply = store.apply

    def refusing(operations):
        if any(isinstance(each, Release) and store.hold(each.hold_id).owner == "damaged" for each in operations):
            raise ValueError("the row breaks a rule")
        return apply(operations)

    store.apply = refusing
    async with memory_ledger(store, owner="gateway") as ledger:
        sweep = Sweep(ledger)
        await sweep.once()
        await trio.sleep(limits.LEASE_S)
        assert await sweep.once() == 1
        assert (await ledger.hold(hold.id)).reason == "orphaned"


async def test_more_orphans_than_one_commit_takes_are_all_released(engine, make, monkeypatch):
    monkeypatch.setattr(limits, "COMMIT_OPS_MAX", 4)
    await left_by(engine.open(_dead_process()), make, 10)
    async with engine.open() as ledger:
        assert await recover(ledger) == 10
        assert (await ledger.account("acme")).held_nanos == 0


def _dead_process(journal: str = "") -> str:
    command = f"from hoptrio.ledger.owner import this_process; print(this_process({journal!r}))"
    return subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_what_a_machine_knows_of_a_process():
    assert this_process() == this_process()
    assert fate(this_process()) is Fate.ALIVE
    assert fate(_dead_process()) is Fate.DEAD
    host, machine, pid, start = this_process().split(":")
    assert fate(f"{host}:{machine}:{pid}:{int(start) + 1}") is Fate.DEAD
    assert fate(f"{host}:elsewhere:{pid}:{start}") is Fate.UNKNOWN
    assert fate("gateway") is Fate.UNKNOWN
