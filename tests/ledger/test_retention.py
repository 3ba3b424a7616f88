"""Old records of requests are forgotten in small batches; what runs, and all money, stays."""

from __future__ import annotations

import trio

from hoptrio import limits
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.model import RequestFilter
from hoptrio.ledger.retention import keep
from hoptrio.ledger.store import StoreUnavailable
from tests.ledger.conftest import START_MS

DAY_MS = 86_400_000


async def ids(ledger):
    return sorted(record.id for record in await ledger.requests(RequestFilter()))


async def test_a_purge_takes_the_oldest_first_and_no_more_than_asked(ledger, key, make):
    for _ in range(5):
        hold = make.hold(key, 10)
        await ledger.place(hold)
        await ledger.settle(make.capture(hold, 4))
    before_ms = START_MS + 5
    assert await ledger.purge(before_ms, 3) == 3
    assert await ids(ledger) == ["req_0004", "req_0005"]
    assert await ledger.purge(before_ms, 3) == 1
    assert await ids(ledger) == ["req_0005"]
    assert await ledger.purge(before_ms, 3) == 0


async def test_a_purge_leaves_what_runs_and_every_entry(ledger, key, make):
    running, done = make.hold(key, 10), make.hold(key, 10)
    await ledger.place(running)
    await ledger.place(done)
    await ledger.settle(make.capture(done, 4))
    entries = await ledger.entries(key.account.id)
    assert await ledger.purge(START_MS + DAY_MS) == 1
    assert await ids(ledger) == [running.request.id]
    assert await ledger.entries(key.account.id) == entries
    assert (await ledger.hold(done.id)).charge_nanos == 4
    await ledger.settle(make.capture(running, 5))
    assert [await ledger.purge(START_MS + DAY_MS), await ids(ledger)] == [1, []]
    assert (await ledger.audit()).violations == ()
    assert (await ledger.account("acme")).balance_nanos == 1000 - 9


async def test_the_providers_ids_of_a_forgotten_request_are_forgotten_with_it(ledger, key, make):
    hold = make.hold(key, 10)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 4, provider_ids=("resp_1",)))
    assert await ledger.owners_of(["resp_1"])
    await ledger.purge(START_MS + DAY_MS)
    assert await ledger.owners_of(["resp_1"]) == {}


async def test_evidence_that_comes_after_its_request_was_forgotten_is_still_charged(ledger, key, make):
    hold = make.hold(key, 10)
    await ledger.place(hold)
    await ledger.release(hold.id, "stuck")
    await ledger.purge(START_MS + DAY_MS)
    assert (await ledger.settle(make.capture(hold, 4))).charge_nanos == 4
    assert (await ledger.audit()).violations == ()


async def test_it_goes_on_in_batches_and_comes_back(make, wall, autojump_clock):
    async with memory_ledger(owner="gateway", now_ms=wall) as ledger, trio.open_nursery() as nursery:
        await ledger.create_account("acme", 10**6)
        key, _ = await ledger.create_key("acme")
        for _ in range(limits.PURGE_ROWS + 1):
            hold = make.hold(key, 1)
            await ledger.place(hold)
            await ledger.settle(make.release(hold))
        nursery.start_soon(keep, ledger, 30)
        await trio.sleep(1)
        wall.at_ms += 31 * DAY_MS
        await trio.sleep(limits.PURGE_EVERY_S)
        assert len(await ledger.requests(RequestFilter(limit=1000))) <= 1
        await trio.sleep(limits.PURGE_PAUSE_S)
        assert await ids(ledger) == []
        nursery.cancel_scope.cancel()


async def test_an_outage_only_delays_it(make, wall, autojump_clock):
    async with memory_ledger(owner="gateway", now_ms=wall) as ledger, trio.open_nursery() as nursery:
        await ledger.create_account("acme", 10**6)
        key, _ = await ledger.create_key("acme")
        hold = make.hold(key, 1)
        await ledger.place(hold)
        await ledger.settle(make.release(hold))
        wall.at_ms += 31 * DAY_MS
        ledger._store.outage = StoreUnavailable("gone")
        nursery.start_soon(keep, ledger, 30)
        await trio.sleep(60)
        ledger._store.outage = None
        await trio.sleep(limits.PURGE_EVERY_S)
        assert await ids(ledger) == []
        nursery.cancel_scope.cancel()


async def test_without_a_number_of_days_all_is_kept(wall, autojump_clock):
    async with memory_ledger(now_ms=wall) as ledger:
        with trio.fail_after(1):
            await keep(ledger, 0)
