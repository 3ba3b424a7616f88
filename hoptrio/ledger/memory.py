"""The ledger's rules over dictionaries: for tests on the mock clock, and the reference for the other stores.

It keeps nothing beyond the process. `outage` lets a test take it away: set it to the `StoreUnavailable` to be raised.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hoptrio.ledger.changes import Changes
from hoptrio.ledger.model import OwnerRow, RequestFilter
from hoptrio.ledger.rows import Rows
from hoptrio.ledger.rules import with_expiry
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
        PauseRow,
        ProbeRow,
        RequestRecord,
        UsageEvidence,
    )
    from hoptrio.ledger.operations import Operation

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
        self._rows = rows = Rows()
        self._changes = Changes(rows, now_ms)
        self._accounts = rows.accounts
        self._holds = rows.holds
        self._open = rows.open
        self._entries = rows.entries
        self._requests = rows.requests
        self._provider_ids = rows.provider_ids
        self._owners = rows.owners

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """See `store.Store`. A bug in one operation leaves those before it applied: there is no rollback here."""
        self._check()
        return self._changes.apply(operations)

    # -- reads --------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.outage is not None:
            raise self.outage

    def find_key(self, secret_hash: str) -> ApiKey | None:
        self._check()
        key = self._rows.key(self._rows.key_hashes.get(secret_hash, ""))
        return None if key is None else with_expiry(key, self._now_ms())

    def request(self, request_id: str) -> RequestRecord | None:
        self._check()
        return self._requests.get(request_id)

    def account(self, name_or_id: str) -> Account | None:
        self._check()
        return self._rows.account(name_or_id)

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        self._check()
        return {each: self._provider_ids[each] for each in provider_ids if each in self._provider_ids}

    def hold(self, hold_id: str) -> HoldRow | None:
        self._check()
        return self._holds.get(hold_id)

    def claimed(self, claim: Claim) -> Claimed | None:
        self._check()
        return self._rows.claimed(claim, self._now_ms())

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
        keys = [key for key_id in self._rows.keys if (key := self._rows.key(key_id)) is not None]
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

    def last_entries(self, account_id: str | None, before_seq: int | None, limit: int) -> list[Entry]:
        self._check()
        end = len(self._entries) if before_seq is None else max(before_seq - 1, 0)
        chosen = (entry for entry in reversed(self._entries[:end]) if account_id in (None, entry.account_id))
        return list(islice(chosen, limit))

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

    def held_nanos(self) -> int:
        self._check()
        return sum(hold.amount_nanos for hold in self._open.values())

    def open_since_ms(self) -> list[int]:
        self._check()
        return [hold.created_at_ms for hold in self._open.values()]

    def owners(self) -> list[OwnerRow]:
        self._check()
        counts: dict[str, int] = {}
        for hold in self._open.values():
            counts[hold.owner] = counts.get(hold.owner, 0) + 1
        names = sorted({*self._owners, *counts})
        unknown = OwnerRow(id="", beat=0, renewed_at_ms=0)
        return [replace(self._owners.get(name, unknown), id=name, open_holds=counts.get(name, 0)) for name in names]

    def usage_evidence(self) -> list[UsageEvidence]:
        self._check()
        return sorted(self._rows.evidence.values(), key=lambda row: row.probed)

    def probes(self) -> list[ProbeRow]:
        self._check()
        return sorted(self._rows.probes.values(), key=lambda row: row.probed)

    def pauses(self) -> list[PauseRow]:
        self._check()
        return sorted(self._rows.pauses.values(), key=lambda row: row.channel)

    @contextmanager
    def books(self) -> Iterator[Books]:
        self._check()
        spent = [(key, *self._rows.key_spent.get(key.id, ("", 0))) for key in self.keys(None)]
        holds = [self._audited(hold) for hold in self._holds.values()]
        yield Books(self.accounts(), spent, self.owners(), holds, list(self._entries), self._now_ms())

    def _audited(self, hold: HoldRow) -> AuditedHold:
        record = self._requests.get(hold.request_id)
        return AuditedHold(hold, record.state if record else None, record.charge_nanos if record else None)

    def schema_version(self) -> int:
        return 0

    def close(self) -> None:
        pass


def _matches(record: RequestRecord, where: RequestFilter) -> bool:
    return (
        where.account_id in (None, record.account_id)
        and where.key_id in (None, record.key_id)
        and where.protocol in (None, record.protocol)
        and where.model in (None, record.model)
        and where.channel in (None, record.channel)
        and where.state in (None, record.state)
        and where.reason in (None, record.reason)
        and where.client_request_id in (None, record.client_request_id)
        and (where.since_ms is None or record.created_at_ms >= where.since_ms)
        and (where.until_ms is None or record.created_at_ms < where.until_ms)
        and (where.before is None or (record.created_at_ms, record.id) < where.before)
    )
