"""The journal in front of a real PostgreSQL server that dies."""

from __future__ import annotations

import pytest
import trio
from msgspec.structs import replace

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import HoldState, Placed, Resolved
from tests.support.postgres import Server

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def server():
    server = Server()
    yield server
    server.restart()
    server.close()


async def held(ledger, make, count):
    await ledger.create_account("acme", 1000)
    key, _ = await ledger.create_key("acme")
    holds = [make.hold(key, 50) for _ in range(count)]
    for hold in holds:
        assert isinstance(await ledger.place(hold), Placed)
    return holds


async def applied(ledger):
    """Until the database has everything."""
    with trio.fail_after(limits.LEASE_S):
        while (await ledger.account("acme")).held_nanos:  # noqa: ASYNC110 - another process has no event for it
            await trio.sleep(0.05)


async def test_what_is_settled_while_the_server_is_dead_is_applied_when_it_is_back(server, tmp_path, make):
    url = server.ledger().url
    async with open_ledger(url, owner="gateway", journal=tmp_path) as ledger:
        holds = await held(ledger, make, 10)
        await trio.to_thread.run_sync(server.kill)
        for hold in holds:
            with trio.fail_after(limits.JOURNAL_S):
                assert await ledger.settle(make.capture(hold, 7)) == Resolved(True, 7)
            assert (await ledger.request(hold.request.id)).state == "captured"
        with pytest.raises(LedgerUnavailable):
            await ledger.place(replace(holds[0], id="hold_new"))
        assert not await ledger.ping()
        await trio.to_thread.run_sync(server.restart)
        await applied(ledger)
        assert {(await ledger.hold(hold.id)).state for hold in holds} == {HoldState.CAPTURED}
        assert (await ledger.account("acme")).balance_nanos == 1000 - 70


async def test_who_stops_while_the_server_is_dead_leaves_it_to_the_next(server, tmp_path, make):
    url = server.ledger().url
    async with open_ledger(url, owner="gateway", journal=tmp_path) as ledger:
        holds = await held(ledger, make, 3)
        await trio.to_thread.run_sync(server.kill)
        for hold in holds:
            assert await ledger.settle(make.capture(hold, 7)) == Resolved(True, 7)
    assert len(list(tmp_path.iterdir())) == 1
    await trio.to_thread.run_sync(server.restart)
    async with open_ledger(url, owner="next", journal=tmp_path) as ledger:
        await ledger.adopt()
        assert (await ledger.account("acme")).balance_nanos == 1000 - 21
        assert {(await ledger.hold(hold.id)).late for hold in holds} == {False}
    assert list(tmp_path.iterdir()) == []
