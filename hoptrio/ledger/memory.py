"""The ledger's rules over dictionaries: for tests on the mock clock, and the reference for the other stores.

It keeps nothing beyond the process. `outage` lets a test take it away: set it to the `StoreUnavailable` to be raised.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hoptrio.errors import Conflict, HoptrioError, InsufficientBalance, NotFound
from hoptrio.ledger.model import (
    Account,
    ApiKey,
    Entry,
    EntryKind,
    Hold,
    HoldRefused,
    HoldRow,
    HoldState,
    OwnerRow,
    Placed,
    RequestFilter,
    RequestRecord,
    Resolution,
    Resolved,
)
from hoptrio.ledger.operations import (
    CreateAccount,
    CreateKey,
    Move,
    Note,
    Operation,
    Ping,
    Purge,
    Release,
    Renew,
    RevokeKey,
    SetDisabled,
)
from hoptrio.ledger.rules import Effect, KeyUse, budget_period, decide, judge, why_disabled
from hoptrio.ledger.store import AuditedHold, Books, StoreUnavailable
from hoptrio.limits import RATE_WINDOW_MS
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["MemoryStore", "wall_ms"]


def wall_ms() -> int:
    """The wall clock in milliseconds: the one place where the ledger reads it."""
    return time.time_ns() // 1_000_000


class MemoryStore:
    """A store of one process and one thread; every method of `store.Store`."""

    inline = True
    reads_inline = True

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self.outage: StoreUnavailable | None = None
        self._now_ms = now_ms
        self._accounts: dict[str, Account] = {}
        self._account_ids: dict[str, str] = {}
        self._keys: dict[str, ApiKey] = {}
        self._key_hashes: dict[str, str] = {}
        self._key_spent: dict[str, tuple[str, int]] = {}
        self._holds: dict[str, HoldRow] = {}
        self._open: dict[str, HoldRow] = {}
        self._entries: list[Entry] = []
        self._refs: set[str] = set()
        self._requests: dict[str, RequestRecord] = {}
        self._provider_ids: dict[str, tuple[str, str | None]] = {}
        self._owners: dict[str, OwnerRow] = {}
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
            Ping: lambda _: None,
        }

    # -- changes ------------------------------------------------------------------------------------------------------

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """See `store.Store`. A bug in one operation leaves those before it applied: there is no rollback here."""
        self._check()
        handlers = self._handlers
        return [handlers[type(operation)](operation) for operation in operations]

    def _place(self, hold: Hold) -> Placed | HoldRefused:
        if hold.id in self._holds or hold.request.id in self._requests:
            raise ValueError(f"hold {hold.id} or its request exists")
        now_ms = self._now_ms()
        key = self._key(hold.request.key_id)
        answer = judge(key, self._use(key, now_ms) if key else KeyUse(), hold.amount_nanos, now_ms)
        if isinstance(answer, HoldRefused) or key is None:
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
        self._holds[hold.id] = self._open[hold.id] = row
        self._requests[hold.request.id] = replace(hold.request, state="running", hold_nanos=hold.amount_nanos)
        self._put(replace(key.account, held_nanos=key.account.held_nanos + hold.amount_nanos))
        return answer

    def _use(self, key: ApiKey, now_ms: int) -> KeyUse:
        if key.max_streams is None and key.budget_nanos is None and key.rpm is None:
            return KeyUse()
        recent, leaves_first_ms = self._rate(key, now_ms)
        held = [hold.amount_nanos for hold in self._open.values() if hold.key_id == key.id]
        period, spent = self._key_spent.get(key.id, ("", 0))
        current = key.budget_per is not None and period == budget_period(key.budget_per, now_ms)
        return KeyUse(len(held), recent, leaves_first_ms, sum(held), spent if current else 0)

    def _rate(self, key: ApiKey, now_ms: int) -> tuple[int, int | None]:
        if not key.rpm:
            return 0, None
        placed = (hold.created_at_ms for hold in self._holds.values() if hold.key_id == key.id)
        recent = sorted(at_ms for at_ms in placed if at_ms > now_ms - RATE_WINDOW_MS)
        return len(recent), recent[-key.rpm] if len(recent) >= key.rpm else None

    def _settle(self, resolution: Resolution) -> Resolved | HoptrioError:
        hold = self._holds.get(resolution.hold_id)
        if hold is None:
            return _unknown(resolution)
        effect = decide(hold, resolution.capture_nanos, self._accounts[hold.account_id].available_nanos)
        if effect.kind is not None:
            reason = hold.reason if effect.kind is EntryKind.LATE_CAPTURE else resolution.request.reason
            self._resolve(hold, effect, reason, "")
            flags = (*resolution.request.flags, *(f for f in effect.flags if f not in resolution.request.flags))
            self._requests[hold.request_id] = replace(
                resolution.request,
                state=effect.state.value,
                reason=reason,
                hold_nanos=hold.amount_nanos,
                charge_nanos=effect.charge_nanos,
                flags=flags,
            )
            for provider_id in resolution.request.provider_ids:
                self._provider_ids.setdefault(provider_id, (hold.account_id, resolution.request.channel))
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _release(self, release: Release) -> Resolved | None:
        hold = self._holds.get(release.hold_id)
        if hold is None:
            return None
        effect = decide(hold, None, 0)
        if effect.kind is not None:
            self._resolve(hold, effect, release.reason, release.why)
            record = self._requests[hold.request_id]
            self._requests[record.id] = replace(record, state="released", reason=release.reason, charge_nanos=0)
        return Resolved(effect.kind is not None, effect.charge_nanos, effect.flags)

    def _resolve(self, hold: HoldRow, effect: Effect, reason: str | None, why: str) -> None:
        assert effect.kind is not None
        now_ms = self._now_ms()
        charge, late = effect.charge_nanos, effect.kind is EntryKind.LATE_CAPTURE
        self._open.pop(hold.id, None)
        self._holds[hold.id] = replace(
            hold, state=effect.state, reason=reason, charge_nanos=charge, late=late, resolved_at_ms=now_ms
        )
        account = self._accounts[hold.account_id]
        self._put(
            replace(
                account,
                balance_nanos=account.balance_nanos - charge,
                held_nanos=account.held_nanos - effect.unheld_nanos,
            )
        )
        self._enter(hold.account_id, effect.kind, -charge, effect.returned_nanos, hold.id, why)
        if effect.uncollected_nanos:
            self._enter(hold.account_id, EntryKind.UNCOLLECTED, 0, effect.uncollected_nanos, hold.id)
        self._spend(hold.key_id, charge, now_ms)
        if hold.supplier and effect.share_nanos:
            supplier = self._supplier(hold.supplier)
            self._put(replace(supplier, balance_nanos=supplier.balance_nanos + effect.share_nanos))
            self._enter(supplier.id, EntryKind.SHARE, effect.share_nanos, 0, hold.id)

    def _supplier(self, name: str) -> Account:
        account = self.account(name)
        if account is None:
            account = self._open_account(f"acct_{name}", name)
        return account

    def _spend(self, key_id: str, charge_nanos: int, now_ms: int) -> None:
        per = self._keys[key_id].budget_per
        if per is not None and charge_nanos:
            current = budget_period(per, now_ms)
            period, spent = self._key_spent.get(key_id, ("", 0))
            self._key_spent[key_id] = (current, (spent if period == current else 0) + charge_nanos)

    def _note(self, note: Note) -> None:
        self._requests.setdefault(note.record.id, note.record)

    def _create_account(self, create: CreateAccount) -> Account | HoptrioError:
        taken = self._account_ids.get(create.name)
        if taken is not None:
            return self._accounts[taken] if taken == create.id else Conflict(f"there is an account named {create.name}")
        account = self._open_account(create.id, create.name)
        if create.deposit_nanos:
            account = self._put(replace(account, balance_nanos=create.deposit_nanos))
            self._enter(account.id, EntryKind.DEPOSIT, create.deposit_nanos, ref=create.ref)
        return account

    def _open_account(self, account_id: str, name: str) -> Account:
        self._account_ids[name] = account_id
        return self._put(Account(id=account_id, name=name, balance_nanos=0, held_nanos=0, created_at_ms=self._now_ms()))

    def _move(self, move: Move) -> Account | HoptrioError:
        account = self.account(move.account)
        if account is None:
            return NotFound(f"no account {move.account}")
        if move.ref in self._refs:
            return account
        if account.available_nanos + move.amount_nanos < 0:
            return InsufficientBalance(f"the account has {format_nanos(account.available_nanos)} available")
        account = self._put(replace(account, balance_nanos=account.balance_nanos + move.amount_nanos))
        self._enter(account.id, move.kind, move.amount_nanos, why=move.why, ref=move.ref)
        return account

    def _set_disabled(self, change: SetDisabled) -> Account | HoptrioError:
        account = self.account(change.account)
        if account is None:
            return NotFound(f"no account {change.account}")
        if account.disabled != change.disabled:
            self._enter(account.id, EntryKind.ADJUST, 0, why=why_disabled(change.disabled, change.why))
        return self._put(replace(account, disabled=change.disabled))

    def _create_key(self, create: CreateKey) -> ApiKey | HoptrioError:
        account = self.account(create.account)
        if account is None:
            return NotFound(f"no account {create.account}")
        taken = self._key_hashes.get(create.secret_hash)
        if taken is not None:
            return self._keys[taken] if taken == create.id else Conflict("the key's secret is in use")
        self._key_hashes[create.secret_hash] = create.id
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
        self._keys[key.id] = key
        return key

    def _revoke_key(self, revoke: RevokeKey) -> ApiKey | HoptrioError:
        key = self._key(revoke.id)
        if key is None:
            return NotFound(f"no key {revoke.id}")
        self._keys[key.id] = replace(key, revoked=True)
        return self._keys[key.id]

    def _renew(self, renew: Renew) -> None:
        before = self._owners.get(renew.owner)
        beat = before.beat + 1 if before else 1
        self._owners[renew.owner] = OwnerRow(id=renew.owner, beat=beat, renewed_at_ms=self._now_ms())

    def _purge(self, purge: Purge) -> int:
        old = [r for r in self._requests.values() if r.created_at_ms < purge.before_ms and r.state != "running"]
        old = sorted(old, key=lambda record: record.created_at_ms)[: purge.limit]
        for record in old:
            del self._requests[record.id]
            for provider_id in record.provider_ids:
                self._provider_ids.pop(provider_id, None)
        return len(old)

    def _put(self, account: Account) -> Account:
        if not 0 <= account.held_nanos <= account.balance_nanos:
            raise AssertionError(f"account {account.id}: {account.held_nanos} held of {account.balance_nanos}")
        self._accounts[account.id] = account
        return account

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
        entry = Entry(
            seq=len(self._entries) + 1,
            at_ms=self._now_ms(),
            account_id=account_id,
            kind=kind,
            amount_nanos=amount_nanos,
            memo_nanos=memo_nanos,
            hold_id=hold_id,
            why=why,
            ref=ref,
        )
        self._entries.append(entry)
        if ref is not None:
            self._refs.add(ref)

    # -- reads --------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.outage is not None:
            raise self.outage

    def _key(self, key_id: str) -> ApiKey | None:
        key = self._keys.get(key_id)
        return None if key is None else replace(key, account=self._accounts[key.account.id])

    def find_key(self, secret_hash: str) -> ApiKey | None:
        self._check()
        return self._key(self._key_hashes.get(secret_hash, ""))

    def request(self, request_id: str) -> RequestRecord | None:
        self._check()
        return self._requests.get(request_id)

    def account(self, name_or_id: str) -> Account | None:
        self._check()
        return self._accounts.get(name_or_id) or self._accounts.get(self._account_ids.get(name_or_id, ""))

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        self._check()
        return {each: self._provider_ids[each] for each in provider_ids if each in self._provider_ids}

    def hold(self, hold_id: str) -> HoldRow | None:
        self._check()
        return self._holds.get(hold_id)

    def requests(self, where: RequestFilter) -> list[RequestRecord]:
        self._check()
        found = [record for record in self._requests.values() if _matches(record, where)]
        found.sort(key=lambda record: (record.created_at_ms, record.id), reverse=True)
        return found[: where.limit]

    def accounts(self) -> list[Account]:
        self._check()
        return sorted(self._accounts.values(), key=lambda account: account.name)

    def keys(self, account_id: str | None) -> list[ApiKey]:
        self._check()
        keys = [key for key_id in self._keys if (key := self._key(key_id)) is not None]
        chosen = [key for key in keys if account_id in (None, key.account.id)]
        return sorted(chosen, key=lambda key: (key.created_at_ms, key.id))

    def entries(self, account_id: str, after_seq: int, limit: int) -> list[Entry]:
        self._check()
        return [e for e in self._entries if e.account_id == account_id and e.seq > after_seq][:limit]

    def entry_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after_seq: int, limit: int
    ) -> list[Entry]:
        self._check()
        chosen = (entry for entry in self._entries[after_seq:] if account_id in (None, entry.account_id))
        return [entry for entry in chosen if since_ms <= entry.at_ms < until_ms][:limit]

    def request_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after: tuple[int, str], limit: int
    ) -> list[RequestRecord]:
        self._check()
        where = RequestFilter(account_id=account_id, since_ms=since_ms, until_ms=until_ms)
        found = [record for record in self._requests.values() if _matches(record, where)]
        found.sort(key=lambda record: (record.created_at_ms, record.id))
        return [record for record in found if (record.created_at_ms, record.id) > after][:limit]

    def open_holds(self, owner: str | None) -> list[HoldRow]:
        self._check()
        return [hold for hold in self._open.values() if owner in (None, hold.owner)]

    def owners(self) -> list[OwnerRow]:
        self._check()
        counts: dict[str, int] = {}
        for hold in self._open.values():
            counts[hold.owner] = counts.get(hold.owner, 0) + 1
        names = sorted({*self._owners, *counts})
        unknown = OwnerRow(id="", beat=0, renewed_at_ms=0)
        return [replace(self._owners.get(name, unknown), id=name, open_holds=counts.get(name, 0)) for name in names]

    @contextmanager
    def books(self) -> Iterator[Books]:
        self._check()
        spent = [(key, *self._key_spent.get(key.id, ("", 0))) for key in self.keys(None)]
        holds = [self._audited(hold) for hold in self._holds.values()]
        yield Books(self.accounts(), spent, self.owners(), holds, list(self._entries), self._now_ms())

    def _audited(self, hold: HoldRow) -> AuditedHold:
        record = self._requests.get(hold.request_id)
        return AuditedHold(hold, record.state if record else None, record.charge_nanos if record else None)

    def schema_version(self) -> int:
        return 0

    def close(self) -> None:
        pass


def _unknown(resolution: Resolution) -> Resolved | HoptrioError:
    """A release of a hold that was never placed has nothing to do; a capture of one has nothing to take from."""
    return NotFound(f"no hold {resolution.hold_id}") if resolution.capture_nanos is not None else Resolved(False, 0)


def _matches(record: RequestRecord, where: RequestFilter) -> bool:
    return (
        where.account_id in (None, record.account_id)
        and where.key_id in (None, record.key_id)
        and where.model in (None, record.model)
        and where.state in (None, record.state)
        and where.client_request_id in (None, record.client_request_id)
        and (where.since_ms is None or record.created_at_ms >= where.since_ms)
        and (where.until_ms is None or record.created_at_ms < where.until_ms)
    )
