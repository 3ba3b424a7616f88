"""A whole gateway, and the commands, on a real PostgreSQL server."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest
import trio

from hoptrio.ledger.ledger import migrate
from hoptrio.ledger.schema import versions
from tests.support.postgres import Server, empty_ledger, fresh_database
from tests.support.running import simulator
from tests.support.serving import serving

#: The last file of the schema.
LATEST = versions("postgres")[-1].number

TABLES = """
[models.m]
input = "1"
output = "2"
max_input_tokens = 10000
max_output_tokens = 10000
[channels.c]
protocols = ["chat"]
base_url = "{url}"
api_key = "k"
models = ["m"]
"""


@pytest.fixture
def unprepared():
    """A database without any schema."""
    database = fresh_database()
    yield database
    database.drop()


def hoptrio(folder, *args):
    """A command; its exit status, output and errors."""
    argv = [sys.executable, "-m", "hoptrio", *args, "--config", str(folder / "hoptrio.toml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stdout, done.stderr


def test_streams_over_two_workers_are_settled_once(tmp_path):
    database = empty_ledger()

    async def ask(gateway):
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        async with gateway.client() as client:
            await client.send(gateway.request("/v1/chat/completions", body))
            response = await client.read()
        assert response.data[-1] == b"[DONE]"
        assert (await gateway.settled(response.headers["x-request-id"]))["state"] == "captured"

    async def crowd(gateway):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask, gateway)

    with simulator() as url, serving(tmp_path, TABLES.format(url=url), url=database.url, workers=2) as gateway:
        trio.run(crowd, gateway)
    status, out, _ = hoptrio(tmp_path, "ledger", "audit", "--json")
    report = json.loads(out)
    assert (status, report["violations"], report["captured"], report["open_holds"]) == (0, [], 20, 0)


def test_nothing_but_migrate_touches_a_schema(tmp_path, unprepared):
    (tmp_path / "hoptrio.toml").write_text(f'[server]\nmax_streams = 10\n[ledger]\nurl = "{unprepared.url}"\n')
    told = "hoptrio: the database has no ledger yet: run `hoptrio ledger migrate`\n"
    for args in (("serve",), ("account", "list"), ("ledger", "audit")):
        assert hoptrio(tmp_path, *args) == (1, "", told)
    assert hoptrio(tmp_path, "ledger", "migrate")[:2] == (0, f"The schema is at version {LATEST}.\n")
    assert hoptrio(tmp_path, "account", "create", "acme", "--deposit", "5", "--json")[0] == 0
    assert hoptrio(tmp_path, "ledger", "audit")[0] == 0
    unprepared.execute("INSERT INTO schema_version VALUES (%s, 0)", LATEST + 1)
    for args in (("ledger", "migrate"), ("account", "list")):
        status, out, err = hoptrio(tmp_path, *args)
        assert (status, out) == (1, "")
        newer = f"the ledger's schema is {LATEST + 1}, and this version of hoptrio knows {LATEST} at most"
        assert err == f"hoptrio: {newer}\n"


async def test_migrate_is_what_both_engines_have(tmp_path, unprepared):
    assert await migrate(f"sqlite:///{tmp_path}/ledger.db") == await migrate(unprepared.url) == LATEST


@pytest.fixture
def mortal():
    """A server that may be killed."""
    server = Server()
    yield server
    server.close()


async def readiness(gateway, within_s=2):
    """The status of ``/readyz`` and what it says of the ledger."""
    with trio.fail_after(within_s):
        async with gateway.client() as client:
            await client.send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = await client.read()
    return answer.status, answer.json["ledger"]


async def eventually(gateway, status):
    """Where every worker is dead the first answer comes from one that has yet to start."""
    with trio.fail_after(30):
        while (found := (await readiness(gateway, within_s=20)))[0] != status:  # noqa: ASYNC110 - another process is asked
            await trio.sleep(0.1)
    return found


@pytest.mark.timeout(120)
def test_workers_that_die_while_the_database_is_away_are_replaced_and_refuse(tmp_path, mortal):
    """The supervisor keeps the port open: without them, whoever connects would wait for ever."""
    database = mortal.ledger()

    async def outage(gateway):
        workers = psutil.Process(gateway.pid).children()
        mortal.kill()
        for worker in workers:
            worker.kill()
        assert await eventually(gateway, 503) == (503, "unreachable")
        async with gateway.client() as client:
            await client.send(gateway.request("/v1/chat/completions", {"model": "m", "messages": []}))
            refused = await client.read()
        assert (refused.status, refused.json["error"]["code"]) == (503, "ledger_unavailable")
        mortal.restart()
        assert await eventually(gateway, 200) == (200, "ok")

    with simulator() as url, serving(tmp_path, TABLES.format(url=url), url=database.url, workers=2) as gateway:
        trio.run(outage, gateway)


def test_a_table_that_somebody_locks_is_no_ledger(tmp_path):
    database = empty_ledger()

    async def locked(gateway):
        assert await readiness(gateway) == (200, "ok")
        for table in ("accounts", "holds", "entries", "requests"):
            with database.connect() as session, session.transaction():
                session.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
                for _ in range(2):
                    assert await readiness(gateway) == (503, "unreachable"), table
            assert await eventually(gateway, 200) == (200, "ok"), table

    with simulator() as url, serving(tmp_path, TABLES.format(url=url), url=database.url) as gateway:
        trio.run(locked, gateway)
