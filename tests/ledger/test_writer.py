"""Group commit: what is kept, what is given up, and what is made void when the store fails."""

from __future__ import annotations

import threading

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace

from hoptrio import limits
from hoptrio.errors import Internal, LedgerUnavailable
from hoptrio.ledger.ledger import Ledger, memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import Account, ApiKey, HoldRefusal, HoldRefused, HoldState, Placed, Resolved
from hoptrio.ledger.operations import Ping, Release, Renew
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.ledger.writer import Batcher, Pace, ThreadWriter, Ticket

DOWN = StoreUnavailable("disk full")
BUSY = StoreUnavailable("locked", busy=True)


class FakeStore:
    """Fails as it is told, then answers each operation with itself; keeps the batches."""

    inline = False

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.batches: list[list[object]] = []
        self.gate = threading.Event()
        self.gate.set()

    def apply(self, operations):
        self.gate.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        if any(operation == "bug" for operation in operations):
            raise ValueError("a bug")
        self.batches.append(list(operations))
        return list(operations)

    def close(self):
        pass


@pytest.fixture
def key():
    account = Account(id="acct_1", name="acme", balance_nanos=0, held_nanos=0, created_at_ms=0)
    return ApiKey(id="key_1", account=account, created_at_ms=0)


def tickets(*operations):
    return [Ticket(operation, lambda _: None) for operation in operations]


def test_a_batch_is_applied_in_order_and_answered():
    store = FakeStore()
    made = tickets(1, 2, 3)
    assert Batcher(store).commit(made) == made
    assert [ticket.answer for ticket in made] == [1, 2, 3]
    assert store.batches == [[1, 2, 3]]


def test_a_batch_is_bounded():
    store = FakeStore()
    Batcher(store).commit(tickets(*range(limits.COMMIT_OPS_MAX + 1)))
    assert [len(batch) for batch in store.batches] == [limits.COMMIT_OPS_MAX, 1]


def test_what_nobody_waits_for_is_dropped_unless_it_is_owed(make, wall):
    store = FakeStore()
    [ping] = tickets(Ping())
    ping.abandoned = True
    assert Batcher(store).commit([ping]) == [ping]
    assert isinstance(ping.answer, LedgerUnavailable)
    assert store.batches == [[]]


def test_a_bug_in_one_operation_fails_that_one_alone():
    made = tickets(1, "bug", 3)
    Batcher(FakeStore()).commit(made)
    assert [made[0].answer, made[2].answer] == [1, 3]
    assert isinstance(made[1].answer, Internal)


def test_behind_a_short_lock_everything_waits():
    batcher = Batcher(FakeStore(BUSY))
    made = tickets(1, 2)
    assert batcher.commit(made) == []
    assert batcher.retry_s == limits.LEDGER_RETRY_MIN_S
    assert not batcher.reachable
    assert batcher.commit([]) == made
    assert batcher.retry_s == 0
    assert batcher.reachable


def test_only_a_write_proves_that_the_store_can_be_written_again():
    batcher = Batcher(FakeStore(BUSY))
    with structlog.testing.capture_logs() as logs:
        batcher.commit(tickets(Ping(), Release("hold_that_never_was", "not_dispatched")))
        batcher.commit([])
        assert not batcher.reachable
        batcher.commit(tickets(1))
    assert batcher.reachable
    assert [line["event"] for line in logs] == ["the ledger cannot be written", "the ledger can be written again"]


def test_the_pause_between_attempts_doubles_up_to_its_bound():
    batcher = Batcher(FakeStore(*[BUSY] * 9))
    pauses = [batcher.retry_s for _ in range(9) if batcher.commit(tickets(1)) == []]
    assert pauses[:3] == [0.05, 0.1, 0.2]
    assert pauses[-1] == limits.LEDGER_RETRY_MAX_S


async def prepared(ledger):
    await ledger.create_account("acme", 1000)
    key, _ = await ledger.create_key("acme")
    return key


