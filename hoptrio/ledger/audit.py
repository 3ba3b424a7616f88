"""The audit: recompute every balance, hold and supplier credit from the entries, and name what does not agree. Pure.

What must be true: a balance is the sum of its account's entries and never was below zero; `held` is the sum of the open
holds and never above the balance; a hold is open with a live owner, or has exactly one resolution, of at most its
amount; a supplier got the rounded-down share of each charge; requests say what their holds say; a key's spending is
what was captured in its period.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from hoptrio import limits
from hoptrio.ledger.model import EntryKind, HoldRow, HoldState
from hoptrio.ledger.owner import Fate, fate
from hoptrio.ledger.rules import budget_period
from hoptrio.money import share_nanos

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.ledger.model import Account, ApiKey, Entry, OwnerRow
    from hoptrio.ledger.store import AuditedHold, Books

__all__ = ["AuditReport", "audit"]


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit found. `violations` name the row and what is wrong with it; `captured` and the like are counts."""

    ok: bool
    violations: tuple[str, ...]
    accounts: int
    entries: int
    open_holds: int
    captured: int
    released: int
    #: Taken from accounts, late captures included; what of it suppliers got; the platform has the rest.
    captured_nanos: int
    supplier_nanos: int
    uncollected_nanos: int
    balance_nanos: int
    held_nanos: int

    @property
    def platform_nanos(self) -> int:
        """The platform's revenue: derived, so that there is no row that every capture would have to change."""
        return self.captured_nanos - self.supplier_nanos


class _Trail:
    """What the entries say of one hold."""

    __slots__ = ("accounts", "amounts", "counts", "memos")

    def __init__(self) -> None:
        self.counts: Counter[EntryKind] = Counter()
        self.amounts: Counter[EntryKind] = Counter()
        self.memos: Counter[EntryKind] = Counter()
        #: Accounts of everything but the supplier's share.
        self.accounts: set[str] = set()

    def add(self, entry: Entry) -> None:
        self.counts[entry.kind] += 1
        self.amounts[entry.kind] += entry.amount_nanos
        self.memos[entry.kind] += entry.memo_nanos
        if entry.kind is not EntryKind.SHARE:
            self.accounts.add(entry.account_id)


def audit(books: Books) -> AuditReport:
    """Check `books`."""
    found: list[str] = []
    sums, trails, totals, entries = _add_up(books, found)
    held: Counter[str] = Counter()
    states: Counter[HoldState] = Counter()
    spent: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    owners = {owner.id: owner for owner in books.owners}
    for audited in books.holds:
        hold = audited.hold
        states[hold.state] += 1
        found += [f"hold {hold.id}: {what}" for what in _wrong_hold(audited, trails.pop(hold.id, _Trail()))]
        if hold.state is HoldState.OPEN:
            held[hold.account_id] += hold.amount_nanos
            if not _is_live(owners.get(hold.owner), books.now_ms):
                found.append(f"hold {hold.id}: open, and its owner {hold.owner} is gone")
        elif hold.charge_nanos and hold.resolved_at_ms is not None:
            spent[hold.key_id].append((hold.resolved_at_ms, hold.charge_nanos))
    found += [f"hold {hold_id}: has entries and does not exist" for hold_id in trails]
    for account in books.accounts:
        found += [f"account {account.name}: {what}" for what in _wrong_account(account, sums, held)]
    for key, period, spent_nanos in books.keys:
        if key.budget_per is not None and _spent_in(key, period, spent[key.id]) != spent_nanos:
            found.append(f"key {key.id}: {spent_nanos} noted as spent in {period} differs from its captures")
    return AuditReport(
        ok=not found,
        violations=tuple(found),
        accounts=len(books.accounts),
        entries=entries,
        open_holds=states[HoldState.OPEN],
        captured=states[HoldState.CAPTURED],
        released=states[HoldState.RELEASED],
        captured_nanos=-totals[EntryKind.CAPTURE] - totals[EntryKind.LATE_CAPTURE],
        supplier_nanos=totals[EntryKind.SHARE],
        uncollected_nanos=totals[EntryKind.UNCOLLECTED],
        balance_nanos=sum(account.balance_nanos for account in books.accounts),
        held_nanos=sum(account.held_nanos for account in books.accounts),
    )


