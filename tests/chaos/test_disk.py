"""Trouble with the disk: a database that another process locks, and one that cannot grow."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing, contextmanager

import httpx
import pytest
import trio

from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.live import live_streams, streamed
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def provider():
    with simulator() as url:
        yield url


@pytest.fixture
def deployment(tmp_path, provider):
    deployment = Deployment(tmp_path, config_for(provider))
    deployment.secret = deployment.add_account("acme")
    return deployment


@contextmanager
def locked(database):
    """Another process's transaction that does not end."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def unwritable(server):
    """No file of the gateway's may grow or be written any more, its log included."""
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (soft, hard))


def dispatched(provider):
    return httpx.get(f"{provider}/_sim/requests").json()["count"]


async def ask(deployment, server):
    return await trio.to_thread.run_sync(streamed, server, deployment.secret, "hello")


async def ready_status(server):
    return (await trio.to_thread.run_sync(server.ready))[0]


async def is_ready(server):
    with trio.fail_after(20):
        while await ready_status(server) != 200:  # noqa: ASYNC110 - the other process has no event for it
            await trio.sleep(0.1)


async def all_settled(deployment):
    with trio.fail_after(30):
        while (await trio.to_thread.run_sync(deployment.balance, "acme"))[1] != "0":  # noqa: ASYNC110 - as above
            await trio.sleep(0.2)


async def test_behind_a_lock_nothing_is_dispatched_and_running_streams_settle_once_it_is_gone(deployment, provider):
    with served(deployment, limits={"SETTLE_S": 4.0}) as server:
        # The first five end at once behind the lock and give up after 4 s; the others end when it has 2 s to go.
        async with (
            live_streams(server, deployment.secret, count=5, prompt="sim: events=15 pace=100ms") as impatient,
            live_streams(server, deployment.secret, count=5, beside=5, prompt="sim: events=50 pace=100ms") as lucky,
        ):
            asked = dispatched(provider)
            with locked(deployment.database):
                lock_ends = trio.current_time() + 7
                await trio.sleep(0.2)
                refusal = await ask(deployment, server)
                assert refusal.status_code == 503
                assert refusal.json()["error"]["code"] == "ledger_unavailable"
                assert await ready_status(server) == 503
                await trio.sleep_until(lock_ends)
            assert dispatched(provider) == asked
            await impatient.over()
            await lucky.over()
        await is_ready(server)
        await all_settled(deployment)
        assert (await ask(deployment, server)).status_code == 200
    assert not any(seen.clean or b"[DONE]" in seen.body for seen in impatient.responses)
    assert all(seen.clean and seen.data[-1] == b"[DONE]" for seen in lucky.responses)
    assert [(each["state"], each["reason"]) for each in as_records(deployment).values()] == [("captured", None)] * 11
    audit = deployment.audit()
    assert (audit["ok"], audit["captured"], audit["released"]) == (True, 11, 0)


async def test_on_a_full_disk_nothing_is_dispatched_and_running_streams_settle_once_there_is_room(deployment, provider):
    with served(deployment) as server:
        async with live_streams(server, deployment.secret, count=5, prompt="sim: events=20 pace=100ms") as streams:
            asked = dispatched(provider)
            with unwritable(server):
                refusal = await ask(deployment, server)
                assert refusal.status_code == 503
                assert await ready_status(server) == 503
                await trio.sleep(3)
            assert dispatched(provider) == asked
            await streams.over()
        await is_ready(server)
        await all_settled(deployment)
        assert (await ask(deployment, server)).status_code == 200
        assert server.stop() == 0
    assert all(seen.clean and seen.data[-1] == b"[DONE]" for seen in streams.responses)
    audit = deployment.audit()
    assert (audit["ok"], audit["captured"], audit["released"]) == (True, 6, 0)
