"""What is SQLite's own: the file, its locks, its triggers, its failures."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from types import SimpleNamespace

import pytest
import trio

from hoptrio import limits
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger import sqlite, sqlite_changes
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.memory import wall_ms
from hoptrio.ledger.model import HoldRefusal, Placed
from hoptrio.ledger.schema import versions
from hoptrio.ledger.sqlite import SqliteStore
from hoptrio.ledger.store import StoreUnavailable

NUMBERS = [version.number for version in versions("sqlite")]


@pytest.fixture
def path(sqlite_engine):
    return sqlite_engine.url.removeprefix("sqlite:///")


@pytest.fixture
async def ledger(sqlite_engine):
    async with sqlite_engine.open() as ledger:
        yield ledger


def other_process(path):
    return sqlite3.connect(path, isolation_level=None, timeout=0)


async def test_the_file_is_its_owners_alone(ledger, key, path):
    for name in (path, f"{path}-wal", f"{path}-shm"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


async def test_what_is_committed_is_on_the_disk(ledger, key):
    connection = ledger._store._writing
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    "statement",
    [  # A second resolution of a hold is the last of them.
        "UPDATE entries SET amount_nanos = 1",
        "DELETE FROM entries",
        "DELETE FROM holds",
        "UPDATE holds SET state = 'open'",
        "UPDATE holds SET amount_nanos = 1",
        "UPDATE accounts SET balance_nanos = -1, held_nanos = 0",
        "UPDATE accounts SET held_nanos = balance_nanos + 1",
        "INSERT INTO entries (hold_id, at_ms, account_id, kind, amount_nanos)"
        " SELECT id, 0, '', 'capture', 0 FROM holds",
    ],
)
async def test_the_schema_itself_refuses(ledger, key, make, path, statement):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(make.release(hold))
    connection = other_process(path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()


async def test_a_writer_that_finds_the_file_locked_waits(ledger, key, make, path, monkeypatch):
    other = other_process(path)
    other.execute("BEGIN IMMEDIATE")
    hold = make.hold(key, 300)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def place():
            assert await ledger.place(hold) == Placed(700)

        await trio.testing.wait_all_tasks_blocked()
        assert await ledger.find_key("sk-none") is None  # Readers do not wait.
        other.execute("ROLLBACK")
        other.close()


async def test_a_file_that_stays_locked_refuses_holds_and_settles_later(ledger, key, make, path, monkeypatch):
    running = make.hold(key, 300)
    await ledger.place(running)
    ledger._store._writing.execute("PRAGMA busy_timeout = 0")
    monkeypatch.setattr(limits, "HOLD_S", 0.0)
    monkeypatch.setattr(limits, "SETTLE_S", 0.0)
    other = other_process(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable):
        await ledger.place(make.hold(key, 300))
    assert await ledger.settle(make.capture(running, 120)) is None
    other.execute("ROLLBACK")
    other.close()
    monkeypatch.undo()
    assert (await ledger.settle(make.capture(running, 120))).charge_nanos == 120
    assert ((await ledger.account("acme")).balance_nanos, (await ledger.account("acme")).held_nanos) == (880, 0)


async def test_a_full_disk_refuses_holds_and_settles_later(ledger, key, make):
    running = make.hold(key, 300)
    await ledger.place(running)
    connection = ledger._store._writing
    [(pages,)] = connection.execute("PRAGMA page_count")
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerUnavailable):
        await ledger.place(make.hold(key, 300, prices="x" * 100_000))
    # The connection that failed is replaced by a new one, which has no such limit.
    assert (await ledger.settle(make.capture(running, 120))).first
    assert (await ledger.account("acme")).held_nanos == 0
    assert (await ledger.audit()).ok


def test_a_file_that_was_taken_away_is_not_replaced_by_an_empty_one(sqlite_engine, path):
    store = SqliteStore(path, lambda: 0)
    for name in (path, f"{path}-wal", f"{path}-shm"):
        os.unlink(name)
    with pytest.raises(StoreUnavailable):
        store.apply([])
    store.close()
    assert not os.path.exists(path)


async def test_a_file_that_is_no_database_cannot_be_opened(tmp_path):
    (tmp_path / "no.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(LedgerUnavailable):
        async with open_ledger(f"sqlite:///{tmp_path}/no.db"):
            pass
    with pytest.raises(LedgerUnavailable):
        async with open_ledger(f"sqlite:///{tmp_path}/missing/folder.db"):
            pass


def test_a_file_that_could_not_be_opened_is_not_kept_open(tmp_path):
    path = tmp_path / "no.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(StoreUnavailable) as failed:
        SqliteStore(str(path), lambda: 0)
    # Whoever logs the failure holds its frames, and with them what these have.
    assert failed.value.__traceback__ is not None
    assert str(path) not in {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}


@pytest.mark.parametrize("url", ["", "ledger.db", "sqlite://ledger.db", "sqlite:///", "mysql://user@host/db"])
async def test_other_urls_are_not_understood(url):
    with pytest.raises(ValueError, match="neither sqlite:///FILE nor postgresql:"):
        async with open_ledger(url):
            pass


async def test_a_relative_path_counts_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with open_ledger("sqlite:///some ledger%.db") as ledger:
        await ledger.create_account("acme")
    assert (tmp_path / "some ledger%.db").exists()


async def test_processes_that_start_together_on_no_file_take_turns(sqlite_engine):
    opened = []

    async def start():
        async with sqlite_engine.open(None) as ledger:
            opened.append(await ledger.schema_version())

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(start)
    assert opened == [NUMBERS[-1]] * 8


def test_a_file_that_another_process_is_just_making_is_waited_for(tmp_path, monkeypatch):
    """SQLite says that it is busy without waiting: in the change to WAL alone."""
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        other.execute("COMMIT")

    monkeypatch.setattr(sqlite, "_NEVER", SimpleNamespace(wait=pause))
    with closing(other), closing(SqliteStore(str(tmp_path / "ledger.db"), wall_ms)) as store:
        assert store.schema_version() == NUMBERS[-1]
    assert len(pauses) == 1


async def test_a_database_of_an_earlier_version_is_brought_up_to_date(sqlite_engine, path, make):
    async with sqlite_engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        key, secret = await ledger.create_key("acme", rpm=1)
        await ledger.place(make.hold(key, 1))
    connection = other_process(path)
    connection.executescript("DROP INDEX holds_of_key; DROP TABLE channel_pauses; DROP TABLE claims")
    connection.execute("DELETE FROM schema_version WHERE number >= 3")
    connection.close()
    async with sqlite_engine.open() as ledger:
        key = await ledger.find_key(secret)
        assert (await ledger.place(make.hold(key, 1))).why is HoldRefusal.RATE
        assert await ledger.schema_version() == NUMBERS[-1]


async def test_the_rate_of_a_key_is_read_from_its_index_alone(sqlite_engine, path):
    """However many holds there are, a hold of a limited key costs a look at its own newest ones."""
    async with sqlite_engine.open():
        pass
    connection = other_process(path)
    for sql in (sqlite_changes._COUNT_RECENT, sqlite_changes._NTH_NEWEST):
        [plan] = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ("key", 1)).fetchall()
        assert "USING COVERING INDEX holds_of_key" in plan[-1]
    connection.close()


async def test_a_newer_schema_is_left_alone(sqlite_engine, path):
    async with sqlite_engine.open():
        pass
    connection = other_process(path)
    connection.execute("INSERT INTO schema_version VALUES (9, 0)")
    connection.close()
    with pytest.raises(LedgerUnavailable, match=f"schema is 9, and .* knows {NUMBERS[-1]} at most"):
        async with sqlite_engine.open():
            pass


async def test_opening_again_applies_no_schema_twice(sqlite_engine, path):
    for _ in range(2):
        async with sqlite_engine.open():
            pass
    connection = other_process(path)
    assert connection.execute("SELECT number FROM schema_version").fetchall() == [(number,) for number in NUMBERS]
    connection.close()


async def test_a_ledger_of_the_first_schema_is_brought_up_to_date_with_what_is_in_it(sqlite_engine, path):
    """It was in use before probes wrote evidence."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE schema_version (number INTEGER PRIMARY KEY, applied_at_ms INTEGER NOT NULL)")
        connection.executescript(versions("sqlite")[0].sql)
        connection.execute("INSERT INTO schema_version VALUES (1, 0)")
        connection.execute("INSERT INTO accounts (id, name, created_at_ms) VALUES ('acct_1', 'acme', 0)")
    async with sqlite_engine.open() as ledger:
        assert await ledger.usage_evidence() == []
        assert [account.name for account in await ledger.accounts()] == ["acme"]
        assert await ledger.schema_version() == NUMBERS[-1]
