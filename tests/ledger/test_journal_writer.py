"""A ledger with a journal: what is confirmed when, and what becomes of it, whatever the store and the disk do."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing
from msgspec.structs import replace
from structlog.testing import capture_logs

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable, NotFound
from hoptrio.ledger import journal
from hoptrio.ledger.journal_writer import JournalWriter, ThreadScribe
from hoptrio.ledger.journals import Journals
from hoptrio.ledger.ledger import Ledger, memory_ledger, open_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import HoldState, Placed, RequestFilter, Resolved
from hoptrio.ledger.operations import Release
from hoptrio.ledger.recover import Sweep
from hoptrio.ledger.shelf_memory import MemoryShelf
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.ledger.writer import InlineWriter, ThreadWriter, Ticket

DOWN = StoreUnavailable("no route to host")


class Machine:
    """A store beyond this machine, and this machine's journals."""

    def __init__(self):
        self.store = MemoryStore()
        self.shelf = MemoryShelf()

    def ledger(self, owner="gateway"):
        return memory_ledger(self.store, owner=owner, shelf=self.shelf)

    def cut_off(self, *, full=False):
        self.store.outage = DOWN
        self.shelf.full = full

    def mend(self):
        self.store.outage = None
        self.shelf.full = False

    @property
    def journalled(self):
        """What every journal holds."""
        return [each for data in self.shelf.files.values() for each in journal.read(bytes(data)).settlements]


@pytest.fixture
def machine():
    return Machine()


async def placed(ledger, make, amount_nanos=300, **changes):
    if await ledger.account("acme") is None:
        await ledger.create_account("acme", 1000)
        await ledger.create_key("acme")
    [key] = await ledger.keys()
    hold = make.hold(key, amount_nanos, owner=ledger.owner, **changes)
    assert isinstance(await ledger.place(hold), Placed)
    return hold


async def test_a_settlement_is_confirmed_during_an_outage_and_applied_once_it_is_over(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.cut_off()
        assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
        assert trio.current_time() == 0
        assert not ledger.reachable
        with pytest.raises(LedgerUnavailable):
            await ledger.place(hold)
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert (await ledger.account("acme")).balance_nanos == 880
        assert (await ledger.hold(hold.id)).state is HoldState.CAPTURED
        assert (await ledger.audit()).ok


async def test_in_good_times_it_takes_the_same_way(machine, make):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        settlement = make.capture(hold, 120)
        assert await ledger.settle(settlement) == Resolved(True, 120)
        assert machine.journalled == [settlement]
        assert (await ledger.account("acme")).balance_nanos == 880
    assert machine.shelf.files == {}


@pytest.mark.parametrize(("amount", "flags"), [(120, ()), (300, ()), (301, ("clamped",)), (0, ()), (None, ())])
@pytest.mark.parametrize("supplier", ["", "maker"])
async def test_what_is_reckoned_is_what_the_store_says(machine, make, autojump_clock, amount, flags, supplier):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make, supplier=supplier, revenue_share_nanos=500_000_000 if supplier else 0)
        settlement = make.release(hold) if amount is None else make.capture(hold, amount)
        machine.cut_off()
        answer = await ledger.settle(settlement)
        assert answer == Resolved(True, min(amount or 0, 300), flags)
        reckoned = await ledger.request(hold.request.id)
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await ledger.settle(settlement) == replace(answer, first=False, flags=())
        assert await ledger.request(hold.request.id) == reckoned == machine.store.request(hold.request.id)
        assert (await ledger.audit()).ok


