"""``python -m bench.ledger``: holds and settlements per second, and how long a hold takes, next to the plain driver.

Each caller places a hold, waits for it, settles it, waits for that, and begins again: what a stream does to the
ledger. hoptrio's callers are tasks on one event loop before one `Ledger`; the plain driver's are threads, each with a
connection of its own, that run the same statements a transaction at a time: a hold reads and reserves and makes two
rows; a settlement reads the hold, resolves it, moves the balance, adds an entry and changes the record. On both sides
all is durable when it is answered.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.postgres import running_server
from hoptrio.ledger.ledger import open_ledger
from hoptrio.ledger.model import ApiKey, Hold, RequestRecord, Resolution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLERS = (1, 64, 256)
SECONDS = 3.0
AMOUNT_NANOS = 1000
DEPOSIT_NANOS = 10**15


class Row(NamedTuple):
    """What so many callers at once got."""

    engine: str
    who: str
    callers: int
    holds_per_s: float
    operations_per_s: float
    hold_p50_ms: float
    hold_p99_ms: float


class Tally:
    """What callers did; each appends to the one list."""

    def __init__(self) -> None:
        self.hold_s: list[float] = []
        self.began = time.perf_counter()
        self.until = self.began + SECONDS

    def row(self, engine: str, who: str, callers: int) -> Row:
        """The figures; every hold that is in the list was settled, too."""
        elapsed = time.perf_counter() - self.began
        cuts = statistics.quantiles(self.hold_s, n=100) if len(self.hold_s) > 1 else [0.0] * 99
        holds = len(self.hold_s) / elapsed
        return Row(engine, who, callers, holds, 2 * holds, cuts[49] * 1000, cuts[98] * 1000)


# -- hoptrio ---------------------------------------------------------------------------------------------------------


async def measure_hoptrio(driver: Driver, url: str, callers: int) -> Row:
    """`callers` tasks before one ledger."""
    async with open_ledger(url, owner="bench", journal=driver.journal) as ledger:
        name = f"bench-{time.time_ns()}"
        await ledger.create_account(name, DEPOSIT_NANOS)
        key, _ = await ledger.create_key(name)
        tally = Tally()

        async def call(caller: int) -> None:
            number = 0
            while time.perf_counter() < tally.until:
                hold = _hold(key, f"{name}-{caller}-{number}")
                began = time.perf_counter()
                await ledger.place(hold)
                tally.hold_s.append(time.perf_counter() - began)
                await ledger.settle(_capture(hold))
                number += 1

        async with trio.open_nursery() as nursery:
            for caller in range(callers):
                nursery.start_soon(call, caller)
        return tally.row(driver.engine, "hoptrio", callers)


def _hold(key: ApiKey, name: str) -> Hold:
    request = RequestRecord(
        id=f"req_{name}",
        account_id=key.account.id,
        key_id=key.id,
        created_at_ms=time.time_ns() // 10**6,
        protocol="chat",
        model="sim-small",
        contract="hoptrio",
        stream=True,
        state="running",
        hold_nanos=AMOUNT_NANOS,
    )
    return Hold(id=f"hold_{name}", request=request, amount_nanos=AMOUNT_NANOS, prices="{}", owner="bench")


def _capture(hold: Hold) -> Resolution:
    record = replace(hold.request, state="captured", evidence="sse_terminal", charge_nanos=1, raw_usage='{"input": 1}')
    return Resolution(hold_id=hold.id, capture_nanos=1, request=record)


# -- the plain driver ------------------------------------------------------------------------------------------------

_HOLD = (
    "SELECT k.id, a.id, a.balance_nanos, a.held_nanos FROM api_keys k JOIN accounts a ON a.id = k.account_id"
    " WHERE k.id = ?{lock}",
    "UPDATE accounts SET held_nanos = held_nanos + 1000 WHERE id = ?",
    "INSERT INTO holds (id, request_id, account_id, key_id, amount_nanos, prices, owner, supplier,"
    " revenue_share_nanos, created_at_ms) VALUES (?, ?, ?, ?, 1000, '{{}}', 'plain', '', 0, 0)",
    "INSERT INTO requests (id, account_id, key_id, created_at_ms, protocol, model, contract, stream, state, evidence,"
    " usage, raw_usage, hold_nanos, flags, attempts, timeline, provider_ids)"
    " VALUES (?, ?, ?, 0, 'chat', 'm', 'c', {true}, 'running', 'none', '', '', 1000, '[]', 1, '[]', '[]')",
)
_SETTLE = (
    "SELECT h.account_id, a.balance_nanos FROM holds h JOIN accounts a ON a.id = h.account_id WHERE h.id = ?{lock}",
    "UPDATE holds SET state = 'captured', charge_nanos = 1, resolved_at_ms = 1 WHERE id = ?",
    "UPDATE accounts SET balance_nanos = balance_nanos - 1, held_nanos = held_nanos - 1000 WHERE id = ?",
    "INSERT INTO entries (at_ms, account_id, kind, amount_nanos, memo_nanos, hold_id)"
    " VALUES (0, ?, 'capture', -1, 999, ?)",
    "UPDATE requests SET state = 'captured', evidence = 'sse_terminal', charge_nanos = 1 WHERE id = ?",
)


class Driver(NamedTuple):
    """A database's own driver: how to connect, to begin, and how its SQL differs."""

    engine: str
    connect: Callable[[], Any]
    begin: str
    mark: str
    lock: str
    true: str
    #: Where hoptrio's journal lies; on SQLite it has none by default.
    journal: Path | None

    def statements(self, templates: tuple[str, ...]) -> list[str]:
        """In this database's words."""
        return [each.format(lock=self.lock, true=self.true).replace("?", self.mark) for each in templates]


