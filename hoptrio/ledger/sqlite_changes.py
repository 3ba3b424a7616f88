"""Each operation as SQLite statements, run inside the transaction that `sqlite.SqliteStore.apply` opened.

Every decision is `rules`'; a transaction that began with ``BEGIN IMMEDIATE`` is the only writer, so what was read stays
true until it is written. An operation that is refused has changed nothing.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from hoptrio.errors import Conflict, HoptrioError, NotFound
from hoptrio.ledger.model import (
    Account,
    ApiKey,
    Claim,
    Claimed,
    EntryKind,
    Hold,
    HoldRefused,
    HoldRow,
    HoldState,
    Placed,
    RequestRecord,
    Resolution,
    Resolved,
)
from hoptrio.ledger.operations import (
    BeginProbe,
    CreateAccount,
    CreateKey,
    EndProbe,
    Move,
    Note,
    Operation,
    Ping,
    Purge,
    Release,
    Renew,
    RevokeKey,
    SetDisabled,
    SetPaused,
)
from hoptrio.ledger.rules import (
    Effect,
    KeyUse,
    Moved,
    budget_period,
    decide,
    join,
    judge,
    on_terms,
    refused_move,
    repeated,
    standing,
    why_disabled,
)
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
    request_row,
    text_of,
    texts_of,
)
from hoptrio.limits import CLAIM_KEPT_MS, OWNER_KEPT_MS, RATE_WINDOW_MS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

__all__ = ["FIND_CLAIM", "Changes"]

_FIND_KEY = f"SELECT {KEY} FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = ?"
_FIND_ACCOUNT = f"SELECT {ACCOUNT} FROM accounts a WHERE a.id = ? OR a.name = ? ORDER BY a.id <> ? LIMIT 1"
_FIND_HOLD = (
    f"SELECT {HOLD}, a.balance_nanos - a.held_nanos, k.budget_per FROM holds h JOIN accounts a ON a.id = h.account_id"
    " LEFT JOIN api_keys k ON k.id = h.key_id WHERE h.id = ?"
)
FIND_CLAIM = f"SELECT {HOLD}, {CLAIM} FROM claims c JOIN holds h ON h.id = c.hold_id WHERE c.name = ?"
_PUT_CLAIM = "INSERT OR REPLACE INTO claims (name, hold_id, digest, made_at_ms) VALUES (?, ?, ?, ?)"
_FORGET_CLAIMS = "DELETE FROM claims WHERE made_at_ms < ?"
_ADD_HOLD = (
    "INSERT INTO holds (id, request_id, account_id, key_id, amount_nanos, prices, owner, supplier,"
    " revenue_share_nanos, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_REQUEST = f"INSERT INTO requests ({REQUEST}) VALUES ({', '.join('?' * 21)})"
_ADD_ENTRY = (
    "INSERT INTO entries (at_ms, account_id, kind, amount_nanos, memo_nanos, hold_id, why, ref)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RESOLVE_HOLD = (
    "UPDATE holds SET state = ?, reason = ?, charge_nanos = ?, late = ?, resolved_at_ms = ?, supplier = ?,"
    " revenue_share_nanos = ? WHERE id = ?"
)
_MOVE_BALANCE = "UPDATE accounts SET balance_nanos = balance_nanos + ?, held_nanos = held_nanos - ? WHERE id = ?"
_SETTLE_REQUEST = (
    "UPDATE requests SET channel = ?, state = ?, reason = ?, evidence = ?, usage = ?, raw_usage = ?, charge_nanos = ?,"
    " flags = ?, attempts = ?, timeline = ?, provider_ids = ? WHERE id = ?"
)
_SPEND = (
    "UPDATE api_keys SET spent_nanos = ? + CASE spent_period WHEN ? THEN spent_nanos ELSE 0 END, spent_period = ?"
    " WHERE id = ?"
)
_ADD_KEY = (
    "INSERT INTO api_keys (id, account_id, secret_hash, contract, max_streams, rpm, budget_nanos, budget_per,"
    " expires_at_ms, models, created_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_COUNT_RECENT = "SELECT count(*) FROM holds WHERE key_id = ? AND created_at_ms > ?"
_NTH_NEWEST = "SELECT created_at_ms FROM holds WHERE key_id = ? ORDER BY created_at_ms DESC LIMIT 1 OFFSET ?"
_RENEW = (
    "INSERT INTO owners (id, beat, renewed_at_ms) VALUES (?, 1, ?)"
    " ON CONFLICT (id) DO UPDATE SET beat = beat + 1, renewed_at_ms = excluded.renewed_at_ms"
)
_FORGET_OWNERS = (
    "DELETE FROM owners WHERE renewed_at_ms < ? AND id NOT IN (SELECT owner FROM holds WHERE state = 'open')"
)


_BEGIN_PROBE = (
    "INSERT INTO probes (channel, model, protocol, probe, owner, setup, began_at_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET probe = excluded.probe, owner = excluded.owner,"
    " setup = excluded.setup, began_at_ms = excluded.began_at_ms, ended_at_ms = NULL, finding = '', detail = ''"
    " WHERE began_at_ms <= excluded.began_at_ms - ? OR probe = ? OR setup <> excluded.setup"
)
_END_PROBE = "UPDATE probes SET ended_at_ms = ?, finding = ?, detail = ? WHERE probe = ?"
_ADD_EVIDENCE = (
    "INSERT OR REPLACE INTO channel_model_usage_evidence (channel, model, protocol, kind, target, evidence,"
    " observed_at_ms, probe, expires_at_ms) VALUES (?, ?, ?, 'sse_terminal', ?, ?, ?, ?, ?)"
)
_REVOKE = "DELETE FROM channel_model_usage_evidence WHERE channel = ? AND model = ? AND protocol = ?"


class Changes:
    """The operations over one connection."""

    def __init__(self, connection: sqlite3.Connection, now_ms: Callable[[], int]) -> None:
        self._execute = connection.execute
        self._now_ms = now_ms
        self._handlers: dict[type, Callable[[Any], Any]] = {
            Hold: self._place,
            Resolution: self._settle,
            Release: self._release,
            Note: self._note,
            CreateAccount: self._create_account,
            Move: self._move,
            SetDisabled: self._set_disabled,
            CreateKey: self._create_key,
            RevokeKey: self._revoke_key,
            Renew: self._renew,
            Purge: self._purge,
            BeginProbe: self._begin_probe,
            EndProbe: self._end_probe,
            SetPaused: self._set_paused,
            Ping: lambda _: None,
        }

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """Apply in order; the answers."""
        handlers = self._handlers
        return [handlers[type(operation)](operation) for operation in operations]

    # -- holds --------------------------------------------------------------------------------------------------------

    def _place(self, hold: Hold) -> Placed | HoldRefused | Claimed:
        now_ms = self._now_ms()
        request = hold.request
        key = self._key(request.key_id)
        judged = judge(key, self._use(key, now_ms), hold.amount_nanos, now_ms)
        answer = join(judged, None if hold.claim is None else self._claimed(hold.claim, now_ms))
        if not isinstance(answer, Placed) or key is None:
            return answer
        account_id = key.account.id
        self._execute(_MOVE_BALANCE, (0, -hold.amount_nanos, account_id))
        self._execute(
            _ADD_HOLD,
            (
                hold.id,
                request.id,
                account_id,
                key.id,
                hold.amount_nanos,
                hold.prices,
                hold.owner,
                hold.supplier,
                hold.revenue_share_nanos,
                now_ms,
            ),
        )
        self._execute(_ADD_REQUEST, request_row(request, account_id, "running", hold.amount_nanos))
        if hold.claim is not None:
            self._execute(_PUT_CLAIM, (hold.claim.name, hold.id, hold.claim.digest, now_ms))
        return answer

    def _claimed(self, claim: Claim, now_ms: int) -> Claimed | None:
        row = self._execute(FIND_CLAIM, (claim.name,)).fetchone()
        return None if row is None else standing(claim_of(row[15:]), hold_of(row), claim.window_ms, now_ms)

    def _use(self, key: ApiKey | None, now_ms: int) -> KeyUse:
        if key is None or (key.max_streams is None and key.budget_nanos is None and key.rpm is None):
            return KeyUse()
        recent, leaves_first_ms = self._rate(key, now_ms)
        [(streams, held)] = self._execute(
            "SELECT count(*), coalesce(sum(amount_nanos), 0) FROM holds WHERE key_id = ? AND state = 'open'", (key.id,)
        )
        if key.budget_per is None:
            return KeyUse(streams, recent, leaves_first_ms, held)
        [(period, spent)] = self._execute("SELECT spent_period, spent_nanos FROM api_keys WHERE id = ?", (key.id,))
        current = period == budget_period(key.budget_per, now_ms)
        return KeyUse(streams, recent, leaves_first_ms, held, spent if current else 0)

    def _rate(self, key: ApiKey, now_ms: int) -> tuple[int, int | None]:
        """Holds of the last minute, of which there are never many more than `rpm`, and the one that leaves it first."""
        if not key.rpm:
            return 0, None
        since_ms = now_ms - RATE_WINDOW_MS
        [(recent,)] = self._execute(_COUNT_RECENT, (key.id, since_ms))
        if recent < key.rpm:
            return recent, None
        [(leaves_first_ms,)] = self._execute(_NTH_NEWEST, (key.id, key.rpm - 1))
        return recent, leaves_first_ms

    def _settle(self, resolution: Resolution) -> Resolved | HoptrioError:
        row = self._execute(_FIND_HOLD, (resolution.hold_id,)).fetchone()
        if row is None:
            # A release of a hold that was never placed has nothing to do; a capture has nothing to take from.
            return Resolved(False, 0) if resolution.capture_nanos is None else NotFound(f"no hold {resolution.hold_id}")
        hold, available, budget_per = on_terms(hold_of(row), resolution.terms), row[15], row[16]
        effect = decide(hold, resolution.capture_nanos, available)
        if effect.kind is not None:
            reason = hold.reason if effect.kind is EntryKind.LATE_CAPTURE else resolution.request.reason
            self._resolve(hold, effect, reason, budget_per)
            self._settle_request(resolution.request, hold, effect, reason)
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _settle_request(self, record: RequestRecord, hold: HoldRow, effect: Effect, reason: str | None) -> None:
        flags = (*record.flags, *(flag for flag in effect.flags if flag not in record.flags))
        self._execute(
            _SETTLE_REQUEST,
            (
                record.channel,
                effect.state.value,
                reason,
                record.evidence,
                record.usage,
                record.raw_usage,
                effect.charge_nanos,
                text_of(flags),
                record.attempts,
                text_of(record.timeline),
                text_of(record.provider_ids),
                hold.request_id,
            ),
        )
        for provider_id in record.provider_ids:
            self._execute(
                "INSERT OR IGNORE INTO provider_ids VALUES (?, ?, ?, ?)",
                (provider_id, hold.request_id, hold.account_id, record.channel),
            )

    def _release(self, release: Release) -> Resolved | None:
        row = self._execute(_FIND_HOLD, (release.hold_id,)).fetchone()
        if row is None:
            return None
        hold = hold_of(row)
        effect = decide(hold, None, 0)
        if effect.kind is not None:
            self._resolve(hold, effect, release.reason, None, release.why)
            self._execute(
                "UPDATE requests SET state = 'released', reason = ?, charge_nanos = 0 WHERE id = ?",
                (release.reason, hold.request_id),
            )
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _resolve(
        self, hold: HoldRow, effect: Effect, reason: str | None, budget_per: str | None, why: str = ""
    ) -> None:
        assert effect.kind is not None
        now_ms, charge, account_id = self._now_ms(), effect.charge_nanos, hold.account_id
        late = hold.state is not HoldState.OPEN
        self._execute(
            _RESOLVE_HOLD,
            (effect.state.value, reason, charge, late, now_ms, hold.supplier, hold.revenue_share_nanos, hold.id),
        )
        self._execute(_MOVE_BALANCE, (-charge, effect.unheld_nanos, account_id))
        self._enter(account_id, effect.kind, -charge, effect.returned_nanos, hold.id, why)
        if effect.uncollected_nanos:
            self._enter(account_id, EntryKind.UNCOLLECTED, 0, effect.uncollected_nanos, hold.id)
        if budget_per is not None and charge:
            period = budget_period(budget_per, now_ms)
            self._execute(_SPEND, (charge, period, period, hold.key_id))
        if hold.supplier and effect.share_nanos:
            self._credit(hold.supplier, effect.share_nanos, hold.id)

    def _credit(self, supplier: str, amount_nanos: int, hold_id: str) -> None:
        """Credit a supplier's share; its account is opened by the first one."""
        found = self._execute("SELECT id FROM accounts WHERE name = ?", (supplier,)).fetchone()
        account_id = found[0] if found else self._open_account(f"acct_{secrets.token_hex(12)}", supplier)
        self._execute(_MOVE_BALANCE, (amount_nanos, 0, account_id))
        self._enter(account_id, EntryKind.SHARE, amount_nanos, 0, hold_id)

    def _enter(
        self,
        account_id: str,
        kind: EntryKind,
        amount_nanos: int,
        memo_nanos: int = 0,
        hold_id: str | None = None,
        why: str = "",
        ref: str | None = None,
    ) -> None:
        self._execute(_ADD_ENTRY, (self._now_ms(), account_id, kind.value, amount_nanos, memo_nanos, hold_id, why, ref))

    def _note(self, note: Note) -> None:
        record = note.record
        row = request_row(record, record.account_id, record.state, record.hold_nanos)
        self._execute(_ADD_REQUEST + " ON CONFLICT DO NOTHING", row)

    # -- accounts, keys, owners ---------------------------------------------------------------------------------------

    def _create_account(self, create: CreateAccount) -> Account | HoptrioError:
        taken = self._execute("SELECT id FROM accounts WHERE name = ?", (create.name,)).fetchone()
        if taken == (create.id,):
            return self._account_there(create.id)
        if taken is not None:
            return Conflict(f"there is an account named {create.name}")
        self._open_account(create.id, create.name)
        if create.deposit_nanos:
            self._execute(_MOVE_BALANCE, (create.deposit_nanos, 0, create.id))
            self._enter(create.id, EntryKind.DEPOSIT, create.deposit_nanos, ref=create.ref)
        return self._account_there(create.id)

    def _open_account(self, account_id: str, name: str) -> str:
        self._execute(
            "INSERT INTO accounts (id, name, created_at_ms) VALUES (?, ?, ?)", (account_id, name, self._now_ms())
        )
        return account_id

    def _move(self, move: Move) -> Account | HoptrioError:
        account = self._account(move.account)
        if account is None:
            return NotFound(f"no account {move.account}")
        before = self._execute(
            "SELECT account_id, kind, amount_nanos FROM entries WHERE ref = ?", (move.ref,)
        ).fetchone()
        if before is not None:
            return repeated(account, move, Moved(before[0], EntryKind(before[1]), before[2]))
        if (refused := refused_move(account, move.amount_nanos)) is not None:
            return refused
        self._execute(_MOVE_BALANCE, (move.amount_nanos, 0, account.id))
        self._enter(account.id, move.kind, move.amount_nanos, why=move.why, ref=move.ref)
        return self._account_there(account.id)

    def _set_disabled(self, change: SetDisabled) -> Account | HoptrioError:
        account = self._account(change.account)
        if account is None:
            return NotFound(f"no account {change.account}")
        if account.disabled != change.disabled:
            self._execute("UPDATE accounts SET disabled = ? WHERE id = ?", (change.disabled, account.id))
            self._enter(account.id, EntryKind.ADJUST, 0, why=why_disabled(change.disabled, change.why))
        return self._account_there(account.id)

    def _create_key(self, create: CreateKey) -> ApiKey | HoptrioError:
        account = self._account(create.account)
        if account is None:
            return NotFound(f"no account {create.account}")
        taken = self._execute("SELECT id FROM api_keys WHERE secret_hash = ?", (create.secret_hash,)).fetchone()
        if taken == (create.id,):
            return self._key_there(create.id)
        if taken is not None:
            return Conflict("the key's secret is in use")
        if self._execute("SELECT 1 FROM api_keys WHERE id = ?", (create.id,)).fetchone() is not None:
            return Conflict(f"there is a key {create.id}")
        self._execute(
            _ADD_KEY,
            (
                create.id,
                account.id,
                create.secret_hash,
                create.contract,
                create.max_streams,
                create.rpm,
                create.budget_nanos,
                create.budget_per,
                create.expires_at_ms,
                text_of(create.models),
                self._now_ms(),
            ),
        )
        return self._key_there(create.id)

    def _revoke_key(self, revoke: RevokeKey) -> ApiKey | HoptrioError:
        if self._key(revoke.id) is None:
            return NotFound(f"no key {revoke.id}")
        self._execute("UPDATE api_keys SET revoked = 1 WHERE id = ?", (revoke.id,))
        return self._key_there(revoke.id)

    def _renew(self, renew: Renew) -> None:
        now_ms = self._now_ms()
        self._execute(_RENEW, (renew.owner, now_ms))
        self._execute(_FORGET_OWNERS, (now_ms - OWNER_KEPT_MS,))
        self._execute(_FORGET_CLAIMS, (now_ms - CLAIM_KEPT_MS,))

    def _purge(self, purge: Purge) -> int:
        sql = "SELECT id, provider_ids FROM requests WHERE created_at_ms < ? AND state <> 'running'"
        rows = self._execute(f"{sql} ORDER BY created_at_ms LIMIT ?", (purge.before_ms, purge.limit)).fetchall()
        for request_id, provider_ids in rows:
            for provider_id in texts_of(provider_ids):
                self._execute("DELETE FROM provider_ids WHERE id = ? AND request_id = ?", (provider_id, request_id))
            self._execute("DELETE FROM requests WHERE id = ?", (request_id,))
        return len(rows)

    def _begin_probe(self, begin: BeginProbe) -> bool:
        which = (begin.probed.channel, begin.probed.model, begin.probed.protocol)
        self._execute(
            _BEGIN_PROBE,
            (*which, begin.probe, begin.owner, begin.setup, self._now_ms(), begin.every_ms, begin.instead_of),
        )
        sql = "SELECT probe FROM probes WHERE channel = ? AND model = ? AND protocol = ?"
        [(probe,)] = self._execute(sql, which)
        return bool(probe == begin.probe)

    def _end_probe(self, end: EndProbe) -> None:
        now_ms = self._now_ms()
        which = (end.probed.channel, end.probed.model, end.probed.protocol)
        self._execute(_END_PROBE, (now_ms, end.finding, end.detail, end.probe))
        if end.evidence is not None:
            self._execute(_ADD_EVIDENCE, (*which, end.target, end.evidence, now_ms, end.probe, now_ms + end.valid_ms))
        elif end.revokes:
            self._execute(_REVOKE, which)

    def _set_paused(self, change: SetPaused) -> None:
        if change.paused:
            row = (change.channel, self._now_ms(), change.why)
            self._execute("INSERT OR IGNORE INTO channel_pauses (channel, since_ms, why) VALUES (?, ?, ?)", row)
        else:
            self._execute("DELETE FROM channel_pauses WHERE channel = ?", (change.channel,))

    def _key(self, key_id: str) -> ApiKey | None:
        row = self._execute(_FIND_KEY, (key_id,)).fetchone()
        return None if row is None else key_of(row)

    def _key_there(self, key_id: str) -> ApiKey:
        return key_of(self._execute(_FIND_KEY, (key_id,)).fetchone())

    def _account(self, name_or_id: str) -> Account | None:
        row = self._execute(_FIND_ACCOUNT, (name_or_id,) * 3).fetchone()
        return None if row is None else account_of(row)

    def _account_there(self, account_id: str) -> Account:
        return account_of(self._execute(_FIND_ACCOUNT, (account_id,) * 3).fetchone())
