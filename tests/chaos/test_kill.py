"""kill -9: what the dead gateway held is resolved by the next one, and no client was shown what is not settled."""

from __future__ import annotations

import signal
from contextlib import aclosing
from decimal import Decimal

import pytest
import trio

from bench.postgres import running_server
from hoptrio.ledger.ledger import open_ledger
from tests.chaos import kills
from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.live import live_streams, said
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(240)


async def test_the_holds_of_a_killed_gateway_are_resolved_by_the_next_one(tmp_path):
    with simulator() as provider:
        deployment = Deployment(tmp_path, config_for(provider))
        secret = await trio.to_thread.run_sync(deployment.add_account, "acme")
        with served(deployment) as server:
            async with live_streams(server, secret, count=200, prompt="sim: events=1000 pace=100ms") as streams:
                server.stop(signal.SIGKILL)
                await streams.over()
        assert not any(seen.clean for seen in streams.responses)
        with served(deployment) as server:
            assert await trio.to_thread.run_sync(said, server, secret, "sim: events=2 input=10") == 200
            async with open_ledger(deployment.url) as ledger:
                assert await kills.no_holds(ledger, kills.RESOLVED_S)
        audit, records = deployment.audit(), as_records(deployment)
    assert sorted(record["reason"] or "" for record in records.values()) == ["", *["orphaned"] * 200]
    assert kills.books_balance(audit, 1000)
    assert deployment.balance("acme") == (str(Decimal(1000) - Decimal(audit["captured_amount"])), "0")


async def test_kills_at_moments_of_a_streams_life_leave_books_that_balance(tmp_path):
    async with aclosing(kills.rounds(tmp_path, seed=7, count=1, at_once=30)) as deaths:
        async for death in deaths:
            assert death.faults == []
            assert death.died
            assert death.resolved_s < kills.RESOLVED_S


async def test_kills_of_one_of_two_nodes_and_of_their_database_leave_books_that_balance(tmp_path):
    with running_server() as database:
        async with aclosing(kills.rounds(tmp_path, seed=55, count=3, at_once=24, database=database)) as deaths:
            async for death in deaths:
                assert death.faults == []
                assert death.died
                assert death.resolved_s < kills.RESOLVED_S