async def measure_plain(driver: Driver, url: str, callers: int) -> Row:
    """`callers` threads, a connection each."""
    name = f"plain-{time.time_ns()}"
    async with open_ledger(url) as ledger:
        await ledger.create_account(name, DEPOSIT_NANOS)
        key, _ = await ledger.create_key(name)
    return await trio.to_thread.run_sync(_run_plain, driver, key, name, callers)


def _run_plain(driver: Driver, key: ApiKey, name: str, callers: int) -> Row:
    start = threading.Barrier(callers + 1)
    tallies: list[Tally] = []

    def call(caller: int) -> None:
        with closing(driver.connect()) as connection:
            start.wait()
            _call_plain(driver, connection, key, f"{name}-{caller}", tallies[0])

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    tallies.append(Tally())
    start.wait()
    for thread in threads:
        thread.join()
    return tallies[0].row(driver.engine, "plain driver", callers)


def _call_plain(driver: Driver, connection: Any, key: ApiKey, name: str, tally: Tally) -> None:
    find_key, reserve, add_hold, add_request = driver.statements(_HOLD)
    find_hold, resolve, move, enter, record = driver.statements(_SETTLE)
    execute, account, number = connection.execute, key.account.id, 0
    while time.perf_counter() < tally.until:
        hold, request, number = f"hold_{name}-{number}", f"req_{name}-{number}", number + 1
        began = time.perf_counter()
        execute(driver.begin)
        execute(find_key, (key.id,)).fetchone()
        execute(reserve, (account,))
        execute(add_hold, (hold, request, account, key.id))
        execute(add_request, (request, account, key.id))
        execute("COMMIT")
        tally.hold_s.append(time.perf_counter() - began)
        execute(driver.begin)
        execute(find_hold, (hold,)).fetchone()
        execute(resolve, (hold,))
        execute(move, (account,))
        execute(enter, (account, hold))
        execute(record, (request,))
        execute("COMMIT")


def sqlite_driver(path: Path) -> Driver:
    """The standard library's."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    return Driver("SQLite", connect, "BEGIN IMMEDIATE", "?", "", "1", None)


def postgres_driver(url: str, journal: Path) -> Driver:
    """psycopg."""
    import psycopg

    connect = partial(psycopg.connect, url, autocommit=True)
    return Driver("PostgreSQL", connect, "BEGIN", "%s", " FOR UPDATE OF a", "true", journal)


# -- all of it -------------------------------------------------------------------------------------------------------


@contextmanager
def engines(postgres: str | None) -> Iterator[list[tuple[Driver, str]]]:
    """The drivers and the ledgers' URLs: SQLite in a temporary directory; PostgreSQL there, or at `postgres`."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hoptrio-bench-")))
        url = postgres or stack.enter_context(running_server()).url
        yield [
            (sqlite_driver(directory / "ledger.db"), f"sqlite:///{directory}/ledger.db"),
            (postgres_driver(url, directory / "journal"), url),
        ]


async def measure(chosen: list[tuple[Driver, str]], progress: Progress) -> list[Row]:
    """Every row, in turn."""
    bar = progress.add_task("ledger", total=2 * len(chosen) * len(CALLERS))
    rows = []
    for driver, url in chosen:
        for callers in CALLERS:
            rows.append(await measure_hoptrio(driver, url, callers))
            progress.advance(bar)
            rows.append(await measure_plain(driver, url, callers))
            progress.advance(bar)
    return rows


def table(rows: list[Row]) -> Table:
    """For people."""
    shown = Table(title="holds and settlements", title_justify="left")
    for column in ("engine", "callers", "who", "operations/s", "hold p50 ms", "hold p99 ms"):
        shown.add_column(column, justify="left" if column in ("engine", "who") else "right")
    for row in rows:
        figures = (f"{row.operations_per_s:,.0f}", f"{row.hold_p50_ms:.2f}", f"{row.hold_p99_ms:.2f}")
        shown.add_row(row.engine, str(row.callers), row.who, *figures)
    return shown


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="an empty database of your own; default: a temporary server")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with engines(arguments.postgres) as chosen, Progress(transient=True) as progress:
        rows = trio.run(measure, chosen, progress)
    if arguments.json:
        print(json.dumps([row._asdict() for row in rows]))  # noqa: T201
    else:
        Console().print(table(rows))


if __name__ == "__main__":
    main()