def _add_up(books: Books, found: list[str]) -> tuple[Counter[str], dict[str, _Trail], Counter[EntryKind], int]:
    """Balances, the trail of each hold, totals by kind (of memos for `uncollected`) and the number of entries."""
    sums: Counter[str] = Counter()
    trails: dict[str, _Trail] = {}
    totals: Counter[EntryKind] = Counter()
    count = 0
    for entry in books.entries:
        count += 1
        sums[entry.account_id] += entry.amount_nanos
        if sums[entry.account_id] < 0:
            found.append(f"entry {entry.seq}: the balance of {entry.account_id} falls to {sums[entry.account_id]}")
        memo_only = entry.kind is EntryKind.UNCOLLECTED
        totals[entry.kind] += entry.memo_nanos if memo_only else entry.amount_nanos
        if entry.hold_id is not None:
            trails.setdefault(entry.hold_id, _Trail()).add(entry)
    return sums, trails, totals, count


def _wrong_account(account: Account, sums: Counter[str], held: Counter[str]) -> Iterator[str]:
    if account.balance_nanos != sums[account.id]:
        yield f"balance {account.balance_nanos}, its entries add up to {sums[account.id]}"
    if account.held_nanos != held[account.id]:
        yield f"held {account.held_nanos}, its open holds add up to {held[account.id]}"
    if not 0 <= account.held_nanos <= account.balance_nanos:
        yield f"held {account.held_nanos} is not between 0 and the balance {account.balance_nanos}"


def _wrong_hold(audited: AuditedHold, trail: _Trail) -> Iterator[str]:
    hold = audited.hold
    resolutions = trail.counts[EntryKind.CAPTURE] + trail.counts[EntryKind.RELEASE]
    if resolutions != (hold.state is not HoldState.OPEN):
        yield f"{hold.state.value} with {resolutions} resolutions"
    if trail.accounts - {hold.account_id}:
        yield "an entry is another account's"
    yield from _wrong_amounts(hold, trail)
    if audited.request_state is None:
        return
    told = "running" if hold.state is HoldState.OPEN else hold.state.value
    if audited.request_state != told:
        yield f"{hold.state.value}, its request says {audited.request_state}"
    if hold.state is not HoldState.OPEN and audited.request_charge_nanos != hold.charge_nanos:
        yield f"charged {hold.charge_nanos}, its request says {audited.request_charge_nanos}"


def _wrong_amounts(hold: HoldRow, trail: _Trail) -> Iterator[str]:
    charge = -trail.amounts[EntryKind.CAPTURE] - trail.amounts[EntryKind.LATE_CAPTURE]
    if charge != hold.charge_nanos:
        yield f"charged {hold.charge_nanos}, its entries add up to {charge}"
    if not 0 <= charge + trail.memos[EntryKind.UNCOLLECTED] <= hold.amount_nanos:
        yield f"charged {charge} of {hold.amount_nanos}"
    if hold.state is not HoldState.OPEN:
        returned = trail.memos[EntryKind.CAPTURE] + trail.memos[EntryKind.RELEASE]
        if returned != hold.amount_nanos + trail.amounts[EntryKind.CAPTURE]:
            yield f"returned {returned} of {hold.amount_nanos}"
    if trail.counts[EntryKind.LATE_CAPTURE] > (hold.state is HoldState.RELEASED):
        yield "a late capture without a release, or two"
    share = share_nanos(charge, hold.revenue_share_nanos) if hold.supplier else 0
    if trail.amounts[EntryKind.SHARE] != share:
        yield f"the supplier got {trail.amounts[EntryKind.SHARE]} instead of {share}"


def _is_live(owner: OwnerRow | None, now_ms: int) -> bool:
    """A process cannot watch a lease for long here; two of them give the sweep of a live gateway its time."""
    if owner is None:
        return False
    known = fate(owner.id)
    fresh = owner.renewed_at_ms >= now_ms - 2000 * limits.LEASE_S
    return known is Fate.ALIVE or (known is Fate.UNKNOWN and fresh)


def _spent_in(key: ApiKey, period: str, charges: list[tuple[int, int]]) -> int:
    return sum(charge for at_ms, charge in charges if budget_period(key.budget_per or "", at_ms) == period)
