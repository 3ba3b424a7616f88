"""What is PostgreSQL's own: its locks, its clock, its failures, and several nodes on one database."""

from __future__ import annotations

import os
import signal
import socket
import threading

import psycopg
import pytest
import trio
import trio.testing

from bench.process import free_port
from hoptrio import limits
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger.ledger import migrate, open_ledger
from hoptrio.ledger.memory import wall_ms
from hoptrio.ledger.model import HoldRefusal, HoldState, Placed, RequestFilter, Resolved
from hoptrio.ledger.operations import CreateAccount, CreateKey
from hoptrio.ledger.postgres import PostgresStore
from hoptrio.ledger.postgres_session import Session, connect, conninfo, unavailable
from hoptrio.ledger.recover import Sweep
from hoptrio.ledger.schema import versions
from hoptrio.ledger.store import StoreUnavailable
from tests.support.postgres import fresh_database

#: The last file of the schema.
LATEST = versions("postgres")[-1].number

HOUR_MS = 3_600_000
#: What leaves no garbage behind.
OURS = ("hoptrio", "psycopg", "outcome")


@pytest.fixture
async def ledger(postgres_engine):
    async with postgres_engine.open() as ledger:
        yield ledger


@pytest.fixture
def store(postgres_engine):
    store = PostgresStore(postgres_engine.url)
    yield store
    store.close()


@pytest.fixture
def unprepared():
    """A database without any schema."""
    database = fresh_database()
    yield database
    database.drop()


def test_what_a_batch_read_is_freed_with_it_and_not_by_the_collector(store, garbage):
    store.apply([CreateAccount(id="acc_1", name="acme", deposit_nanos=5, ref="r")])
    assert garbage(*OURS) == set()


def test_a_connection_that_was_refused_is_freed_at_once(garbage):
    with pytest.raises(StoreUnavailable):
        connect(conninfo(f"postgresql://x@127.0.0.1:{free_port()}/x", statement_s=1))
    assert garbage(*OURS) == set()


async def is_refused(ask):
    """Not by pytest.raises, which keeps the error."""
    try:
        await ask()
    except LedgerUnavailable:
        return True
    return False


async def test_requests_of_an_outage_leave_nothing_to_the_collector(make, key, garbage):
    url = f"postgresql://x@127.0.0.1:{free_port()}/x"
    async with open_ledger(url, owner="gateway", patient=True) as ledger:
        garbage()
        for ask in (
            lambda: ledger.place(make.hold(key, 300)),
            lambda: ledger.create_account("acme"),
            lambda: ledger.find_key("sk-x"),
            lambda: ledger.request("req_x"),
            lambda: ledger.pauses(),
        ):
            assert await is_refused(ask)
            assert garbage(*OURS) == set()


async def amounts(ledger, name="acme"):
    account = await ledger.account(name)
    return account.balance_nanos, account.held_nanos


async def all_at_once(*calls):
    """The answers of many calls, made at once."""
    answers = [None] * len(calls)

    async def ask(i, call):
        answers[i] = await call()

    async with trio.open_nursery() as nursery:
        for i, call in enumerate(calls):
            nursery.start_soon(ask, i, call)
    return answers


# -- the schema ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [  # A second resolution of a hold is the last of them.
        "UPDATE entries SET amount_nanos = 1",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "DELETE FROM holds",
        "TRUNCATE holds",
        "UPDATE holds SET state = 'open'",
        "UPDATE holds SET amount_nanos = 1",
        "UPDATE accounts SET balance_nanos = -1, held_nanos = 0",
        "UPDATE accounts SET held_nanos = balance_nanos + 1",
        "INSERT INTO entries (hold_id, at_ms, account_id, kind, amount_nanos)"
        " SELECT id, 0, '', 'capture', 0 FROM holds",
    ],
)
async def test_the_schema_itself_refuses(ledger, key, make, database, statement):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(make.release(hold))
    with pytest.raises(psycopg.errors.IntegrityError):
        database.execute(statement)