async def test_an_outage_refuses_holds_at_once_and_keeps_settlements(make, autojump_clock):
    store = MemoryStore()
    async with memory_ledger(store, owner="gateway") as ledger:
        key = await prepared(ledger)
        running = make.hold(key, 300)
        await ledger.place(running)
        store.outage = DOWN
        with pytest.raises(LedgerUnavailable):
            await ledger.place(make.hold(key, 1))
        assert not ledger.reachable
        assert not await ledger.ping()
        assert await ledger.settle(make.capture(running, 120)) is None
        assert trio.current_time() >= limits.SETTLE_S
        store.outage = None
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert ledger.reachable
        assert (await ledger.account("acme")).balance_nanos == 880
        assert await ledger.settle(make.capture(running, 120)) == Resolved(False, 120)


async def test_a_hold_that_took_too_long_is_dropped(make, autojump_clock):
    store = MemoryStore()
    async with memory_ledger(store, owner="gateway") as ledger:
        key = await prepared(ledger)
        store.outage = BUSY
        hold = make.hold(key, 300)
        with pytest.raises(LedgerUnavailable):
            await ledger.place(hold)
        assert trio.current_time() == pytest.approx(limits.HOLD_S)
        store.outage = None
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await ledger.hold(hold.id) is None
        assert (await ledger.account("acme")).held_nanos == 0


async def test_a_change_that_took_too_long_certainly_did_not_happen(make, autojump_clock):
    store = MemoryStore()
    async with memory_ledger(store, owner="gateway") as ledger:
        await prepared(ledger)
        store.outage = BUSY
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_mend_after, store, limits.HOLD_S + 1)
            with pytest.raises(LedgerUnavailable):
                await ledger.deposit("acme", 5)
        assert (await ledger.account("acme")).balance_nanos == 1000


async def _mend_after(store, delay_s):
    await trio.sleep(delay_s)
    store.outage = None


class UncertainStore(MemoryStore):
    """Once armed, applies the next batch and then says that the commit failed."""

    armed = False

    def apply(self, operations):
        answers = super().apply(operations)
        if self.armed:
            self.armed = False
            raise StoreUnavailable("I/O error", uncertain=True)
        return answers


async def test_a_hold_whose_commit_failed_is_made_void_in_case_it_did_not(make, autojump_clock):
    store = UncertainStore()
    async with memory_ledger(store, owner="gateway") as ledger:
        key = await prepared(ledger)
        store.armed = True
        hold = make.hold(key, 300)
        with pytest.raises(LedgerUnavailable):
            await ledger.place(hold)
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert ((await ledger.hold(hold.id)).state, (await ledger.hold(hold.id)).reason) == (
            HoldState.RELEASED,
            "not_dispatched",
        )
        assert (await ledger.account("acme")).held_nanos == 0


async def test_a_change_whose_commit_failed_is_repeated_and_happens_once(make, autojump_clock):
    store = UncertainStore()
    async with memory_ledger(store, owner="gateway") as ledger:
        key = await prepared(ledger)
        hold = make.hold(key, 300)
        await ledger.place(hold)
        store.armed = True
        assert (await ledger.deposit("acme", 5)).balance_nanos == 1005
        store.armed = True
        assert (await ledger.create_account("other", 7)).balance_nanos == 7
        store.armed = True
        made, secret = await ledger.create_key("other")
        assert await ledger.find_key(secret) == made
        store.armed = True
        assert (await ledger.settle(make.capture(hold, 120))).charge_nanos == 120
        assert (await ledger.account("acme")).balance_nanos == 885
        assert (await ledger.audit()).ok


def test_when_the_store_fails_after_a_bug_was_isolated_what_is_owed_is_kept(make, key):
    release = make.release(make.hold(key, 1))
    store = FakeStore()
    batcher = Batcher(store)
    apply = store.apply

    def fail_alone(operations):
        if operations == [release]:
            store.apply = apply
            raise DOWN
        return apply(operations)

    store.apply = fail_alone
    made = tickets("bug", release)
    assert batcher.commit(made) == made[:1]
    assert batcher.retry_s > 0
    assert batcher.commit([]) == made[1:]


async def test_closing_goes_on_with_what_is_owed_for_a_while(make, autojump_clock):
    store = MemoryStore()
    async with trio.open_nursery() as nursery:
        async with memory_ledger(store, owner="gateway") as ledger:
            key = await prepared(ledger)
            hold = make.hold(key, 300)
            await ledger.place(hold)
            store.outage = DOWN
            nursery.start_soon(_mend_after, store, limits.SETTLE_S + 5)
            assert await ledger.settle(make.release(hold)) is None
        assert store.account("acme").held_nanos == 0