async def test_what_is_journalled_reads_as_settled(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.cut_off()
        await ledger.settle(make.capture(hold, 120))
        record = await ledger.request(hold.request.id)
        assert (record.state, record.charge_nanos, record.hold_nanos) == ("captured", 120, 300)
        machine.mend()
        assert (await ledger.request(hold.request.id)) == record
        assert machine.store.request(hold.request.id).state == "running"


async def test_provider_ids_that_are_journalled_are_known(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.cut_off()
        await ledger.settle(make.capture(hold, 1, provider_ids=("resp_1", "resp_2")))
        made = (hold.request.account_id, "c")
        assert await ledger.owners_of(["resp_1", "resp_2"]) == {"resp_1": made, "resp_2": made}
        machine.mend()
        assert await ledger.owners_of(["resp_1", "resp_9"]) == {"resp_1": made}
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await ledger.owners_of(["resp_2"]) == {"resp_2": made}


async def test_a_sibling_reads_what_this_machine_has_journalled(machine, make, autojump_clock):
    async with machine.ledger("a") as first, machine.ledger("b") as second:
        hold = await placed(first, make)
        assert (await second.request(hold.request.id)).state == "running"
        machine.cut_off()
        await first.settle(make.capture(hold, 120, provider_ids=("resp_1",)))
        machine.mend()
        record = await second.request(hold.request.id)
        assert record == await first.request(hold.request.id)
        assert (record.state, record.charge_nanos) == ("captured", 120)
        assert await second.owners_of(["resp_1", "resp_9"]) == {"resp_1": (hold.request.account_id, "c")}


async def test_a_repeated_settlement_is_told_so_wherever_the_first_one_is(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.cut_off()
        assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
        assert await ledger.settle(make.release(hold)) == Resolved(False, 120)
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert await ledger.settle(make.release(hold)) == Resolved(False, 120)
        assert machine.journalled == [make.capture(hold, 120)]


async def test_a_settlement_of_a_hold_that_never_was_is_the_stores_to_refuse(machine, make):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        stranger = replace(hold, id="hold_never")
        with pytest.raises(NotFound):
            await ledger.settle(make.capture(stranger, 1))
        assert await ledger.settle(make.release(stranger)) == Resolved(False, 0)
        assert machine.journalled == []


async def test_when_the_disk_is_full_the_store_confirms(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        holds = [await placed(ledger, make, 100) for _ in range(3)]
        machine.shelf.full = True
        with capture_logs() as logs:
            for hold in holds[:2]:
                assert await ledger.settle(make.capture(hold, 20)) == Resolved(True, 20)
        assert [each["event"] for each in logs] == ["the journal cannot be written; the database confirms alone"]
        assert machine.store.account("acme").balance_nanos == 960
        machine.mend()
        assert await ledger.settle(make.capture(holds[2], 20)) == Resolved(True, 20)
        assert machine.journalled == [make.capture(holds[2], 20)]


async def test_when_neither_takes_it_it_is_not_confirmed_and_goes_on_being_tried(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.cut_off(full=True)
        assert await ledger.settle(make.capture(hold, 120)) is None
        assert trio.current_time() == limits.SETTLE_S
        with pytest.raises(LedgerUnavailable):
            await ledger.request(hold.request.id)
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert (await ledger.account("acme")).balance_nanos == 880
        assert await ledger.settle(make.capture(hold, 120)) == Resolved(False, 120)


async def test_a_hold_that_was_placed_too_late_is_made_void_by_the_journal(machine, make, autojump_clock):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        answers = []
        ticket = Ticket(Release(hold.id, "not_dispatched"), answers.append)
        machine.cut_off()
        ledger._writer.submit(ticket)
        assert [each.answer for each in answers] == [Resolved(True, 0)]
        assert machine.journalled == [Release(hold.id, "not_dispatched")]
        assert (await ledger.request(hold.request.id)).reason == "not_dispatched"


async def test_evidence_behind_a_release_by_hand_is_a_late_capture(machine, make):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        assert await ledger.release(hold.id, "stuck") == Resolved(True, 0)
        assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
        row = await ledger.hold(hold.id)
        assert (row.state, row.late, row.charge_nanos) == (HoldState.RELEASED, True, 120)
        assert (await ledger.request(hold.request.id)).flags == ("late_capture",)


async def test_new_holds_are_refused_while_too_much_waits(machine, make, monkeypatch, autojump_clock):
    async with machine.ledger() as ledger:
        holds = [await placed(ledger, make, 100) for _ in range(3)]
        [key] = await ledger.keys()
        monkeypatch.setattr(limits, "JOURNAL_BYTES_MAX", 2 * len(journal.as_record(make.capture(holds[0], 20))))
        machine.cut_off()
        await ledger.settle(make.capture(holds[0], 20))
        assert not ledger._journals.full
        await ledger.settle(make.capture(holds[1], 20))
        machine.store.outage = StoreUnavailable("locked", busy=True)
        with pytest.raises(LedgerUnavailable, match="too many settlements"):
            await ledger.place(make.hold(key, 1))
        assert await ledger.settle(make.capture(holds[2], 20)) == Resolved(True, 20), "settlements are never refused"
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        await placed(ledger, make, 100)


async def test_space_is_taken_back_and_what_counts_stays(machine, make, monkeypatch, autojump_clock):
    monkeypatch.setattr(limits, "JOURNAL_RECLAIM_BYTES", 2_000)
    async with machine.ledger() as ledger:
        for _ in range(20):
            await ledger.settle(make.capture(await placed(ledger, make, 30), 20))
            [data] = machine.shelf.files.values()
            assert len(data) < 3_000
        holds = [await placed(ledger, make, 30) for _ in range(20)]
        machine.cut_off()
        for hold in holds:
            await ledger.settle(make.capture(hold, 20))
        assert machine.journalled[-20:] == [make.capture(hold, 20) for hold in holds]
        machine.mend()
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert len(machine.journalled) < 5
        assert (await ledger.account("acme")).balance_nanos == 1000 - 40 * 20


async def test_closing_during_an_outage_leaves_the_journal_and_says_so(machine, make, autojump_clock):
    with capture_logs() as logs:
        async with machine.ledger() as ledger:
            holds = [await placed(ledger, make, 100) for _ in range(3)]
            await ledger.settle(make.release(holds[0]))
            machine.cut_off()
            for hold in holds[1:]:
                await ledger.settle(make.capture(hold, 20))
    assert logs[1:] == [{"event": "settlements stay in the journal", "settlements": 2, "log_level": "warning"}]
    assert logs[0]["event"] == "the ledger cannot be written"
    machine.mend()
    async with machine.ledger("next") as ledger:
        await Sweep(ledger).once()
        assert (await ledger.account("acme")).balance_nanos == 960
        assert (await ledger.audit()).violations == ()
    assert machine.shelf.files == {}


class StubbornStore(MemoryStore):
    """Has a bug in every settlement once armed."""

    armed = False

    def apply(self, operations):
        if self.armed and any(hasattr(each, "hold_id") for each in operations):
            raise ValueError("a bug")
        return super().apply(operations)


async def test_what_the_store_refuses_after_it_was_confirmed_is_never_thrown_away(machine, make, autojump_clock):
    machine.store = StubbornStore()
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.store.armed = True
        with capture_logs() as logs:
            assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
        assert [each["event"] for each in logs] == ["a journalled settlement was refused"]
    async with machine.ledger("next") as ledger:
        with capture_logs() as logs:
            await ledger.adopt()
        assert [(each["event"], each["refused"]) for each in logs] == [("a journal is set aside", 1)]
    [data] = machine.shelf.aside.values()
    assert journal.read(bytes(data)).settlements == [make.capture(hold, 120)]


async def test_what_cannot_be_written_down_is_the_stores_to_refuse(machine, make):
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        assert await ledger.settle(make.capture(hold, 2**65)) == Resolved(True, 300, ("clamped",))
        assert machine.journalled == []
        assert (await ledger.account("acme")).balance_nanos == 700


async def test_a_commit_that_may_have_happened_is_repeated_and_happens_once(machine, make, autojump_clock):
    class UncertainStore(MemoryStore):
        armed = False

        def apply(self, operations):
            answers = super().apply(operations)
            if self.armed:
                self.armed = False
                raise StoreUnavailable("connection lost", uncertain=True)
            return answers

    machine.store = UncertainStore()
    async with machine.ledger() as ledger:
        hold = await placed(ledger, make)
        machine.store.armed = True
        assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert (await ledger.account("acme")).balance_nanos == 880
        assert (await ledger.audit()).ok


# -- a disk that hangs -------------------------------------------------------------------------------------------------


class SlowScribe:
    """Writes when the test says so."""

    def __init__(self, scribe, written):
        self.scribe, self.written = scribe, written
        self.waiting = []

    def write(self, entry):
        self.waiting.append(entry)

    def applied(self, entry):
        self.scribe.applied([entry])

    def go_on(self):
        entries, self.waiting = self.waiting, []
        self.written(entries, self.scribe.write(entries))

    async def drain(self):
        await trio.sleep_forever()

    async def close(self):
        self.scribe.close()


def slow_ledger(machine):
    writer = JournalWriter(InlineWriter(machine.store), machine.shelf.open("gateway"), SlowScribe)
    return Ledger(machine.store, writer, "gateway", journals=Journals(machine.shelf, writer)), writer._scribe


async def test_when_the_disk_hangs_the_store_confirms_after_a_while(machine, make, autojump_clock):
    ledger, scribe = slow_ledger(machine)
    hold = await placed(ledger, make)
    assert await ledger.settle(make.capture(hold, 120)) == Resolved(True, 120)
    assert trio.current_time() == limits.JOURNAL_S
    assert machine.store.account("acme").balance_nanos == 880
    scribe.go_on()
    await ledger.close()
    assert machine.shelf.files == {}, "what came so late counts no more"


async def test_a_repetition_waits_for_the_first(machine, make, autojump_clock):
    ledger, scribe = slow_ledger(machine)
    hold = await placed(ledger, make)
    answers = []

    async def settle(resolution):
        answers.append(await ledger.settle(resolution))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(settle, make.capture(hold, 120))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(settle, make.release(hold))
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        scribe.go_on()
    assert sorted(answers, key=lambda each: each.first) == [Resolved(False, 120), Resolved(True, 120)]


async def test_what_the_disk_has_not_taken_at_the_end_goes_to_the_store(machine, make, autojump_clock):
    ledger, _ = slow_ledger(machine)
    hold = await placed(ledger, make)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ledger.settle, make.capture(hold, 120))
        await trio.testing.wait_all_tasks_blocked()
        await ledger.close()
    assert machine.store.account("acme").balance_nanos == 880


# -- the thread --------------------------------------------------------------------------------------------------------


class GatedFile:
    """Counts its writes, and waits for the test."""

    suspect = False

    def __init__(self):
        self.gate = threading.Event()
        self.appended = []
        self.kept = None

    def append(self, records):
        assert self.gate.wait(10)
        self.appended.append(records)

    def rewrite(self, records):
        self.appended = [records]

    def close(self, *, keep):
        self.kept = keep


async def test_many_settlements_are_one_sync(make):
    store, file = MemoryStore(), GatedFile()
    writer = JournalWriter(ThreadWriter(store), file, ThreadScribe)
    ledger = Ledger(store, writer, "gateway", journals=Journals(None, writer))
    holds = [await placed(ledger, make, 10) for _ in range(50)]
    async with trio.open_nursery() as nursery:
        for hold in holds:
            nursery.start_soon(ledger.settle, make.capture(hold, 1))
        await trio.testing.wait_all_tasks_blocked()
        file.gate.set()
    assert len(file.appended) <= 3
    read = journal.read(journal.header("gateway") + b"".join(file.appended)).settlements
    assert sorted(each.hold_id for each in read) == [hold.id for hold in holds]
    await ledger.close()
    assert store.account("acme").balance_nanos == 950
    assert file.kept is False


async def test_on_a_real_disk_and_database_nothing_is_left_behind(tmp_path, make):
    url, folder = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "journal"
    async with open_ledger(url, owner="gateway", journal=folder) as ledger:
        holds = [await placed(ledger, make, 10) for _ in range(60)]
        async with trio.open_nursery() as nursery:
            for hold in holds:
                nursery.start_soon(ledger.settle, make.capture(hold, 1))
        assert {each.state for each in [await ledger.request(hold.request.id) for hold in holds]} == {"captured"}
    assert list(folder.iterdir()) == []
    async with open_ledger(url, journal=folder) as ledger:
        assert (await ledger.account("acme")).balance_nanos == 940
        assert {each.state for each in await ledger.requests(RequestFilter(limit=100))} == {"captured"}
        assert (await ledger.audit()).ok


async def test_a_journal_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(LedgerUnavailable, match="journal"):
        async with open_ledger(f"sqlite:///{tmp_path}/ledger.db", owner="gateway", journal=tmp_path / "journal"):
            pass