async def test_the_schema_is_made_once_however_many_ask(unprepared):
    assert await all_at_once(*[lambda: migrate(unprepared.url)] * 5) == [LATEST] * 5
    assert await migrate(unprepared.url) == LATEST
    applied = unprepared.execute("SELECT number FROM schema_version ORDER BY number")
    assert applied == [(version.number,) for version in versions("postgres")]
    async with open_ledger(unprepared.url) as ledger:
        assert await ledger.schema_version() == LATEST


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "no ledger yet: run `hoptrio ledger migrate`"),
        (0, "no ledger yet: run `hoptrio ledger migrate`"),
        (LATEST + 1, f"schema is {LATEST + 1}, and this version of hoptrio knows {LATEST} at most"),
    ],
)
async def test_another_schema_is_told_and_left_alone(unprepared, found, told):
    if found is not None:
        await migrate(unprepared.url)
        unprepared.execute("DELETE FROM schema_version")
        unprepared.execute("INSERT INTO schema_version VALUES (%s, 0)", found)
    with pytest.raises(LedgerUnavailable, match=told):
        async with open_ledger(unprepared.url):
            pass
    if found == LATEST + 1:
        with pytest.raises(LedgerUnavailable, match=told):
            await migrate(unprepared.url)


async def test_a_database_that_cannot_hold_every_text_is_refused():
    database = fresh_database(encoding="SQL_ASCII")
    with pytest.raises(LedgerUnavailable, match="needs UTF8"):
        await migrate(database.url)
    database.drop()


# -- a batch -------------------------------------------------------------------------------------------------------


def test_a_batch_takes_as_many_waits_for_the_server_as_one_operation(store, make, monkeypatch):
    waits = []

    def wait(self, gen, interval=0.1, timeout=None):
        waits.append(1)
        return real_wait(self, gen, interval, timeout)

    def counted(operations):
        waits.clear()
        store.apply(operations)
        return len(waits)

    store.apply([CreateAccount(id="a", name="acme", deposit_nanos=10**9, ref="r")])
    [key] = store.apply([CreateKey(id="k", secret_hash="h", account="acme", max_streams=1000)])
    real_wait = Session.wait
    monkeypatch.setattr(Session, "wait", wait)
    holds = [make.hold(key, 100) for _ in range(257)]
    one = counted(holds[:1])
    assert counted(holds[1:]) == one
    assert counted([make.capture(hold, 60) for hold in holds[1:]]) <= one + 2


async def test_text_that_postgresql_does_not_take_is_kept_without_it(ledger, key, make):
    hold = make.hold(key, 300, model="m\0n")
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 120, raw_usage='{"\0": 1}', provider_ids=("resp\0", "r" * 5000)))
    assert (await ledger.request(hold.request.id)).model == "m�n"
    owner = (key.account.id, "c")
    assert await ledger.owners_of(["resp\0", "r" * 5000, "r" * 4999]) == {"resp\0": owner, "r" * 5000: owner}
    assert await ledger.request("no\0") is None
    assert await ledger.requests(RequestFilter(model="\0")) == []


async def test_old_requests_are_forgotten_with_their_provider_side_ids(ledger, key, make, database):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    await ledger.settle(make.capture(hold, 120, provider_ids=("resp_1", "r" * 5000)))
    assert await ledger.purge(hold.request.created_at_ms + 1) == 1
    assert database.execute("SELECT count(*) FROM provider_ids") == [(0,)]


async def test_a_purge_takes_no_more_than_asked_whatever_plan_the_server_makes_of_it(unprepared, make):
    """With a nested loop whose inner side is run again for each row, as a table without statistics may get it."""
    await migrate(unprepared.url)
    for way in ("hashjoin", "mergejoin", "hashagg", "material", "sort", "indexscan", "bitmapscan", "indexonlyscan"):
        unprepared.execute(f"ALTER DATABASE {unprepared.name} SET enable_{way} = off")
    async with open_ledger(unprepared.url, owner="gateway") as ledger:
        await ledger.create_account("acme", 100)
        key, _ = await ledger.create_key("acme")
        for _ in range(5):
            hold = make.hold(key, 10)
            await ledger.place(hold)
            await ledger.settle(make.capture(hold, 4))
        assert [await ledger.purge(HOUR_MS * 10**6, 3) for _ in range(3)] == [3, 2, 0]


