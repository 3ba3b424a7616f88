"""The ledger of several nodes: one PostgreSQL database (14 or newer), whose clock is the only one that counts.

One session writes, in the writer thread, a batch in one transaction (`postgres_batch`). Reads are made by worker
threads over a few sessions that are kept; none waits for a writer, and each sees what any node committed before. After
any failure a session is dropped and a new one made.

A commit whose answer was lost may still be under way on the server. The repetition of a settlement would wait for its
locks, but a hold that is not there yet could not be released; so nothing is applied before the fate of such a
transaction is certain.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from hoptrio import limits
from hoptrio.ledger.changes import Changes
from hoptrio.ledger.postgres_batch import Batch, provider_key
from hoptrio.ledger.postgres_schema import check, version
from hoptrio.ledger.postgres_session import Session, connect, conninfo, plain, reading, unavailable
from hoptrio.ledger.rules import standing, with_expiry
from hoptrio.ledger.sql_rows import (
    ACCOUNT,
    CLAIM,
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
from hoptrio.ledger.store import AuditedHold, Books, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

__all__ = ["PostgresStore"]

_KEYS = f"SELECT {KEY} FROM api_keys k JOIN accounts a ON a.id = k.account_id"
_CLAIM = f"SELECT {HOLD}, {CLAIM}, ledger_now_ms() FROM claims c JOIN holds h ON h.id = c.hold_id WHERE c.name = %s"
_OWNERS = (
    "SELECT coalesce(o.id, h.owner), coalesce(o.beat, 0), coalesce(o.renewed_at_ms, 0), coalesce(h.count, 0)"
    " FROM owners o FULL JOIN (SELECT owner, count(*) FROM holds WHERE state = 'open' GROUP BY owner) h"
    " ON h.owner = o.id ORDER BY 1"
)


class PostgresStore:
    """`store.Store` over one database."""

    inline = False
    reads_inline = False

    def __init__(self, url: str, *, patient: bool = False) -> None:
        """Connect and look at the schema; it must be this version's (`postgres_schema.migrate` makes it so). A
        `patient` one does that when it is first asked for something.

        Raises StoreUnavailable; ValueError for a URL that is none.
        """
        self._dsn = conninfo(url, statement_s=limits.POSTGRES_STATEMENT_S, by_index=True)
        self._reading_dsn = conninfo(url, statement_s=limits.POSTGRES_SCAN_S)
        self._writing: Session | None = None
        #: The transaction whose commit was not answered.
        self._in_doubt: str | None = None
        self._idle: deque[Session] = deque()
        self._closed = False
        self._checked = False
        if not patient:
            with self._session():
                pass

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """See `store.Store`."""
        session = self._writer()
        batch, committing = Batch(session, operations), False
        try:
            batch.load()
            answers = Changes(batch, lambda: batch.now_ms).apply(operations)
            committing = True
            batch.save()
        except psycopg.Error as error:
            # A server that is told to stop says so (57P) before it hangs up.
            uncertain = committing and (session.closed or (error.sqlstate or "57P").startswith("57P"))
            self._drop(batch.id if uncertain else None)
            raise unavailable(error, uncertain=uncertain) from error
        except BaseException:
            self._drop(None)
            raise
        return answers

    def _writer(self) -> Session:
        if self._writing is None or self._writing.closed:
            self._writing = self._connect(self._dsn)
            self._writing.answer_s = limits.POSTGRES_ANSWER_S
        if self._in_doubt is not None:
            with reading(self._writing) as session:
                if _in_progress(session, self._in_doubt):
                    raise StoreUnavailable("a commit is still under way", busy=True)
            self._in_doubt = None
        return self._writing

    def _connect(self, dsn: str) -> Session:
        session = connect(dsn)
        if not self._checked:
            with reading(session):
                check(session)
            self._checked = True
        return session

    def _drop(self, in_doubt: str | None) -> None:
        assert self._writing is not None
        self._in_doubt = in_doubt
        self._writing.close()
        self._writing = None

    # -- reads --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _session(self, *, scan: bool = False) -> Iterator[Session]:
        """A session to read with, kept for the next one unless it failed."""
        session = self._kept() or self._connect(self._reading_dsn)
        session.answer_s = limits.POSTGRES_SCAN_S if scan else limits.POSTGRES_ANSWER_S
        with reading(session):
            yield session
        self._idle.append(session)
        self._trim()

    def _trim(self) -> None:
        """Close what is too much, in whichever thread finds it so."""
        while len(self._idle) > (0 if self._closed else limits.POSTGRES_READERS):
            with suppress(IndexError):  # Another thread took the last one.
                self._idle.popleft().close()

    def _kept(self) -> Session | None:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:  # Another thread took the last one.
                return None
            if not session.stale:
                return session
            session.close()
        return None

    def _one(self, sql: str, *values: Any) -> Any:
        with self._session() as session:
            return session.execute(sql, plain(values)).fetchone()

    def _all(self, sql: str, *values: Any, scan: bool = True) -> list[Any]:
        with self._session(scan=scan) as session:
            return session.execute(sql, plain(values)).fetchall()

    def find_key(self, secret_hash: str) -> ApiKey | None:
        sql = f"SELECT {KEY}, ledger_now_ms() FROM api_keys k JOIN accounts a ON a.id = k.account_id"
        row = self._one(f"{sql} WHERE k.secret_hash = %s", secret_hash)
        return None if row is None else with_expiry(key_of(row), row[16])

    def request(self, request_id: str) -> RequestRecord | None:
        row = self._one(f"SELECT {REQUEST} FROM requests WHERE id = %s", request_id)
        return None if row is None else record_of(row)

    def account(self, name_or_id: str) -> Account | None:
        where = "WHERE a.id = %s OR a.name = %s ORDER BY a.id <> %s LIMIT 1"
        row = self._one(f"SELECT {ACCOUNT} FROM accounts a {where}", *[name_or_id] * 3)
        return None if row is None else account_of(row)

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        keys = {provider_key(each): each for each in provider_ids}
        with self._session() as session:
            sql = "SELECT id, account_id, channel FROM provider_ids WHERE id = ANY(%s)"
            return {keys[row[0]]: (row[1], row[2]) for row in session.execute(sql, (list(keys),))}

    def hold(self, hold_id: str) -> HoldRow | None:
        row = self._one(f"SELECT {HOLD} FROM holds h WHERE h.id = %s", hold_id)
        return None if row is None else hold_of(row)

    def claimed(self, claim: Claim) -> Claimed | None:
        row = self._one(_CLAIM, claim.name)
        return None if row is None else standing(claim_of(row[15:19]), hold_of(row), claim.window_ms, row[19])

    # -- scans --------------------------------------------------------------------------------------------------------

    def requests(self, where: RequestFilter) -> list[RequestRecord]:
        columns = ("account_id", "key_id", "protocol", "model", "channel", "state", "reason", "client_request_id")
        terms = {f"{column} = %s": getattr(where, column) for column in columns}
        terms |= {"created_at_ms >= %s": where.since_ms, "created_at_ms < %s": where.until_ms}
        chosen = {term: value for term, value in terms.items() if value is not None}
        values = list(chosen.values())
        if where.before is not None:
            chosen["(created_at_ms, id) < (%s, %s)"] = None
            values += where.before
        condition = " AND ".join(chosen) or "true"
        sql = f"SELECT {REQUEST} FROM requests WHERE {condition} ORDER BY created_at_ms DESC, id DESC LIMIT %s"
        return [record_of(row) for row in self._all(sql, *values, where.limit)]

    def accounts(self) -> list[Account]:
        return [account_of(row) for row in self._all(f"SELECT {ACCOUNT} FROM accounts a ORDER BY a.name")]

    def keys(self, account_id: str | None) -> list[ApiKey]:
        where = "" if account_id is None else " WHERE k.account_id = %s"
        values = [] if account_id is None else [account_id]
        return [key_of(row) for row in self._all(f"{_KEYS}{where} ORDER BY k.created_at_ms, k.id", *values)]

    def entries(self, account_id: str, after_seq: int, limit: int) -> list[Entry]:
        sql = f"SELECT {ENTRY} FROM entries WHERE account_id = %s AND seq > %s ORDER BY seq LIMIT %s"
        return [entry_of(row) for row in self._all(sql, account_id, after_seq, limit)]

    def entry_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after_seq: int, limit: int
    ) -> list[Entry]:
        where = "seq > %s AND at_ms >= %s AND at_ms < %s" + (" AND account_id = %s" if account_id else "")
        values = (after_seq, since_ms, until_ms, *([account_id] if account_id else []), limit)
        sql = f"SELECT {ENTRY} FROM entries WHERE {where} ORDER BY seq LIMIT %s"
        return [entry_of(row) for row in self._all(sql, *values)]

    def last_entries(self, account_id: str | None, before_seq: int | None, limit: int) -> list[Entry]:
        terms = {"account_id = %s": account_id, "seq < %s": before_seq}
        chosen = {term: value for term, value in terms.items() if value is not None}
        where = f" WHERE {' AND '.join(chosen)}" if chosen else ""
        sql = f"SELECT {ENTRY} FROM entries{where} ORDER BY seq DESC LIMIT %s"
        return [entry_of(row) for row in self._all(sql, *chosen.values(), limit)]

    def request_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after: tuple[int, str], limit: int
    ) -> list[RequestRecord]:
        where = "created_at_ms >= %s AND created_at_ms < %s AND (created_at_ms, id) > (%s, %s)"
        where += " AND account_id = %s" if account_id else ""
        values = (max(since_ms, after[0]), until_ms, *after, *([account_id] if account_id else []), limit)
        sql = f"SELECT {REQUEST} FROM requests WHERE {where} ORDER BY created_at_ms, id LIMIT %s"
        return [record_of(row) for row in self._all(sql, *values)]

    def open_holds(self, owner: str | None) -> list[HoldRow]:
        where = "" if owner is None else " AND h.owner = %s"
        values = [] if owner is None else [owner]
        sql = f"SELECT {HOLD} FROM holds h WHERE h.state = 'open'{where} ORDER BY h.created_at_ms, h.id"
        return [hold_of(row) for row in self._all(sql, *values, scan=False)]

    def held_nanos(self) -> int:
        sql = "SELECT coalesce(sum(amount_nanos), 0) FROM holds WHERE state = 'open'"
        return int(self._all(sql, scan=False)[0][0])

    def open_since_ms(self) -> list[int]:
        return [row[0] for row in self._all("SELECT created_at_ms FROM holds WHERE state = 'open'", scan=False)]

    def owners(self) -> list[OwnerRow]:
        return [owner_of(row) for row in self._all(_OWNERS, scan=False)]

    def usage_evidence(self) -> list[UsageEvidence]:
        sql = f"SELECT {EVIDENCE} FROM channel_model_usage_evidence ORDER BY channel, model, protocol"
        return [evidence_of(row) for row in self._all(sql, scan=False)]

    def probes(self) -> list[ProbeRow]:
        sql = f"SELECT {PROBE} FROM probes ORDER BY channel, model, protocol"
        return [probe_of(row) for row in self._all(sql, scan=False)]

    def pauses(self) -> list[PauseRow]:
        sql = f"SELECT {PAUSE} FROM channel_pauses ORDER BY channel"
        return [pause_of(row) for row in self._all(sql, scan=False)]

    @contextmanager
    def books(self) -> Iterator[Books]:
        """Everything as of one snapshot; holds and entries pass through cursors of the server, some at a time."""
        with self._session(scan=True) as session:
            session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            keys = session.execute(
                f"SELECT {KEY}, k.spent_period, k.spent_nanos FROM api_keys k JOIN accounts a ON a.id = k.account_id"
            )
            accounts = session.execute(f"SELECT {ACCOUNT} FROM accounts a ORDER BY a.name")
            [(now_ms,)] = session.execute("SELECT ledger_now_ms()")
            holds = _rows(
                session,
                f"SELECT {HOLD}, r.state, r.charge_nanos FROM holds h LEFT JOIN requests r ON r.id = h.request_id",
            )
            yield Books(
                [account_of(row) for row in accounts],
                [(key_of(row), row[16], row[17]) for row in keys],
                [owner_of(row) for row in session.execute(_OWNERS)],
                (AuditedHold(hold_of(row), row[15], row[16]) for row in holds),
                map(entry_of, _rows(session, f"SELECT {ENTRY} FROM entries ORDER BY seq")),
                now_ms,
            )
            session.execute("COMMIT")

    def schema_version(self) -> int:
        with self._session() as session:
            return version(session)

    def close(self) -> None:
        """Close the sessions; one that still reads is closed when it is done."""
        self._closed = True
        self._trim()
        if self._writing is not None:
            self._writing.close()


def _rows(session: Session, sql: str) -> Iterator[Any]:
    """The rows of a query of an open transaction, `limits.POSTGRES_FETCH_ROWS` in memory at a time."""
    with session.cursor(name=f"scan_{id(sql)}") as cursor:
        cursor.itersize = limits.POSTGRES_FETCH_ROWS
        yield from cursor.execute(sql)


def _in_progress(session: Session, transaction: str) -> bool:
    """Has its fate not been decided? One that this server does not know, after a failover, was lost."""
    try:
        [(status,)] = session.execute("SELECT pg_xact_status(%s::xid8)", (transaction,))
    except psycopg.errors.InvalidParameterValue:
        return False
    return bool(status == "in progress")
