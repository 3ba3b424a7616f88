"""The embedded ledger: one SQLite file in WAL mode, readable by its owner alone.

``synchronous=FULL``, so a committed transaction survives a power cut: with group commit NORMAL gains nothing. Three
kinds of connection: one writes (the writer thread), one makes the event loop's point reads, and each scan opens its
own. In WAL mode readers see the last commit of any process and wait for no writer. Several processes may share the
file: a writer that finds it locked waits `limits.SQLITE_BUSY_S`, then says so, and is tried again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptrio import limits
from hoptrio.ledger.rules import standing, with_expiry
from hoptrio.ledger.schema import versions
from hoptrio.ledger.sql_rows import (
    ACCOUNT,
    ENTRY,
    EVIDENCE,
    HOLD,
    KEY,
    PAUSE,
    PROBE,
    REQUEST,
    account_of,
    claim_of,
    entry_of,
    evidence_of,
    hold_of,
    key_of,
    owner_of,
    pause_of,
    probe_of,
    record_of,
)
from hoptrio.ledger.sqlite_changes import FIND_CLAIM, Changes
from hoptrio.ledger.store import AuditedHold, Books, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hoptrio.ledger.model import (
        Account,
        ApiKey,
        Claim,
        Claimed,
        Entry,
        HoldRow,
        OwnerRow,
        PauseRow,
        ProbeRow,
        RequestFilter,
        RequestRecord,
        UsageEvidence,
    )
    from hoptrio.ledger.operations import Operation

__all__ = ["SqliteStore"]

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
#: Between two attempts at a file that another process is opening for the first time: it takes a few milliseconds.
_WAL_PAUSE_S = 0.01
#: Nothing sets it: this is how a thread waits.
_NEVER = threading.Event()
#: Primary result codes that speak of the disk or another process and not of the statement.
_UNAVAILABLE = _BUSY | {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_KEYS = f"SELECT {KEY} FROM api_keys k JOIN accounts a ON a.id = k.account_id"
_OWNERS = (
    "SELECT o.id, o.beat, o.renewed_at_ms, (SELECT count(*) FROM holds WHERE state = 'open' AND owner = o.id)"
    " FROM owners o UNION ALL SELECT owner, 0, 0, count(*) FROM holds WHERE state = 'open'"
    " AND owner NOT IN (SELECT id FROM owners) GROUP BY owner ORDER BY 1"
)


class SqliteStore:
    """`store.Store` over one file."""

    inline = False
    reads_inline = True

    def __init__(self, path: str, now_ms: Callable[[], int]) -> None:
        """Open the file, created and migrated as needed. Raises StoreUnavailable."""
        self._path = Path(path).absolute()
        self._now_ms = now_ms
        with _mapped():
            # SQLite gives its WAL files the mode of the database.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with closing(self._connect(limits.HOLD_S)) as connection:
                _migrate(connection, now_ms)
            self._writing: sqlite3.Connection | None = None
            self._reading = self._connect(limits.SQLITE_READ_BUSY_S, query_only=True)

    def _connect(self, busy_s: float, *, query_only: bool = False) -> sqlite3.Connection:
        # mode=rw: a file that was taken away must not be replaced by an empty one.
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw", uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {limits.SQLITE_WAL_PAGES}")
            connection.execute(f"PRAGMA query_only = {query_only:d}")
        except BaseException:
            # It opened, and what it opened is no database.
            connection.close()
            raise
        return connection

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """See `store.Store`."""
        committing = False
        try:
            connection = self._writer()
            connection.execute("BEGIN IMMEDIATE")
            answers = self._changes.apply(operations)
            committing = True
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            # A COMMIT that finds a lock has not committed (sqlite.org/lang_transaction.html, section 2.3).
            busy = _primary(error) in _BUSY
            self._roll_back(keep=busy)
            if _primary(error) not in _UNAVAILABLE:
                raise
            raise StoreUnavailable(str(error), busy=busy, uncertain=committing and not busy) from error
        except BaseException:
            self._roll_back(keep=False)
            raise
        return answers

    def _writer(self) -> sqlite3.Connection:
        if self._writing is None:
            self._writing = self._connect(limits.SQLITE_BUSY_S)
            self._changes = Changes(self._writing, self._now_ms)
        return self._writing

    def _roll_back(self, *, keep: bool) -> None:
        """Undo the transaction; after anything but a lock the connection is not trusted again."""
        connection = self._writing
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            keep = False
        if not keep:
            self._writing = None
            connection.close()

    # -- point reads --------------------------------------------------------------------------------------------------

    def _one(self, sql: str, *values: Any) -> Any:
        with _mapped():
            return self._reading.execute(sql, values).fetchone()

    def find_key(self, secret_hash: str) -> ApiKey | None:
        row = self._one(_KEYS + " WHERE k.secret_hash = ?", secret_hash)
        return None if row is None else with_expiry(key_of(row), self._now_ms())

    def request(self, request_id: str) -> RequestRecord | None:
        row = self._one(f"SELECT {REQUEST} FROM requests WHERE id = ?", request_id)
        return None if row is None else record_of(row)

    def account(self, name_or_id: str) -> Account | None:
        where = "WHERE a.id = ? OR a.name = ? ORDER BY a.id <> ? LIMIT 1"
        row = self._one(f"SELECT {ACCOUNT} FROM accounts a {where}", *[name_or_id] * 3)
        return None if row is None else account_of(row)

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        sql = "SELECT id, account_id, channel FROM provider_ids WHERE id IN (SELECT value FROM json_each(?))"
        with _mapped():
            rows = self._reading.execute(sql, (json.dumps(list(provider_ids)),)).fetchall()
        return {row[0]: (row[1], row[2]) for row in rows}

    def hold(self, hold_id: str) -> HoldRow | None:
        row = self._one(f"SELECT {HOLD} FROM holds h WHERE h.id = ?", hold_id)
        return None if row is None else hold_of(row)

    def claimed(self, claim: Claim) -> Claimed | None:
        row = self._one(FIND_CLAIM, claim.name)
        if row is None:
            return None
        return standing(claim_of(row[15:]), hold_of(row), claim.window_ms, self._now_ms())

    # -- scans --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _scan(self) -> Iterator[sqlite3.Connection]:
        with _mapped(), closing(self._connect(limits.SQLITE_BUSY_S, query_only=True)) as connection:
            yield connection

    def _all(self, sql: str, *values: Any) -> list[Any]:
        with self._scan() as connection:
            return connection.execute(sql, values).fetchall()

    def requests(self, where: RequestFilter) -> list[RequestRecord]:
        columns = ("account_id", "key_id", "protocol", "model", "channel", "state", "reason", "client_request_id")
        terms = {f"{column} = ?": getattr(where, column) for column in columns}
        terms |= {"created_at_ms >= ?": where.since_ms, "created_at_ms < ?": where.until_ms}
        chosen = {term: value for term, value in terms.items() if value is not None}
        values = list(chosen.values())
        if where.before is not None:
            # The first half alone is in the index of times.
            chosen |= {"created_at_ms <= ?": None, "(created_at_ms, id) < (?, ?)": None}
            values += [where.before[0], *where.before]
        condition = " AND ".join(chosen) or "1"
        sql = f"SELECT {REQUEST} FROM requests WHERE {condition} ORDER BY created_at_ms DESC, id DESC LIMIT ?"
        return [record_of(row) for row in self._all(sql, *values, where.limit)]

    def accounts(self) -> list[Account]:
        return [account_of(row) for row in self._all(f"SELECT {ACCOUNT} FROM accounts a ORDER BY a.name")]

    def keys(self, account_id: str | None) -> list[ApiKey]:
        sql = _KEYS + " WHERE ? IS NULL OR k.account_id = ? ORDER BY k.created_at_ms, k.id"
        return [key_of(row) for row in self._all(sql, account_id, account_id)]

    def entries(self, account_id: str, after_seq: int, limit: int) -> list[Entry]:
        sql = f"SELECT {ENTRY} FROM entries WHERE account_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        return [entry_of(row) for row in self._all(sql, account_id, after_seq, limit)]

    def entry_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after_seq: int, limit: int
    ) -> list[Entry]:
        where = "seq > ? AND at_ms >= ? AND at_ms < ?" + (" AND account_id = ?" if account_id else "")
        values = (after_seq, since_ms, until_ms, *([account_id] if account_id else []))
        return [
            entry_of(row)
            for row in self._all(f"SELECT {ENTRY} FROM entries WHERE {where} ORDER BY seq LIMIT ?", *values, limit)
        ]

    def last_entries(self, account_id: str | None, before_seq: int | None, limit: int) -> list[Entry]:
        terms = {"account_id = ?": account_id, "seq < ?": before_seq}
        chosen = {term: value for term, value in terms.items() if value is not None}
        where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
        sql = f"SELECT {ENTRY} FROM entries{where} ORDER BY seq DESC LIMIT ?"
        return [entry_of(row) for row in self._all(sql, *chosen.values(), limit)]

    def request_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after: tuple[int, str], limit: int
    ) -> list[RequestRecord]:
        where = "created_at_ms >= ? AND created_at_ms < ? AND (created_at_ms, id) > (?, ?)"
        where += " AND account_id = ?" if account_id else ""
        values = (max(since_ms, after[0]), until_ms, *after, *([account_id] if account_id else []))
        sql = f"SELECT {REQUEST} FROM requests WHERE {where} ORDER BY created_at_ms, id LIMIT ?"
        return [record_of(row) for row in self._all(sql, *values, limit)]

    def open_holds(self, owner: str | None) -> list[HoldRow]:
        where = "h.state = 'open' AND (? IS NULL OR h.owner = ?)"
        sql = f"SELECT {HOLD} FROM holds h WHERE {where} ORDER BY h.created_at_ms, h.id"
        return [hold_of(row) for row in self._all(sql, owner, owner)]

    def held_nanos(self) -> int:
        return int(self._all("SELECT coalesce(sum(amount_nanos), 0) FROM holds WHERE state = 'open'")[0][0])

    def open_since_ms(self) -> list[int]:
        return [row[0] for row in self._all("SELECT created_at_ms FROM holds WHERE state = 'open'")]

    def owners(self) -> list[OwnerRow]:
        return [owner_of(row) for row in self._all(_OWNERS)]

    def usage_evidence(self) -> list[UsageEvidence]:
        sql = f"SELECT {EVIDENCE} FROM channel_model_usage_evidence ORDER BY channel, model, protocol"
        return [evidence_of(row) for row in self._all(sql)]

    def probes(self) -> list[ProbeRow]:
        return [probe_of(row) for row in self._all(f"SELECT {PROBE} FROM probes ORDER BY channel, model, protocol")]

    def pauses(self) -> list[PauseRow]:
        return [pause_of(row) for row in self._all(f"SELECT {PAUSE} FROM channel_pauses ORDER BY channel")]

    @contextmanager
    def books(self) -> Iterator[Books]:
        """Everything as of one commit: all reads are in one transaction."""
        with self._scan() as connection:
            connection.execute("BEGIN")
            keys = connection.execute(
                f"SELECT {KEY}, k.spent_period, k.spent_nanos FROM api_keys k JOIN accounts a ON a.id = k.account_id"
            ).fetchall()
            holds = connection.execute(
                f"SELECT {HOLD}, r.state, r.charge_nanos FROM holds h LEFT JOIN requests r ON r.id = h.request_id"
            )
            yield Books(
                [account_of(row) for row in connection.execute(f"SELECT {ACCOUNT} FROM accounts a ORDER BY a.name")],
                [(key_of(row), row[16], row[17]) for row in keys],
                [owner_of(row) for row in connection.execute(_OWNERS)],
                (AuditedHold(hold_of(row), row[15], row[16]) for row in holds),
                (entry_of(row) for row in connection.execute(f"SELECT {ENTRY} FROM entries ORDER BY seq")),
                self._now_ms(),
            )

    def schema_version(self) -> int:
        [(number,)] = self._all("SELECT max(number) FROM schema_version")
        return int(number)

    def close(self) -> None:
        """Close the connections; the last one on the file folds the WAL into it."""
        self._reading.close()
        if self._writing is not None:
            self._writing.close()


def _migrate(connection: sqlite3.Connection, now_ms: Callable[[], int]) -> None:
    """Apply what is missing of the schema, each file in a transaction; processes that start together take turns.

    Raises StoreUnavailable for a schema that is newer than this program.
    """
    _switch_to_wal(connection)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (number INTEGER PRIMARY KEY, applied_at_ms INTEGER NOT NULL) STRICT"
    )
    for number, sql in versions("sqlite"):
        connection.execute("BEGIN IMMEDIATE")
        applied = "SELECT 1 FROM schema_version WHERE number = ?"
        if connection.execute(applied, (number,)).fetchone() is None:
            for statement in _statements(sql):
                connection.execute(statement)
            connection.execute("INSERT INTO schema_version VALUES (?, ?)", (number, now_ms()))
        connection.execute("COMMIT")
    [(found,)] = connection.execute("SELECT max(number) FROM schema_version")
    if found > number:
        raise StoreUnavailable(f"the ledger's schema is {found}, and this version of hoptrio knows {number} at most")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Set the file's mode, which stays. SQLite does not wait here as it does elsewhere: processes that start together
    may each hold the read lock that the other's change waits for, and one is told at once that the file is busy
    (sqlite.org/c3ref/busy_handler.html). Raises sqlite3.Error where it stays busy for `limits.HOLD_S`."""
    until = time.monotonic() + limits.HOLD_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        _NEVER.wait(_WAL_PAUSE_S)


def _statements(sql: str) -> Iterator[str]:
    """The single statements of a file: `executescript` would commit the transaction first."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _primary(error: sqlite3.Error) -> int:
    """The primary result code; the extended codes have it in their low byte (sqlite.org/rescode.html)."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


@contextmanager
def _mapped() -> Iterator[None]:
    """A read or opening that the engine cannot do now."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, sqlite3.Error) and _primary(error) not in _UNAVAILABLE:
            raise
        raise StoreUnavailable(f"the ledger's file cannot be used: {error}") from error