async def test_owners_without_holds_are_forgotten_a_day_later(postgres_engine, ledger, key, make, wall):
    await ledger.place(make.hold(key, 300))
    async with postgres_engine.open("idle"):
        pass
    wall.at_ms += limits.OWNER_KEPT_MS + 1
    async with postgres_engine.open("new"):
        pass
    assert [owner.id for owner in await ledger.owners()] == ["gateway", "new"]


# -- several nodes -------------------------------------------------------------------------------------------------


class Watch:
    """Looks at every commit that it can until it is told to end, and remembers the least that was available."""

    def __init__(self, database):
        self.least = self.looks = 0
        self.began, self.ended = threading.Event(), threading.Event()
        self._database = database

    def run(self):
        sql = "SELECT min(least(balance_nanos - held_nanos, held_nanos)) FROM accounts"
        with self._database.connect() as connection:
            while not self.ended.is_set():
                [(least,)] = connection.execute(sql)
                self.least, self.looks = min(self.least, least), self.looks + 1
                self.began.set()


async def test_case_68_two_nodes_with_a_balance_for_three(postgres_engine, ledger, key, make, database):
    watch = Watch(database)
    async with postgres_engine.open("other") as other, trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, watch.run)
        assert await trio.to_thread.run_sync(watch.began.wait, 30)
        holds = [(node, make.hold(key, 333, owner=node.owner)) for _ in range(25) for node in (ledger, other)]
        answers = await all_at_once(*[lambda node=node, hold=hold: node.place(hold) for node, hold in holds])
        placed = [pair for pair, answer in zip(holds, answers, strict=True) if isinstance(answer, Placed)]
        assert len(placed) == 3
        assert [answer.why for answer in answers if not isinstance(answer, Placed)] == [HoldRefusal.BALANCE] * 47
        await all_at_once(*[lambda node=node, hold=hold: node.settle(make.capture(hold, 333)) for node, hold in placed])
        watch.ended.set()
    assert await amounts(ledger) == (1, 0)
    assert watch.least == 0 < watch.looks
    assert (await ledger.audit()).ok


async def test_max_streams_of_a_key_hold_over_two_nodes(postgres_engine, ledger, key, make):
    three, _ = await ledger.create_key("acme", max_streams=3)
    async with postgres_engine.open("other") as other:
        holds = [(node, make.hold(three, 1, owner=node.owner)) for _ in range(10) for node in (ledger, other)]
        answers = await all_at_once(*[lambda node=node, hold=hold: node.place(hold) for node, hold in holds])
    assert sum(isinstance(answer, Placed) for answer in answers) == 3
    assert {answer.why for answer in answers if not isinstance(answer, Placed)} == {HoldRefusal.MAX_STREAMS}


async def test_one_hold_settled_by_two_nodes_is_settled_once(postgres_engine, ledger, key, make):
    hold = make.hold(key, 300)
    await ledger.place(hold)
    async with postgres_engine.open("other") as other:
        ways = [make.capture(hold, 120), make.release(hold)] * 10
        calls = [lambda node=(ledger, other)[i % 2], way=way: node.settle(way) for i, way in enumerate(ways)]
        answers = await all_at_once(*calls)
    assert sum(answer.first for answer in answers) == 1
    assert len({answer.charge_nanos for answer in answers}) == 1
    assert (await ledger.audit()).ok


async def test_a_supplier_that_two_nodes_credit_first_has_one_account(postgres_engine, ledger, key, make):
    async with postgres_engine.open("other") as other:
        for number in range(10):
            sold = {"supplier": f"maker {number}", "revenue_share_nanos": 500_000_000}
            holds = [(node, make.hold(key, 10, owner=node.owner, **sold)) for node in (ledger, other)]
            for node, hold in holds:
                await node.place(hold)
            await all_at_once(*[lambda n=node, h=hold: n.settle(make.capture(h, 10)) for node, hold in holds])
            assert await amounts(ledger, f"maker {number}") == (10, 0)
    assert (await ledger.audit()).ok


async def test_a_name_that_two_nodes_take_at_once_is_ones(postgres_engine, ledger):
    async with postgres_engine.open(None) as other:
        for number in range(10):

            async def create(node, name=f"n {number}"):
                try:
                    return await node.create_account(name)
                except Exception as error:
                    return type(error).__name__

            answers = await all_at_once(lambda: create(ledger), lambda: create(other))
            assert [answer for answer in answers if isinstance(answer, str)] == ["Conflict"]


