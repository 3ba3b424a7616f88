"""Each operation as a change of `rows.Rows`. Every decision is `rules`'; an operation that is refused changes nothing.

The memory store runs them on all its rows, the PostgreSQL store on those that it locked and read. SQLite, whose
statements cost no round trip, has its own (`sqlite_changes`); one contract suite holds both to the same answers.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hoptrio.errors import Conflict, HoptrioError, NotFound
from hoptrio.ledger.model import (
    Account,
    ApiKey,
    Claimed,
    ClaimRow,
    EntryKind,
    Hold,
    HoldRefused,
    HoldRow,
    HoldState,
    Placed,
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
    budget_period,
    decide,
    join,
    judge,
    on_terms,
    refused_move,
    repeated,
    settled_record,
    why_disabled,
)
from hoptrio.limits import RATE_WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.ledger.rows import Rows

__all__ = ["Changes"]


class Changes:
    """The operations over `rows`, at the time that `now_ms` tells."""

    def __init__(self, rows: Rows, now_ms: Callable[[], int]) -> None:
        self._rows = rows
        self._now_ms = now_ms

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """Apply in order; the answers. A bug in one operation leaves those before it applied to the rows."""
        return [_HANDLERS[type(operation)](self, operation) for operation in operations]

    # -- holds --------------------------------------------------------------------------------------------------------

    def _place(self, hold: Hold) -> Placed | HoldRefused | Claimed:
        rows = self._rows
        if hold.id in rows.holds or hold.request.id in rows.requests:
            raise ValueError(f"hold {hold.id} or its request exists")
        now_ms = self._now_ms()
        key = rows.key(hold.request.key_id)
        judged = judge(key, self._use(key, now_ms), hold.amount_nanos, now_ms)
        answer = join(judged, None if hold.claim is None else rows.claimed(hold.claim, now_ms))
        if not isinstance(answer, Placed) or key is None:
            return answer
        row = HoldRow(
            id=hold.id,
            request_id=hold.request.id,
            account_id=key.account.id,
            key_id=key.id,
            amount_nanos=hold.amount_nanos,
            prices=hold.prices,
            owner=hold.owner,
            supplier=hold.supplier,
            revenue_share_nanos=hold.revenue_share_nanos,
            state=HoldState.OPEN,
            reason=None,
            charge_nanos=0,
            late=False,
            created_at_ms=now_ms,
            resolved_at_ms=None,
        )
        rows.put_hold(row)
        rows.requests[hold.request.id] = replace(
            hold.request, account_id=key.account.id, state="running", hold_nanos=hold.amount_nanos
        )
        rows.put_account(replace(key.account, held_nanos=key.account.held_nanos + hold.amount_nanos))
        if hold.claim is not None:
            rows.claims[hold.claim.name] = ClaimRow(hold.claim.name, hold.id, hold.claim.digest, now_ms)
        return answer

    def _use(self, key: ApiKey | None, now_ms: int) -> KeyUse:
        if key is None or (key.max_streams is None and key.budget_nanos is None and key.rpm is None):
            return KeyUse()
        recent, leaves_first_ms = self._rate(key, now_ms)
        streams, held_nanos = self._rows.key_open.get(key.id, (0, 0))
        period, spent_nanos = self._rows.key_spent.get(key.id, ("", 0))
        current = key.budget_per is not None and period == budget_period(key.budget_per, now_ms)
        return KeyUse(streams, recent, leaves_first_ms, held_nanos, spent_nanos if current else 0)

    def _rate(self, key: ApiKey, now_ms: int) -> tuple[int, int | None]:
        """Holds of the last minute, and the one that has to leave it before there is room again."""
        if not key.rpm:
            return 0, None
        placed = self._rows.key_recent.get(key.id, ())
        recent = self._rows.key_recent[key.id] = sorted(at_ms for at_ms in placed if at_ms > now_ms - RATE_WINDOW_MS)
        return len(recent), recent[-key.rpm] if len(recent) >= key.rpm else None

    def _settle(self, resolution: Resolution) -> Resolved | HoptrioError:
        hold = self._rows.holds.get(resolution.hold_id)
        if hold is None:
            # A release of a hold that was never placed has nothing to do; a capture has nothing to take from.
            return Resolved(False, 0) if resolution.capture_nanos is None else NotFound(f"no hold {resolution.hold_id}")
        hold = on_terms(hold, resolution.terms)
        effect = decide(hold, resolution.capture_nanos, self._rows.accounts[hold.account_id].available_nanos)
        if effect.kind is not None:
            reason = hold.reason if effect.kind is EntryKind.LATE_CAPTURE else resolution.request.reason
            self._resolve(hold, effect, reason, "")
            self._settle_request(resolution, hold, effect, reason)
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _settle_request(self, resolution: Resolution, hold: HoldRow, effect: Effect, reason: str | None) -> None:
        record = settled_record(resolution.request, effect, reason, hold.amount_nanos)
        record = replace(record, id=hold.request_id, account_id=hold.account_id, key_id=hold.key_id)
        self._rows.requests[hold.request_id] = record
        for provider_id in record.provider_ids:
            self._rows.provider_ids.setdefault(provider_id, (hold.account_id, record.channel))

    def _release(self, release: Release) -> Resolved | None:
        hold = self._rows.holds.get(release.hold_id)
        if hold is None:
            return None
        effect = decide(hold, None, 0)
        if effect.kind is not None:
            self._resolve(hold, effect, release.reason, release.why)
            record = self._rows.requests.get(hold.request_id)
            if record is not None:
                record = replace(record, state="released", reason=release.reason, charge_nanos=0)
                self._rows.requests[record.id] = record
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _resolve(self, hold: HoldRow, effect: Effect, reason: str | None, why: str) -> None:
        assert effect.kind is not None
        rows, now_ms, charge = self._rows, self._now_ms(), effect.charge_nanos
        late = effect.kind is EntryKind.LATE_CAPTURE
        rows.put_hold(
            replace(hold, state=effect.state, reason=reason, charge_nanos=charge, late=late, resolved_at_ms=now_ms)
        )
        account = rows.accounts[hold.account_id]
        held_nanos = account.held_nanos - effect.unheld_nanos
        rows.put_account(replace(account, balance_nanos=account.balance_nanos - charge, held_nanos=held_nanos))
        rows.enter(now_ms, hold.account_id, effect.kind, -charge, effect.returned_nanos, hold.id, why)
        if effect.uncollected_nanos:
            rows.enter(now_ms, hold.account_id, EntryKind.UNCOLLECTED, 0, effect.uncollected_nanos, hold.id)
        self._spend(hold.key_id, charge, now_ms)
        if hold.supplier and effect.share_nanos:
            self._credit(hold.supplier, effect.share_nanos, hold.id, now_ms)

    def _credit(self, supplier: str, amount_nanos: int, hold_id: str, now_ms: int) -> None:
        """Credit a supplier's share; its account is opened by the first one."""
        account = self._account_named(supplier) or self._open_account(f"acct_{secrets.token_hex(12)}", supplier)
        self._rows.put_account(replace(account, balance_nanos=account.balance_nanos + amount_nanos))
        self._rows.enter(now_ms, account.id, EntryKind.SHARE, amount_nanos, 0, hold_id)

    def _spend(self, key_id: str, charge_nanos: int, now_ms: int) -> None:
        per = self._rows.keys[key_id].budget_per
        if per is not None and charge_nanos:
            current = budget_period(per, now_ms)
            period, spent_nanos = self._rows.key_spent.get(key_id, ("", 0))
            self._rows.key_spent[key_id] = (current, (spent_nanos if period == current else 0) + charge_nanos)

    def _note(self, note: Note) -> None:
        self._rows.requests.setdefault(note.record.id, note.record)

    # -- accounts, keys, owners ---------------------------------------------------------------------------------------

    def _account_named(self, name: str) -> Account | None:
        return self._rows.accounts.get(self._rows.account_ids.get(name, ""))

    def _create_account(self, create: CreateAccount) -> Account | HoptrioError:
        taken = self._account_named(create.name)
        if taken is not None:
            return taken if taken.id == create.id else Conflict(f"there is an account named {create.name}")
        account = self._open_account(create.id, create.name)
        if create.deposit_nanos:
            account = self._rows.put_account(replace(account, balance_nanos=create.deposit_nanos))
            now_ms = account.created_at_ms
            self._rows.enter(now_ms, account.id, EntryKind.DEPOSIT, create.deposit_nanos, ref=create.ref)
        return account

    def _open_account(self, account_id: str, name: str) -> Account:
        account = Account(id=account_id, name=name, balance_nanos=0, held_nanos=0, created_at_ms=self._now_ms())
        return self._rows.put_account(account)

    def _move(self, move: Move) -> Account | HoptrioError:
        account = self._rows.account(move.account)
        if account is None:
            return NotFound(f"no account {move.account}")
        before = self._rows.refs.get(move.ref)
        if before is not None:
            return repeated(account, move, before)
        if (refused := refused_move(account, move.amount_nanos)) is not None:
            return refused
        account = self._rows.put_account(replace(account, balance_nanos=account.balance_nanos + move.amount_nanos))
        self._rows.enter(self._now_ms(), account.id, move.kind, move.amount_nanos, why=move.why, ref=move.ref)
        return account

    def _set_disabled(self, change: SetDisabled) -> Account | HoptrioError:
        account = self._rows.account(change.account)
        if account is None:
            return NotFound(f"no account {change.account}")
        if account.disabled != change.disabled:
            why = why_disabled(change.disabled, change.why)
            self._rows.enter(self._now_ms(), account.id, EntryKind.ADJUST, 0, why=why)
        return self._rows.put_account(replace(account, disabled=change.disabled))

    def _create_key(self, create: CreateKey) -> ApiKey | HoptrioError:
        account = self._rows.account(create.account)
        if account is None:
            return NotFound(f"no account {create.account}")
        taken = self._rows.key_hashes.get(create.secret_hash)
        if taken is not None:
            there = self._rows.key(taken) if taken == create.id else None
            return there or Conflict("the key's secret is in use")
        if create.id in self._rows.keys:
            return Conflict(f"there is a key {create.id}")
        self._rows.key_hashes[create.secret_hash] = create.id
        key = ApiKey(
            id=create.id,
            account=account,
            contract=create.contract,
            max_streams=create.max_streams,
            rpm=create.rpm,
            budget_nanos=create.budget_nanos,
            budget_per=create.budget_per,
            expires_at_ms=create.expires_at_ms,
            models=create.models,
            created_at_ms=self._now_ms(),
        )
        self._rows.keys[key.id] = key
        return key

    def _revoke_key(self, revoke: RevokeKey) -> ApiKey | HoptrioError:
        key = self._rows.key(revoke.id)
        if key is None:
            return NotFound(f"no key {revoke.id}")
        self._rows.keys[key.id] = key = replace(key, revoked=True)
        return key

    def _renew(self, renew: Renew) -> None:
        self._rows.renew(renew.owner, self._now_ms())

    def _purge(self, purge: Purge) -> int:
        return self._rows.purge(purge.before_ms, purge.limit)

    def _begin_probe(self, begin: BeginProbe) -> bool:
        return self._rows.begin_probe(begin, self._now_ms())

    def _end_probe(self, end: EndProbe) -> None:
        self._rows.end_probe(end, self._now_ms())

    def _set_paused(self, change: SetPaused) -> None:
        self._rows.set_paused(change, self._now_ms())


#: Not of the object: methods bound to it are a cycle with all rows of its batch in it, which only the collector frees.
_HANDLERS: dict[type, Callable[[Changes, Any], Any]] = {
    Hold: Changes._place,
    Resolution: Changes._settle,
    Release: Changes._release,
    Note: Changes._note,
    CreateAccount: Changes._create_account,
    Move: Changes._move,
    SetDisabled: Changes._set_disabled,
    CreateKey: Changes._create_key,
    RevokeKey: Changes._revoke_key,
    Renew: Changes._renew,
    Purge: Changes._purge,
    BeginProbe: Changes._begin_probe,
    EndProbe: Changes._end_probe,
    SetPaused: Changes._set_paused,
    Ping: lambda *_: None,
}
