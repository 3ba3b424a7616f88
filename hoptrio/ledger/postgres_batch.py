"""One batch of operations in one PostgreSQL transaction of two round trips, however many operations there are.

The first finds what the batch touches, locks the accounts and reads the rest; then `changes` runs on these rows; the
second writes what changed and commits.

The lock of an account's row serialises everything that is the account's: its balance, its keys' limits and spending,
its holds and its entries are read under that lock alone. So READ COMMITTED is enough: each statement behind the lock
sees what every earlier holder of it committed, and nothing of it can change before we commit. The statement that locks
reads only what never changes once it is there (whose a key or hold is, an account's name). A key or hold that came to
be between it and the reads behind it may have an account that is not locked: then the batch is tried again. Locks are
taken in the order of ids, by one statement, so no two nodes wait for each other; what is unique without a lock (names,
secrets, provider-side ids) is written in the order of its text.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from hoptrio import limits
from hoptrio.ledger.model import EntryKind, Hold, HoldState, Resolution
from hoptrio.ledger.operations import (
    CreateAccount,
    CreateKey,
    Move,
    Operation,
    Ping,
    Release,
    RevokeKey,
    SetDisabled,
)
from hoptrio.ledger.postgres_session import plain
from hoptrio.ledger.rows import Rows
from hoptrio.ledger.rules import Moved
from hoptrio.ledger.sql_rows import (
    ACCOUNT,
    CLAIM,
    HOLD,
    KEY,
    REQUEST,
    account_of,
    claim_of,
    hold_of,
    key_of,
    record_of,
    texts_of,
)
from hoptrio.ledger.store import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.ledger.model import ApiKey, RequestRecord
    from hoptrio.ledger.operations import BeginProbe, EndProbe, SetPaused
    from hoptrio.ledger.postgres_session import Session

__all__ = ["Batch", "provider_key"]

_encode = msgspec.json.Encoder().encode
#: The escape of NUL in JSON, which PostgreSQL does not take in any text: an odd number of backslashes begins it.
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")

# Sets are asked for as arrays: ``= ANY(ARRAY(SELECT ...))`` is looked up in the index, whatever the planner believes.
_LOCK = f"""
WITH touched AS MATERIALIZED (
    SELECT account_id AS id FROM api_keys WHERE id = ANY(%(keys)s::text[])
    UNION ALL SELECT account_id FROM holds WHERE id = ANY(%(holds)s::text[])
    UNION ALL SELECT s.id FROM holds h JOIN accounts s ON s.name = h.supplier WHERE h.id = ANY(%(captured)s::text[])
    UNION ALL SELECT id FROM accounts WHERE id = ANY(%(names)s::text[])
    UNION ALL SELECT id FROM accounts WHERE name = ANY(%(names)s::text[] || %(suppliers)s::text[])
)
SELECT {ACCOUNT} FROM accounts a WHERE a.id = ANY(ARRAY(SELECT id FROM touched)) ORDER BY a.id FOR UPDATE
"""
_NOW = "SELECT ledger_now_ms(), current_setting('transaction_read_only'), pg_current_xact_id_if_assigned()::text"
_KEYS = f"""
SELECT {KEY}, k.spent_period, k.spent_nanos, k.secret_hash FROM api_keys k JOIN accounts a ON a.id = k.account_id
WHERE k.id = ANY(%(keys)s::text[] || ARRAY(SELECT key_id FROM holds WHERE id = ANY(%(holds)s::text[])))
   OR k.secret_hash = ANY(%(hashes)s::text[])