async def test_nodes_that_take_accounts_in_opposite_orders_never_meet(postgres_engine, make):
    stores = [PostgresStore(postgres_engine.url) for _ in range(2)]
    names = [f"account {number}" for number in range(8)]
    for name in names:
        stores[0].apply([CreateAccount(id=f"acct_{name}", name=name, deposit_nanos=10**9, ref=name)])
    keys = [stores[0].apply([CreateKey(id=name, secret_hash=name, account=name)])[0] for name in names]

    def run(store, keys):
        """Each account's holds are the supplier's, whose account is the next one's in this node's order."""
        for _ in range(20):
            holds = [
                make.hold(key, 10, supplier=other.account.name, revenue_share_nanos=500_000_000, owner="o")
                for key, other in zip(keys, keys[1:] + keys[:1], strict=True)
            ]
            store.apply(holds)
            store.apply([make.capture(hold, 10) for hold in holds])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, run, stores[0], keys)
        nursery.start_soon(trio.to_thread.run_sync, run, stores[1], keys[::-1])
    assert sum(account.balance_nanos for account in stores[0].accounts()) == 8 * 10**9 - 2 * 20 * 8 * 5
    for store in stores:
        store.close()


@pytest.mark.parametrize("skew_ms", [-10 * HOUR_MS, 10 * HOUR_MS], ids=["behind", "ahead"])
async def test_a_nodes_wrong_clock_kills_nobody_and_expires_nothing(database, make, skew_ms):
    async with (
        open_ledger(database.url, owner="right") as ledger,
        open_ledger(database.url, owner="wrong", now_ms=lambda: wall_ms() + skew_ms) as wrong,
    ):
        await ledger.create_account("acme", 1000)
        valid, secret = await wrong.create_key("acme", expires_at_ms=wall_ms() + HOUR_MS)
        expired, old_secret = await wrong.create_key("acme", expires_at_ms=wall_ms() - HOUR_MS)
        held = make.hold(valid, 100, owner="right")
        await ledger.place(held)
        for node in (ledger, wrong):
            assert not (await node.find_key(secret)).expired
            assert (await node.find_key(old_secret)).expired
            assert isinstance(await node.place(make.hold(valid, 1, owner=node.owner)), Placed)
            assert (await node.place(make.hold(expired, 1, owner=node.owner))).why is HoldRefusal.KEY_EXPIRED
            assert await Sweep(node).once() == 0
            assert (await node.audit()).violations == ()
        assert (await wrong.hold(held.id)).state is HoldState.OPEN
        entry = (await wrong.deposit("acme", 5)) and (await ledger.entries(valid.account.id))[-1]
        assert abs(entry.at_ms - wall_ms()) < HOUR_MS


# -- trouble -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "busy"),
    [
        ("55P03", True),  # lock timeout
        ("40P01", True),  # deadlock
        ("40001", True),  # serialization
        ("57014", True),  # statement timeout
        ("53100", False),  # disk full
        ("53300", False),  # too many connections
        ("57P01", False),  # admin shutdown
        ("57P03", False),  # starting up
        ("25006", False),  # read-only
        ("58030", False),  # I/O error
        ("08006", False),
        ("28P01", False),  # wrong password
        ("3D000", False),  # no such database
    ],
)
def test_what_is_the_servers_trouble_is_no_bug(state, busy):
    error = unavailable(psycopg.errors.lookup(state)("trouble\nin two lines"))
    assert (error.busy, str(error)) == (busy, "trouble in two lines")


@pytest.mark.parametrize("state", ["23505", "22003", "42601", "42P01"])
def test_what_is_a_statements_own_is_one(state):
    with pytest.raises(psycopg.errors.lookup(state)):
        unavailable(psycopg.errors.lookup(state)())


