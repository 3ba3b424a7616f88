"""The audit finds whatever was broken behind the ledger's back; each test breaks one thing in the file."""

from __future__ import annotations

import sqlite3

import pytest

SHARE = 500_000_000


async def broken_by(engine, make, *statements):
    """The violations after a captured, a released and an open hold, and `statements`."""
    async with engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        await ledger.create_account("maker")
        key, _ = await ledger.create_key("acme", budget_nanos=10**6, budget_per="day")
        captured, released, opened = (
            make.hold(key, 100, supplier="maker", revenue_share_nanos=SHARE) for _ in range(3)
        )
        for hold in (captured, released, opened):
            await ledger.place(hold)
        await ledger.settle(make.capture(captured, 60))
        await ledger.settle(make.release(released))
        assert (await ledger.audit()).ok
        with sqlite3.connect(engine.url.removeprefix("sqlite:///")) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for trigger in ("entries_are_not_changed", "entries_are_kept", "holds_resolve_once", "holds_are_kept"):
                connection.execute(f"DROP TRIGGER {trigger}")
            for statement in statements:
                connection.execute(statement)
        connection.close()
        report = await ledger.audit()
        assert report.ok is not bool(report.violations)
        return " | ".join(report.violations)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE accounts SET balance_nanos = 941 WHERE name = 'acme'", "balance 941, its entries add up to 940"),
        ("UPDATE accounts SET held_nanos = 99 WHERE name = 'acme'", "held 99, its open holds add up to 100"),
        ("UPDATE entries SET amount_nanos = 40 WHERE kind = 'deposit'", "falls to -20"),
        ("UPDATE entries SET amount_nanos = -61 WHERE kind = 'capture'", "charged 60, its entries add up to 61"),
        ("UPDATE entries SET amount_nanos = 31 WHERE kind = 'share'", "the supplier got 31 instead of 30"),
        ("UPDATE entries SET memo_nanos = 99 WHERE kind = 'release'", "returned 99 of 100"),
        ("UPDATE entries SET hold_id = 'hold_x' WHERE kind = 'release'", "hold_x: has entries and does not exist"),
        ("UPDATE entries SET account_id = 'acct_x' WHERE kind = 'release'", "an entry is another account's"),
        ("DELETE FROM entries WHERE kind = 'release'", "released with 0 resolutions"),
        ("UPDATE holds SET state = 'open' WHERE id = 'hold_0002'", "open with 1 resolutions"),
        ("DELETE FROM holds WHERE id = 'hold_0002'", "hold_0002: has entries and does not exist"),
        ("UPDATE requests SET state = 'running' WHERE id = 'req_0001'", "captured, its request says running"),
        ("UPDATE requests SET charge_nanos = 1 WHERE id = 'req_0001'", "charged 60, its request says 1"),
        ("UPDATE api_keys SET spent_nanos = 59", "59 noted as spent"),
        ("DELETE FROM owners", "open, and its owner gateway is gone"),
    ],
)
async def test_what_is_broken_is_named(sqlite_engine, make, statement, told):
    assert told in await broken_by(sqlite_engine, make, statement)


async def test_a_request_record_that_was_removed_is_no_violation(sqlite_engine, make):
    assert await broken_by(sqlite_engine, make, "DELETE FROM requests") == ""


async def test_an_open_hold_of_an_owner_whose_lease_is_over_is_one(engine, make, wall):
    async with engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        key, _ = await ledger.create_key("acme")
        await ledger.place(make.hold(key, 100))
        wall.at_ms += 60_000
        assert (await ledger.audit()).violations == ("hold hold_0001: open, and its owner gateway is gone",)


async def test_the_counts(engine, make):
    async with engine.open() as ledger:
        await ledger.create_account("acme", 1000)
        key, _ = await ledger.create_key("acme")
        holds = [make.hold(key, 100) for _ in range(4)]
        for hold in holds:
            await ledger.place(hold)
        await ledger.settle(make.capture(holds[0], 60))
        await ledger.settle(make.capture(holds[1], 0))
        await ledger.settle(make.release(holds[2]))
        report = await ledger.audit()
        assert (report.open_holds, report.captured, report.released) == (1, 2, 1)
        assert (report.captured_nanos, report.balance_nanos, report.held_nanos) == (60, 940, 100)
        assert (report.accounts, report.entries) == (1, 4)
