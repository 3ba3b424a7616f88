"""The interface of a ledger's engine. Memory, SQLite and PostgreSQL stores pass one contract suite (tests/ledger).

A store owns its transactions and decides by `rules` inside them; it knows nothing of trio, queues or time limits. One
thread at a time calls `apply`. The other methods only read: the point reads (those of one thing) must never wait for a
writer; the scans may take their time. Where they are called is told by `inline` and `reads_inline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

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

__all__ = ["AuditedHold", "Books", "Store", "StoreUnavailable"]


class StoreUnavailable(Exception):
    """The engine cannot be written or read now. Nothing of the batch was applied, unless `uncertain`.

    `busy`: another process holds the lock, so trying again soon is likely to help. `uncertain`: the commit itself
    failed, and the batch may turn out to have been applied.
    """

    def __init__(self, message: str, *, busy: bool = False, uncertain: bool = False) -> None:
        super().__init__(message)
        self.busy = busy
        self.uncertain = uncertain


class AuditedHold(NamedTuple):
    """A hold beside what its request's record says of it (None = there is no record any more)."""

    hold: HoldRow
    request_state: str | None
    request_charge_nanos: int | None


class Books(NamedTuple):
    """Everything the audit reads, as of one moment; entries in the order of `seq`."""

    accounts: Sequence[Account]
    keys: Sequence[tuple[ApiKey, str, int]]
    owners: Sequence[OwnerRow]
    holds: Iterable[AuditedHold]
    entries: Iterable[Entry]
    now_ms: int


class Store(Interface):
    """One engine."""

    #: True: every call is quick and may be made on the event loop.
    inline: bool
    #: True: the point reads are quick and may be made on the event loop (some 20 us); else they are for threads.
    reads_inline: bool

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        """Apply all in one durable transaction, in order; the answers in the same order (see `operations`).

        An expected refusal is an answer, a `HoptrioError` value included. Raises StoreUnavailable; any other exception
        is a bug in one of the operations, and nothing was applied.
        """

    def find_key(self, secret_hash: str) -> ApiKey | None: ...

    def request(self, request_id: str) -> RequestRecord | None: ...

    def account(self, name_or_id: str) -> Account | None: ...

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]: ...

    def hold(self, hold_id: str) -> HoldRow | None: ...

    def claimed(self, claim: Claim) -> Claimed | None:
        """The request that stands for another, as of the last commit (`rules.standing`)."""

    def requests(self, where: RequestFilter) -> list[RequestRecord]: ...

    def accounts(self) -> list[Account]: ...

    def keys(self, account_id: str | None) -> list[ApiKey]: ...

    def entries(self, account_id: str, after_seq: int, limit: int) -> list[Entry]: ...

    def entry_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after_seq: int, limit: int
    ) -> list[Entry]:
        """The first entries behind `after_seq` (of one account), made from `since_ms` on and before `until_ms`."""

    def last_entries(self, account_id: str | None, before_seq: int | None, limit: int) -> list[Entry]:
        """The last entries in front of `before_seq` (of one account), the newest first."""

    def request_page(
        self, account_id: str | None, since_ms: int, until_ms: int, after: tuple[int, str], limit: int
    ) -> list[RequestRecord]:
        """The first requests behind `after` in the order of (created_at_ms, id), made in that time."""

    def open_holds(self, owner: str | None) -> list[HoldRow]: ...

    def held_nanos(self) -> int:
        """What all open holds add up to."""

    def open_since_ms(self) -> list[int]:
        """When each of the open holds was placed, in any order."""

    def owners(self) -> list[OwnerRow]:
        """Every owner with a lease or an open hold (beat 0 if it never had a lease)."""

    def usage_evidence(self) -> list[UsageEvidence]:
        """Every row of evidence, expired ones too."""

    def probes(self) -> list[ProbeRow]:
        """The last probe of everything that was ever probed."""

    def pauses(self) -> list[PauseRow]:
        """The channels that are paused."""

    def books(self) -> AbstractContextManager[Books]: ...

    def schema_version(self) -> int:
        """The number of the last schema file that was applied; 0 = the engine has no schema."""

    def close(self) -> None: ...