async def test_no_server_is_told_in_one_line_without_the_password(tmp_path):
    for url in ("postgresql://u:hush-1@127.0.0.1:1/db", f"postgresql:///db?host={tmp_path}&password=hush-1"):
        with pytest.raises(LedgerUnavailable, match="connection") as caught:
            async with open_ledger(url):
                pass
        assert "\n" not in caught.value.message
        assert "hush" not in caught.value.message
    with pytest.raises(ValueError, match="does not understand this address") as wrong:
        async with open_ledger("postgresql://u:hush%zz@h/db"):
            pass
    assert "hush" not in str(wrong.value)
    with pytest.raises(ValueError, match="%40") as wrong:
        async with open_ledger("postgresql://u:pa@hush-1:x@127.0.0.1:1/db"):
            pass
    assert "hush" not in str(wrong.value)


async def test_a_schema_that_is_not_there_is_told(unprepared):
    url = f"{unprepared.url}{'&' if '?' in unprepared.url else '?'}options=-csearch_path%3Dnowhere"
    with pytest.raises(LedgerUnavailable, match="no schema has been selected"):
        await migrate(url)


async def test_a_backend_that_is_ended_in_mid_transaction_costs_a_hold_and_no_settlement(ledger, key, make, database):
    running, new = make.hold(key, 300), make.hold(key, 100)
    await ledger.place(running)
    answers = {}

    async def settle():
        answers["settled"] = await ledger.settle(make.capture(running, 120))

    async def place():
        try:
            await ledger.place(new)
        except LedgerUnavailable:
            answers["placed"] = None

    with database.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT FROM accounts FOR UPDATE")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(settle)
            nursery.start_soon(place)
            pid = ledger._store._writing.info.backend_pid
            await trio.to_thread.run_sync(until, waits_for_a_lock(database, pid))
            database.execute("SELECT pg_terminate_backend(%s)", pid)
            await trio.to_thread.run_sync(until, lambda: ledger._store._writing is None or not ledger.reachable)
            other.execute("ROLLBACK")
    assert answers == {"settled": Resolved(True, 120), "placed": None}
    assert await ledger.hold(new.id) is None
    assert await amounts(ledger) == (880, 0)
    assert (await ledger.audit()).ok


def until(true):
    """Look until it is so; a test's own time limit bounds it."""
    while not true():
        pass


def waits_for_a_lock(database, pid):
    sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    return lambda: database.execute(sql, pid) == [(1,)]


async def test_rows_that_another_session_locks_are_waited_for(postgres_engine, make, database, monkeypatch):
    monkeypatch.setattr(limits, "POSTGRES_LOCK_S", 0.02)
    async with postgres_engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        key, _ = await ledger.create_key("acme")
        await held_up(ledger, key, make, database, monkeypatch)
        # What was refused and placed after all was released again before this.
        await ledger.deposit("acme", 1)
        assert await amounts(ledger) == (1001, 200)


async def held_up(ledger, key, make, database, monkeypatch):
    with database.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match="lock timeout") as caught:
            ledger._store.apply([make.hold(key, 300)])
        assert caught.value.busy
        monkeypatch.setattr(limits, "HOLD_S", 0.05)
        with pytest.raises(LedgerUnavailable):
            await ledger.place(make.hold(key, 300))
        monkeypatch.setattr(limits, "HOLD_S", 5)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def place():
                assert isinstance(await ledger.place(make.hold(key, 200)), Placed)

            await trio.testing.wait_all_tasks_blocked()
            other.execute("ROLLBACK")


async def test_a_database_that_became_read_only_takes_no_holds(ledger, key, make):
    assert await ledger.ping()
    ledger._store._writing.execute("SET default_transaction_read_only = on")
    assert not await ledger.ping()
    assert isinstance(await ledger.place(make.hold(key, 300)), Placed)
    assert await ledger.ping()


