"""The ledger's rows in dictionaries: all of them in the memory store, those a batch touches in the PostgreSQL store.

What changed in them can be told from a copy made before: a row is never changed in place, only replaced. Invariant:
``0 <= held <= balance`` for every account that is put here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hoptrio.ledger.model import (
    Account,
    ApiKey,
    Claim,
    Claimed,
    ClaimRow,
    Entry,
    EntryKind,
    HoldRow,
    HoldState,
    OwnerRow,
    PauseRow,
    Probed,
    ProbeRow,
    RequestRecord,
    UsageEvidence,
)
from hoptrio.ledger.rules import Moved, standing
from hoptrio.limits import CLAIM_KEPT_MS

if TYPE_CHECKING:
    from hoptrio.ledger.operations import BeginProbe, EndProbe, SetPaused

__all__ = ["Rows"]


class Rows:
    """The tables, by what their rows are looked up by."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        #: By name.
        self.account_ids: dict[str, str] = {}
        #: With their accounts as they were once; `key` has them as they stand.
        self.keys: dict[str, ApiKey] = {}
        #: The key's id by the hash of its secret.
        self.key_hashes: dict[str, str] = {}
        #: Key -> (period, what was captured in it), for keys with a budget.
        self.key_spent: dict[str, tuple[str, int]] = {}
        #: Key -> (its open holds, their sum); a key that is not here has none, or no limit that would ask.
        self.key_open: dict[str, tuple[int, int]] = {}
        #: Key -> when it placed its holds of the last minute at least, for keys with a rate.
        self.key_recent: dict[str, list[int]] = {}
        self.holds: dict[str, HoldRow] = {}
        self.open: dict[str, HoldRow] = {}
        self.claims: dict[str, ClaimRow] = {}
        self.entries: list[Entry] = []
        self.refs: dict[str, Moved] = {}
        self.requests: dict[str, RequestRecord] = {}
        self.provider_ids: dict[str, tuple[str, str | None]] = {}
        self.owners: dict[str, OwnerRow] = {}
        self.evidence: dict[Probed, UsageEvidence] = {}
        self.probes: dict[Probed, ProbeRow] = {}
        self.pauses: dict[str, PauseRow] = {}

    def account(self, name_or_id: str) -> Account | None:
        """The account with this id, else the one with this name."""
        return self.accounts.get(name_or_id) or self.accounts.get(self.account_ids.get(name_or_id, ""))

    def put_account(self, account: Account) -> Account:
        """Keep the account as it is now. Raises AssertionError for one that must not be."""
        if not 0 <= account.held_nanos <= account.balance_nanos:
            raise AssertionError(f"account {account.id}: {account.held_nanos} held of {account.balance_nanos}")
        self.accounts[account.id] = account
        self.account_ids[account.name] = account.id
        return account

    def key(self, key_id: str) -> ApiKey | None:
        """The key, with its account as it stands."""
        key = self.keys.get(key_id)
        return None if key is None else replace(key, account=self.accounts[key.account.id])

    def put_hold(self, hold: HoldRow) -> None:
        """Keep the hold as it is now."""
        was, now = self.open.pop(hold.id, None), hold.state is HoldState.OPEN
        if hold.id not in self.holds and self.keys[hold.key_id].rpm is not None:
            self.key_recent.setdefault(hold.key_id, []).append(hold.created_at_ms)
        self.holds[hold.id] = hold
        if now:
            self.open[hold.id] = hold
        count, held_nanos = self.key_open.get(hold.key_id, (0, 0))
        change = now - (was is not None)
        self.key_open[hold.key_id] = (count + change, held_nanos + change * hold.amount_nanos)

    def claimed(self, claim: Claim, now_ms: int) -> Claimed | None:
        """The request that stands for another (`rules.standing`)."""
        row = self.claims.get(claim.name)
        return standing(row, None if row is None else self.holds.get(row.hold_id), claim.window_ms, now_ms)

    def enter(
        self,
        at_ms: int,
        account_id: str,
        kind: EntryKind,
        amount_nanos: int,
        memo_nanos: int = 0,
        hold_id: str | None = None,
        why: str = "",
        ref: str | None = None,
    ) -> None:
        """Append an entry; its `seq` is its place among those that are here."""
        entry = Entry(
            seq=len(self.entries) + 1,
            at_ms=at_ms,
            account_id=account_id,
            kind=kind,
            amount_nanos=amount_nanos,
            memo_nanos=memo_nanos,
            hold_id=hold_id,
            why=why,
            ref=ref,
        )
        self.entries.append(entry)
        if ref is not None:
            self.refs[ref] = Moved(account_id, kind, amount_nanos)

    def renew(self, owner: str, now_ms: int) -> None:
        """Begin an owner's lease, or renew it; on this occasion old claims are forgotten."""
        before = self.owners.get(owner)
        self.owners[owner] = OwnerRow(id=owner, beat=before.beat + 1 if before else 1, renewed_at_ms=now_ms)
        self.claims = {name: row for name, row in self.claims.items() if row.made_at_ms >= now_ms - CLAIM_KEPT_MS}

    def purge(self, before_ms: int, limit: int) -> int:
        """Forget the oldest records of requests that do not run; how many."""
        old = [r for r in self.requests.values() if r.created_at_ms < before_ms and r.state != "running"]
        old = sorted(old, key=lambda record: record.created_at_ms)[:limit]
        for record in old:
            del self.requests[record.id]
            for provider_id in record.provider_ids:
                self.provider_ids.pop(provider_id, None)
        return len(old)

    def begin_probe(self, begin: BeginProbe, now_ms: int) -> bool:
        """Claim a probe (`operations.BeginProbe`)."""
        last = self.probes.get(begin.probed)
        if (
            last is None
            or last.began_at_ms <= now_ms - begin.every_ms
            or last.probe == begin.instead_of
            or last.setup != begin.setup
        ):
            self.probes[begin.probed] = ProbeRow(
                probed=begin.probed, probe=begin.probe, owner=begin.owner, setup=begin.setup, began_at_ms=now_ms
            )
        return self.probes[begin.probed].probe == begin.probe

    def end_probe(self, end: EndProbe, now_ms: int) -> None:
        """Keep what a probe found (`operations.EndProbe`)."""
        last = self.probes.get(end.probed)
        if last is not None and last.probe == end.probe:
            self.probes[end.probed] = replace(last, ended_at_ms=now_ms, finding=end.finding, detail=end.detail)
        if end.evidence is not None:
            self.evidence[end.probed] = UsageEvidence(
                probed=end.probed,
                target=end.target,
                evidence=end.evidence,
                observed_at_ms=now_ms,
                probe=end.probe,
                expires_at_ms=now_ms + end.valid_ms,
            )
        elif end.revokes:
            self.evidence.pop(end.probed, None)

    def set_paused(self, change: SetPaused, now_ms: int) -> None:
        """Pause a channel, or no more (`operations.SetPaused`)."""
        if not change.paused:
            self.pauses.pop(change.channel, None)
        elif change.channel not in self.pauses:
            self.pauses[change.channel] = PauseRow(change.channel, now_ms, change.why)