"""
_OPEN = """
SELECT key_id, count(*), sum(amount_nanos)::bigint FROM holds WHERE state = 'open' AND key_id = ANY(ARRAY(
    SELECT id FROM api_keys WHERE id = ANY(%(keys)s::text[]) AND (max_streams IS NOT NULL OR budget_nanos IS NOT NULL)
)) GROUP BY key_id
"""
#: Never many more for a key than its rate.
_RECENT = f"""
SELECT key_id, array_agg(created_at_ms) FROM holds WHERE created_at_ms > ledger_now_ms() - {limits.RATE_WINDOW_MS}
    AND key_id = ANY(ARRAY(SELECT id FROM api_keys WHERE id = ANY(%(keys)s::text[]) AND rpm IS NOT NULL))
GROUP BY key_id
"""
_HOLDS = f"SELECT {HOLD} FROM holds h WHERE h.id = ANY(%(holds)s::text[])"
_CLAIMS = (
    f"SELECT {HOLD}, {CLAIM} FROM claims c JOIN holds h ON h.id = c.hold_id WHERE c.name = ANY(%(claims)s::text[])"
)
_REQUESTS = f"""
SELECT {REQUEST} FROM requests
WHERE id = ANY(ARRAY(SELECT request_id FROM holds WHERE id = ANY(%(released)s::text[])))
"""
_REFS = "SELECT ref, account_id, kind, amount_nanos FROM entries WHERE ref = ANY(%(refs)s::text[])"

_RENEW = (
    "INSERT INTO owners AS o (id, beat, renewed_at_ms) VALUES (%s, 1, %s)"
    " ON CONFLICT (id) DO UPDATE SET beat = o.beat + 1, renewed_at_ms = excluded.renewed_at_ms"
)
# Nodes that clean up at the same time take different rows.
_FORGET_OWNERS = (
    "DELETE FROM owners WHERE id IN (SELECT id FROM owners WHERE renewed_at_ms < %s"
    " AND id NOT IN (SELECT owner FROM holds WHERE state = 'open') FOR UPDATE SKIP LOCKED)"
)
_FORGET_CLAIMS = (
    "DELETE FROM claims WHERE name IN (SELECT name FROM claims WHERE made_at_ms < %s FOR UPDATE SKIP LOCKED)"
)
# An array, since a subquery behind IN may be run again for each row (a nested loop), each time with a limit of its own.
_PURGE = (
    "DELETE FROM requests WHERE id = ANY(ARRAY(SELECT id FROM requests WHERE created_at_ms < %s AND state <> 'running'"
    " ORDER BY created_at_ms LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id, provider_ids"
)
_PURGE_IDS = "DELETE FROM provider_ids WHERE id = ANY(%s::text[]) AND request_id = ANY(%s::text[])"

_BEGIN_PROBE = (
    "INSERT INTO probes AS p (channel, model, protocol, probe, owner, setup, began_at_ms)"
    " VALUES (%(channel)s, %(model)s, %(protocol)s, %(probe)s, %(owner)s, %(setup)s, %(now)s)"
    " ON CONFLICT (channel, model, protocol) DO UPDATE SET probe = excluded.probe, owner = excluded.owner,"
    " setup = excluded.setup, began_at_ms = excluded.began_at_ms, ended_at_ms = NULL, finding = '', detail = ''"
    " WHERE p.began_at_ms <= %(now)s - %(every)s OR p.probe = %(instead_of)s OR p.setup <> excluded.setup"
)
_WHOSE_PROBE = "SELECT probe FROM probes WHERE channel = %s AND model = %s AND protocol = %s"
_END_PROBE = "UPDATE probes SET ended_at_ms = %s, finding = %s, detail = %s WHERE probe = %s"
_ADD_EVIDENCE = (
    "INSERT INTO channel_model_usage_evidence (channel, model, protocol, kind, target, evidence, observed_at_ms, probe,"
    " expires_at_ms) VALUES (%s, %s, %s, 'sse_terminal', %s, %s, %s, %s, %s)"
    " ON CONFLICT (channel, model, protocol, kind) DO UPDATE SET target = excluded.target,"
    " evidence = excluded.evidence, observed_at_ms = excluded.observed_at_ms, probe = excluded.probe,"
    " expires_at_ms = excluded.expires_at_ms"
)
_PAUSE = "INSERT INTO channel_pauses (channel, since_ms, why) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_RESUME = "DELETE FROM channel_pauses WHERE channel = %s"
_REVOKE = "DELETE FROM channel_model_usage_evidence WHERE channel = %s AND model = %s AND protocol = %s"


class _Table(NamedTuple):
    """A table and columns of it as ``name type``, the first being the key. Rows come as one JSON array of objects with
    the columns' names, which is a tenth of the work of an array for each column (measured: 256 holds 0.7 ms, not 7); a
    list in it becomes the JSON text that its column keeps."""

    name: str
    columns: str

    def _parts(self) -> tuple[list[str], str]:
        return [
            column.split()[0] for column in self.columns.split(", ")
        ], f"json_to_recordset(%s::json) AS v ({self.columns})"

    def insert(self, conflict: str = "") -> str:
        names, source = self._parts()
        columns = ", ".join(names)
        return f"INSERT INTO {self.name} ({columns}) SELECT {columns} FROM {source} {conflict}"

    def update(self) -> str:
        names, source = self._parts()
        changes = ", ".join(f"{name} = v.{name}" for name in names[1:])
        return f"UPDATE {self.name} t SET {changes} FROM {source} WHERE t.{names[0]} = v.{names[0]}"


_ADD_ACCOUNTS = _Table(
    "accounts",
    "id text, name text, balance_nanos bigint, held_nanos bigint, disabled boolean, created_at_ms bigint",
).insert()
_SET_ACCOUNTS = _Table("accounts", "id text, balance_nanos bigint, held_nanos bigint, disabled boolean").update()
_ADD_KEYS = _Table(
    "api_keys",
    "id text, account_id text, secret_hash text, contract text, max_streams bigint, rpm bigint, budget_nanos bigint,"
    " budget_per text, expires_at_ms bigint, models text, revoked boolean, created_at_ms bigint, spent_period text,"
    " spent_nanos bigint",
).insert()
_SET_KEYS = _Table("api_keys", "id text, revoked boolean, spent_period text, spent_nanos bigint").update()
_ADD_HOLDS = _Table(
    "holds",
    "id text, request_id text, account_id text, key_id text, amount_nanos bigint, prices text, owner text,"
    " supplier text, revenue_share_nanos bigint, state text, reason text, charge_nanos bigint, late boolean,"
    " created_at_ms bigint, resolved_at_ms bigint",
).insert()
_SET_HOLDS = _Table(
    "holds",
    "id text, supplier text, revenue_share_nanos bigint, state text, reason text, charge_nanos bigint, late boolean,"
    " resolved_at_ms bigint",
).update()
_REQUEST_COLUMNS = (
    "id text, account_id text, key_id text, created_at_ms bigint, protocol text, model text, contract text,"
    " stream boolean, channel text, client_request_id text, state text, reason text, evidence text, usage text,"
    " raw_usage text, hold_nanos bigint, charge_nanos bigint, flags text, attempts bigint, timeline text,"
    " provider_ids text"
)
_ADD_REQUESTS = _Table("requests", _REQUEST_COLUMNS).insert()
_ADD_NOTES = _Table("requests", _REQUEST_COLUMNS).insert("ON CONFLICT DO NOTHING")
_SET_REQUESTS = _Table(
    "requests",
    "id text, channel text, state text, reason text, evidence text, usage text, raw_usage text, charge_nanos bigint,"
    " flags text, attempts bigint, timeline text, provider_ids text",
).update()
_ADD_ENTRIES = _Table(
    "entries",
    "at_ms bigint, account_id text, kind text, amount_nanos bigint, memo_nanos bigint, hold_id text, why text,"
    " ref text",
).insert()
_PUT_CLAIMS = _Table("claims", "name text, hold_id text, digest text, made_at_ms bigint").insert(
    "ON CONFLICT (name) DO UPDATE SET hold_id = excluded.hold_id, digest = excluded.digest,"
    " made_at_ms = excluded.made_at_ms"
)
_ADD_PROVIDER_IDS = _Table("provider_ids", "id text, request_id text, account_id text, channel text").insert(
    "ON CONFLICT DO NOTHING"
)


class Batch(Rows):
    """The rows that `operations` touch: `load` them, change them, `save` them. Any error leaves the transaction open,
    to be ended by closing the session."""

    def __init__(self, session: Session, operations: Sequence[Operation]) -> None:
        super().__init__()
        self._session = session
        self._wanted = _wanted(operations)
        self._proves = any(isinstance(each, Ping) for each in operations)
        self.now_ms = 0
        #: The transaction's id, by which its fate can be asked for later; None = nothing is locked, nor will be placed.
        self.id: str | None = None

    # -- reading ------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Begin, lock and read. Raises psycopg.Error, StoreUnavailable."""
        wanted = self._wanted
        found: dict[str, list[Any]] = {}
        with self._session.pipeline():
            self._session.execute("BEGIN")
            if self._proves:
                # What a hold and its settlement need: a ping must not pass where these wait for somebody's table lock.
                self._session.execute("LOCK TABLE accounts, holds, entries, requests IN ROW EXCLUSIVE MODE")
            cursors = {sql: self._session.execute(sql, wanted) for sql, needs in _READS if any(map(wanted.get, needs))}
            now = self._session.execute(_NOW)
            found = {sql: cursor.fetchall() for sql, cursor in cursors.items()}
            [(self.now_ms, read_only, self.id)] = now.fetchall()
        if read_only == "on":
            raise StoreUnavailable("the database is read-only")
        self._fill(found)
        self._claims_before = dict(self.claims)
        self._before = (dict(self.accounts), dict(self.keys), dict(self.key_spent), dict(self.holds))

    def _fill(self, found: dict[str, list[Any]]) -> None:
        for row in found.get(_LOCK, ()):
            self.put_account(account_of(row))
        for row in found.get(_KEYS, ()):
            key = key_of(row)
            self.keys[key.id], self.key_spent[key.id], self.key_hashes[row[18]] = key, (row[16], row[17]), key.id
        # The holds of claims are their keys' accounts', which are locked; none of them is placed again.
        self.claims |= {row[15]: claim_of(row[15:]) for row in found.get(_CLAIMS, ())}
        for row in (*found.get(_HOLDS, ()), *found.get(_CLAIMS, ())):
            hold = hold_of(row)
            self.holds[hold.id] = hold
            if hold.state is HoldState.OPEN:
                self.open[hold.id] = hold
        self.key_open |= {key_id: (count, held_nanos) for key_id, count, held_nanos in found.get(_OPEN, ())}
        self.key_recent |= dict(found.get(_RECENT, ()))
        self.requests |= {row[0]: record_of(row) for row in found.get(_REQUESTS, ())}
        self.refs |= {row[0]: Moved(row[1], EntryKind(row[2]), row[3]) for row in found.get(_REFS, ())}
        asked = [self.keys[key_id].account.id for key_id in self._wanted["keys"] if key_id in self.keys]
        if not self.accounts.keys() >= {*asked, *(hold.account_id for hold in self.holds.values())}:
            raise StoreUnavailable("another process made a key or hold at this moment", busy=True)

    # -- what is no row of these --------------------------------------------------------------------------------------

    def renew(self, owner: str, now_ms: int) -> None:
        """See `Rows`; owners without holds are forgotten a day after their last renewal."""
        self._session.execute(_RENEW, (owner, now_ms))
        self._session.execute(_FORGET_OWNERS, (now_ms - limits.OWNER_KEPT_MS,))
        self._session.execute(_FORGET_CLAIMS, (now_ms - limits.CLAIM_KEPT_MS,))

    def purge(self, before_ms: int, limit: int) -> int:
        """See `Rows`. What this batch settles counts as running; the next purge takes it."""
        purged = self._session.execute(_PURGE, (before_ms, limit)).fetchall()
        provider_ids = [provider_key(each) for _, texts in purged for each in texts_of(texts)]
        self._session.execute(_PURGE_IDS, (provider_ids, [request_id for request_id, _ in purged]))
        return len(purged)

    def begin_probe(self, begin: BeginProbe, now_ms: int) -> bool:
        """See `Rows`; nodes that claim the same take turns at its row."""
        which = (begin.probed.channel, begin.probed.model, begin.probed.protocol)
        values = {
            **dict(zip(("channel", "model", "protocol"), plain(which), strict=True)),
            "probe": begin.probe,
            "owner": begin.owner,
            "setup": begin.setup,
            "now": now_ms,
            "every": begin.every_ms,
            "instead_of": begin.instead_of,
        }
        self._session.execute(_BEGIN_PROBE, values)
        [(probe,)] = self._session.execute(_WHOSE_PROBE, plain(which))
        return bool(probe == begin.probe)

    def end_probe(self, end: EndProbe, now_ms: int) -> None:
        """See `Rows`."""
        which = (end.probed.channel, end.probed.model, end.probed.protocol)
        self._session.execute(_END_PROBE, plain((now_ms, end.finding, end.detail, end.probe)))
        if end.evidence is not None:
            row = (*which, end.target, end.evidence, now_ms, end.probe, now_ms + end.valid_ms)
            self._session.execute(_ADD_EVIDENCE, plain(row))
        elif end.revokes:
            self._session.execute(_REVOKE, plain(which))

    def set_paused(self, change: SetPaused, now_ms: int) -> None:
        """See `Rows`."""
        if change.paused:
            self._session.execute(_PAUSE, plain((change.channel, now_ms, change.why)))
        else:
            self._session.execute(_RESUME, plain((change.channel,)))

    # -- writing ------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write what changed and commit. Raises psycopg.Error; nothing is written then, unless the session ended:
        that may have been behind the commit."""
        with self._session.pipeline():
            self._save_accounts()
            self._save_keys()
            self._save_holds()
            self._write(_ADD_ENTRIES, self.entries)
            self._session.execute("COMMIT")

    def _write(self, sql: str, rows: Sequence[Any]) -> None:
        if rows:
            self._session.execute(sql, (_json(rows),))

    def _save_accounts(self) -> None:
        before = self._before[0]
        made = [account for account in self.accounts.values() if account.id not in before]
        self._write(_ADD_ACCOUNTS, sorted(made, key=lambda account: account.name))
        self._write(_SET_ACCOUNTS, [a for a in self.accounts.values() if before.get(a.id, a) is not a])

    def _save_keys(self) -> None:
        _, keys, spent, _ = self._before
        hashes = {key_id: secret_hash for secret_hash, key_id in self.key_hashes.items()}
        made = [self._key_row(key) for key in self.keys.values() if key.id not in keys]
        made = [{**row, "secret_hash": hashes[row["id"]]} for row in made]
        self._write(_ADD_KEYS, sorted(made, key=lambda row: row["secret_hash"]))
        changed = [
            self._key_row(key)
            for key in self.keys.values()
            if key.id in keys and (key is not keys[key.id] or self.key_spent.get(key.id) != spent.get(key.id))
        ]
        self._write(_SET_KEYS, changed)

    def _key_row(self, key: ApiKey) -> dict[str, Any]:
        period, spent_nanos = self.key_spent.get(key.id, ("", 0))
        return {**asdict(key), "account_id": key.account.id, "spent_period": period, "spent_nanos": spent_nanos}

    def _save_holds(self) -> None:
        """The holds, and the records of requests: a record is a hold's, or a note of a request that held nothing."""
        before = self._before[3]
        made = [hold for hold in self.holds.values() if hold.id not in before]
        changed = [hold for hold in self.holds.values() if before.get(hold.id, hold) is not hold]
        self._write(_ADD_HOLDS, made)
        self._write(_SET_HOLDS, changed)
        placed = [self.requests[hold.request_id] for hold in made]
        self._write(_ADD_REQUESTS, placed)
        settled = [record for hold in changed if (record := self.requests.get(hold.request_id)) is not None]
        self._write(_SET_REQUESTS, settled)
        held = {hold.request_id for hold in self.holds.values()}
        notes = [record for record in self.requests.values() if record.id not in held]
        self._write(_ADD_NOTES, sorted(notes, key=lambda record: record.id))
        self._save_provider_ids(placed + settled)
        claims = [row for name, row in self.claims.items() if self._claims_before.get(name) is not row]
        self._write(_PUT_CLAIMS, sorted(claims, key=lambda row: row.name))

    def _save_provider_ids(self, records: Sequence[RequestRecord]) -> None:
        rows = [
            {
                "id": provider_key(each),
                "request_id": record.id,
                "account_id": record.account_id,
                "channel": record.channel,
            }
            for record in records
            for each in record.provider_ids
        ]
        self._write(_ADD_PROVIDER_IDS, sorted(rows, key=lambda row: row["id"] or ""))