def test_few_operations_never_wait_for_others():
    pace = Pace()
    for number in range(1000):
        now = 10.0 + number / (limits.COMMIT_ALONE_HZ - 1)
        assert pace.wait_s(now) == 0
        pace.began(now, 1)
    pace.began(now + 1, limits.COMMIT_ALONE_OPS)
    assert pace.wait_s(now + 1) == 0


def test_commits_of_many_operations_keep_a_distance_until_they_are_few_again():
    pace, now = Pace(), 10.0
    for _ in range(100):
        pace.began(now, 10)
        now += limits.COMMIT_EVERY_S
    assert pace.wait_s(now - 0.001) == pytest.approx(0.001)
    assert pace.wait_s(now) == 0
    few_at = now + 1000 / limits.COMMIT_ALONE_HZ
    pace.began(few_at, 1)
    assert pace.wait_s(few_at) == 0


# -- the thread --------------------------------------------------------------------------------------------------------


async def test_what_queues_during_a_commit_is_one_batch():
    store = FakeStore()
    store.gate.clear()
    writer = ThreadWriter(store)
    for ticket in tickets(*range(20)):
        writer.submit(ticket)
    store.gate.set()
    await writer.close()
    assert [number for batch in store.batches for number in batch] == list(range(20))
    assert len(store.batches) <= 2


async def test_a_queue_that_is_too_long_refuses_holds_but_no_settlement(make, key, monkeypatch):
    monkeypatch.setattr(limits, "LEDGER_QUEUE_MAX", 1)
    store = FakeStore()
    ledger = Ledger(store, ThreadWriter(store), "gateway")
    store.gate.clear()
    hold = make.hold(key, 1)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ledger.settle, make.release(hold))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(LedgerUnavailable):
            await ledger.place(hold)
        store.gate.set()
    await ledger.close()


class SlowWriter:
    """Keeps tickets for the test to answer."""

    reachable, backlog = True, 0

    def __init__(self):
        self.tickets = []

    def submit(self, ticket):
        self.tickets.append(ticket)

    async def close(self):
        pass


async def test_a_hold_that_is_committed_after_its_caller_gave_up_is_released(make, key, autojump_clock):
    writer = SlowWriter()
    ledger = Ledger(MemoryStore(), writer, "gateway")
    hold = make.hold(key, 300)
    with pytest.raises(LedgerUnavailable):
        await ledger.place(hold)
    renewal, late = writer.tickets
    assert renewal.operation == Renew("gateway")
    late.answer = Placed(0)
    late.done(late)
    assert writer.tickets[2].operation == Release(hold.id, "not_dispatched")


async def test_a_hold_that_is_refused_after_its_caller_gave_up_needs_nothing(make, key, autojump_clock):
    writer = SlowWriter()
    with pytest.raises(LedgerUnavailable):
        await Ledger(MemoryStore(), writer, "gateway").place(make.hold(key, 300))
    renewal, late = writer.tickets
    late.answer = HoldRefused(HoldRefusal.BALANCE)
    late.done(late)
    assert writer.tickets == [renewal, late]


async def test_notes_never_wait_and_are_dropped_when_too_many_wait(make, key, monkeypatch):
    monkeypatch.setattr(limits, "LEDGER_NOTES_MAX", 2)
    store = FakeStore()
    store.gate.clear()
    ledger = Ledger(store, ThreadWriter(store), "gateway")
    for _ in range(5):
        ledger.note(make.hold(key, 1).request)
    store.gate.set()
    await ledger.close()
    assert sum(len(batch) for batch in store.batches) == 2


async def test_a_note_is_known_while_it_is_on_its_way(make, key):
    writer = SlowWriter()
    ledger = Ledger(MemoryStore(), writer, "gateway")
    record = replace(make.hold(key, 1).request, state="refused", reason="insufficient_balance")
    ledger.note(record)
    assert await ledger.request(record.id) == record
    (note,) = writer.tickets
    note.done(note)
    # From now on the store is asked, which this writer told nothing.
    assert await ledger.request(record.id) is None