async def test_a_hold_whose_commit_was_still_under_way_does_not_stay(ledger, key, make, database, monkeypatch):
    """The answer to a commit is lost while the server is at it; that the hold is void must wait for its fate."""
    monkeypatch.setattr(limits, "POSTGRES_LOCK_S", 30)
    database.execute(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'"
    )
    hold = make.hold(key, 300)
    with database.connect() as other:
        other.execute(
            "CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON holds DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION stall()"
        )
        other.execute("SELECT pg_advisory_lock(1)")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refused, ledger, hold)
                writing = ledger._store._writing
                await trio.to_thread.run_sync(until, waits_for_a_lock(database, writing.info.backend_pid))
                with socket.socket(fileno=os.dup(writing.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
            with trio.move_on_after(0.2):
                await ledger.ping(0.2)
            assert await ledger.hold(hold.id) is None
            assert ledger._store._in_doubt is not None
            other.execute("SELECT pg_advisory_unlock(1)")
            await ledger.deposit("acme", 1)
            found = await ledger.hold(hold.id)
            assert (found.state, found.reason) == (HoldState.RELEASED, "not_dispatched")
            assert await amounts(ledger) == (1001, 0)
        finally:
            other.execute("SELECT pg_advisory_unlock_all(); DROP TRIGGER stall ON holds; DROP FUNCTION stall")


async def refused(ledger, hold):
    with pytest.raises(LedgerUnavailable):
        await ledger.place(hold)


@pytest.mark.parametrize("way", ["kill", "shut_down_at_once"])
async def test_a_server_that_dies_is_waited_for_and_nothing_is_lost_or_done_twice(durable_server, make, way):
    database = durable_server.ledger()
    async with open_ledger(database.url, owner="gateway") as ledger:
        await ledger.create_account("acme", 1000)
        key, secret = await ledger.create_key("acme")
        holds = [make.hold(key, 100) for _ in range(5)]
        for hold in holds:
            await ledger.place(hold)
        getattr(durable_server, way)()
        await refused(ledger, make.hold(key, 100))
        with pytest.raises(LedgerUnavailable):
            await ledger.find_key(secret)
        assert not await ledger.ping()
        assert not ledger.reachable
        async with trio.open_nursery() as nursery:
            settled = []
            for hold in holds * 2:

                @nursery.start_soon
                async def settle(hold=hold):
                    settled.append(await ledger.settle(make.capture(hold, 60)))

            await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(durable_server.restart)
        assert sorted(answer.first for answer in settled) == [False] * 5 + [True] * 5
        assert (await ledger.find_key(secret)).account.balance_nanos == 700
        assert await amounts(ledger) == (700, 0)
        assert (await ledger.audit()).violations == ()
        assert isinstance(await ledger.place(make.hold(key, 100)), Placed)


async def test_a_server_that_hangs_blocks_no_thread_for_long(durable_server, make, monkeypatch):
    database = durable_server.ledger()
    async with open_ledger(database.url, owner="gateway") as ledger:
        await ledger.create_account("acme", 1000)
        key, secret = await ledger.create_key("acme")
        running = make.hold(key, 300)
        await ledger.place(running)
        monkeypatch.setattr(limits, "HOLD_S", 0.1)
        monkeypatch.setattr(limits, "SETTLE_S", 0.1)
        monkeypatch.setattr(limits, "POSTGRES_ANSWER_S", 0.3)
        ledger._store._writing.answer_s = 0.3
        processes = durable_server.processes()
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            reads = [lambda: unanswered(ledger.find_key, secret)] * 50
            await all_at_once(*reads, lambda: refused(ledger, make.hold(key, 100)))
            assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
            assert ledger._readers.borrowed_tokens <= limits.POSTGRES_READERS
            assert await ledger.settle(make.capture(running, 120)) is None
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)
        monkeypatch.undo()
        assert (await ledger.find_key(secret)).id == key.id
        assert (await ledger.settle(make.capture(running, 120))).charge_nanos == 120
        # Should the refused hold have been placed when the server went on, its release is before this in the queue.
        await ledger.deposit("acme", 1)
        assert await amounts(ledger) == (881, 0)


async def unanswered(read, *args):
    with pytest.raises(LedgerUnavailable):
        await read(*args)


async def test_sessions_that_the_server_ended_while_idle_are_not_used_again(ledger, key, database):
    assert await ledger.account("acme") is not None
    for _ in range(3):
        database.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'hoptrio' AND datname = current_database()"
        )
        assert await ledger.account("acme") is not None


async def test_the_audit_reads_a_ledger_larger_than_one_fetch(ledger, key, make, monkeypatch):
    monkeypatch.setattr(limits, "POSTGRES_FETCH_ROWS", 2)
    for _ in range(5):
        await ledger.place(make.hold(key, 10))
        await ledger.deposit("acme", 1)
    report = await ledger.audit()
    assert (report.violations, report.open_holds, report.entries) == ((), 5, 6)