#: Each read, and which of the wanted ids it is for.
_READS = (
    (_LOCK, ("keys", "holds", "names", "suppliers")),
    (_KEYS, ("keys", "holds", "hashes")),
    (_OPEN, ("keys",)),
    (_RECENT, ("keys",)),
    (_HOLDS, ("holds",)),
    (_CLAIMS, ("claims",)),
    (_REQUESTS, ("released",)),
    (_REFS, ("refs",)),
)


def _wanted(operations: Sequence[Operation]) -> dict[str, list[str]]:
    """The ids that a batch names."""
    wanted: dict[str, dict[str, None]] = {
        name: {} for name in ("keys", "holds", "captured", "released", "names", "suppliers", "hashes", "refs", "claims")
    }
    suppliers: dict[str, str] = {}
    for operation in operations:
        match operation:
            case Hold():
                wanted["keys"][operation.request.key_id] = None
                suppliers[operation.id] = operation.supplier
                if operation.claim is not None:
                    wanted["claims"][operation.claim.name] = None
            case Resolution():
                wanted["holds"][operation.hold_id] = None
                if operation.capture_nanos is not None:
                    wanted["captured"][operation.hold_id] = None
                    if operation.terms is not None:
                        suppliers[operation.hold_id] = operation.terms.supplier
            case Release():
                wanted["holds"][operation.hold_id] = wanted["released"][operation.hold_id] = None
            case CreateAccount():
                wanted["names"][operation.name] = None
            case Move():
                wanted["names"][operation.account] = wanted["refs"][operation.ref] = None
            case SetDisabled():
                wanted["names"][operation.account] = None
            case CreateKey():
                wanted["names"][operation.account] = wanted["hashes"][operation.secret_hash] = None
                wanted["keys"][operation.id] = None
            case RevokeKey():
                wanted["keys"][operation.id] = None
    # Not in the hold's row: that of a hold which the same batch places, and one that the capture brings with it.
    wanted["suppliers"] = {name: None for hold_id, name in suppliers.items() if hold_id in wanted["captured"] and name}
    return {name: plain(list(ids)) for name, ids in wanted.items()}


def provider_key(provider_id: str) -> str:
    """What a provider-side id is kept as."""
    if len(provider_id) <= limits.POSTGRES_KEY_CHARS_MAX:
        return plain([provider_id])[0]  # type: ignore[no-any-return]
    return f"sha256:{hashlib.sha256(provider_id.encode()).hexdigest()}"


def _json(rows: Sequence[Any]) -> str:
    text = _encode(rows).decode()
    return _NUL.sub("\\1\N{REPLACEMENT CHARACTER}", text) if "\\u0000" in text else text
