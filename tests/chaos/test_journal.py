"""`hoptrio serve` with a journal on real disks: the database out of reach, shutdowns and kills while it is."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import asynccontextmanager, closing

import psutil
import pytest
import trio

from tests.chaos.test_disk import all_settled, is_ready, locked
from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.live import Live, _stream, chat_request, live_streams
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(120)

STREAM = "sim: events=20 pace=100ms"


@pytest.fixture
def provider():
    with simulator() as url:
        yield url


@pytest.fixture
def deployment(tmp_path, provider):
    config = config_for(provider)
    config["ledger"]["journal"] = "journal"
    deployment = Deployment(tmp_path, config)
    deployment.secret = deployment.add_account("acme")
    return deployment


def journals(deployment):
    return list((deployment.directory / "journal").iterdir())


def open_holds(deployment):
    with closing(sqlite3.connect(deployment.database)) as connection:
        return connection.execute("SELECT count(*) FROM holds WHERE state = 'open'").fetchone()[0]


def ends(deployment):
    return {(record["state"], record["reason"]) for record in as_records(deployment).values()}


async def test_streams_end_behind_a_lock_and_a_shutdown_leaves_their_settlements_to_the_next_start(deployment):
    with served(deployment, limits={"SETTLE_S": 2.0}) as server:
        async with live_streams(server, deployment.secret, count=5, prompt=STREAM) as streams:
            with locked(deployment.database):
                await streams.over()
                assert all(seen.clean and seen.data[-1] == b"[DONE]" for seen in streams.responses)
                server.send(signal.SIGTERM)
                assert await trio.to_thread.run_sync(server.wait, 30) == 0
    assert [line["settlements"] for line in server.logged(event="settlements stay in the journal")] == [5]
    assert len(journals(deployment)) == 1
    # The database says that they run; the command reads this machine's journals too.
    assert open_holds(deployment) == 5
    request_id = streams.responses[0].headers["x-request-id"]
    assert deployment.books("request", "show", request_id)["state"] == "captured"
    with served(deployment) as server:
        await is_ready(server)
        await all_settled(deployment)
        assert server.stop() == 0
    assert ends(deployment) == {("captured", None)}
    assert deployment.audit()["ok"]
    assert journals(deployment) == []


@asynccontextmanager
async def open_streams(server, deployment, count):
    """`live_streams` of several workers, none of which can tell how many run: the database can."""
    live = Live()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            live.began()
            nursery.start_soon(_stream, server, chat_request(deployment.secret, STREAM), live)
        with trio.fail_after(20):
            while (await trio.to_thread.run_sync(open_holds, deployment)) != count:  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)
        yield live
        nursery.cancel_scope.cancel()


async def test_a_killed_workers_journal_is_adopted_by_its_siblings(deployment):
    deployment.config["server"]["workers"] = 2
    deployment.write_config()
    with served(deployment) as server:
        async with open_streams(server, deployment, 8) as streams:
            with locked(deployment.database):
                await streams.over()
                assert all(seen.clean for seen in streams.responses)
                for worker in psutil.Process(server.pid).children():
                    worker.kill()
            await all_settled(deployment)
        assert server.stop() == 0
    assert ends(deployment) == {("captured", None)}
    assert deployment.audit()["ok"]
    assert journals(deployment) == []
