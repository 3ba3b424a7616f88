"""The ledger as the rest of the gateway sees it: `open_ledger` (durable) and `memory_ledger` (for the mock clock).

Every change is a value (`operations`) that goes through one writer (`writer`) into one store (`store`); this file owns
the waiting: how long a caller waits, and what holds when it stopped. The waits are shielded, since a queued operation
outlives its cancelled caller: whoever calls `place` learns what became of it, cancelled or not.

Invariants: `place` that raises has placed nothing that stays; `settle` that returns a `Resolved` is durable, and one
that returns None goes on until it is.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio
from msgspec.structs import replace

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import HoptrioError, LedgerUnavailable
from hoptrio.ledger.audit import AuditReport, audit
from hoptrio.ledger.engines import migrate_store, open_store
from hoptrio.ledger.journal_writer import InlineScribe, JournalWriter, ThreadScribe
from hoptrio.ledger.journals import Journals
from hoptrio.ledger.memory import MemoryStore, wall_ms
from hoptrio.ledger.model import (
    DOT_SEGMENTS,
    Account,
    ApiKey,
    Claim,
    Claimed,
    Entry,
    EntryKind,
    Hold,
    HoldRefused,
    HoldRow,
    OwnerRow,
    PauseRow,
    Placed,
    ProbeRow,
    RequestFilter,
    RequestRecord,
    Resolution,
    Resolved,
    UsageEvidence,
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
from hoptrio.ledger.recover import Sweep
from hoptrio.ledger.rules import OPERATOR
from hoptrio.ledger.shelf import DiskFile, DiskShelf
from hoptrio.ledger.store import Store, StoreUnavailable
from hoptrio.ledger.writer import InlineWriter, ThreadWriter, Ticket, Writer, raised
from hoptrio.money import BALANCE_NANOS_MAX, format_nanos

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from hoptrio.ledger.shelf_memory import MemoryShelf
    from hoptrio.telemetry.tally import Histogram

__all__ = ["Ledger", "memory_ledger", "migrate", "open_ledger"]

T = TypeVar("T")


@asynccontextmanager
async def open_ledger(
    url: str,
    *,
    owner: str | None = None,
    journal: Path | str | None = None,
    patient: bool = False,
    now_ms: Callable[[], int] = wall_ms,
) -> AsyncIterator[Ledger]:
    """Open the ledger at `url`: ``sqlite:///relative.db`` or ``sqlite:////absolute.db``, created if there is none, or
    ``postgresql://user@host/database``, which `migrate` has prepared; its own clock then decides, and not `now_ms`.

    `owner` names the process that will place holds (`owner.this_process`); its lease begins here. None for one that
    places none. With a `journal`, the directory of this machine's, settlements are confirmed by the owner's file there
    (`journal_writer`); a ledger without an owner has none and reads those of others. A `patient` one opens while its
    database is away, and says so whenever it is asked. On leaving, everything queued is
    applied first; what the store refuses is given up after `limits.SETTLE_S`, and a disk that hangs after
    `limits.LEDGER_CLOSE_S`.

    Raises ValueError for a URL that is not understood, LedgerUnavailable if it cannot be opened.
    """
    try:
        store = await trio.to_thread.run_sync(partial(open_store, url, now_ms, patient=patient))
    except StoreUnavailable as error:
        raise LedgerUnavailable(str(error)) from error
    ledger = await _on_disk(store, owner, journal, now_ms)
    try:
        if not patient:
            await ledger.renew()
        yield ledger
    finally:
        with trio.move_on_after(limits.LEDGER_CLOSE_S, shield=True):
            await ledger.close()


async def _on_disk(store: Store, owner: str | None, journal: Path | str | None, now_ms: Callable[[], int]) -> Ledger:
    """Over threads. Raises LedgerUnavailable if the owner's journal cannot be opened."""
    if journal is None:
        return Ledger(store, ThreadWriter(store), owner, now_ms)
    shelf = DiskShelf(journal)
    if owner is None:
        return Ledger(store, ThreadWriter(store), owner, now_ms, Journals(shelf))
    # Before the first hold, so that no hold of this owner is ever without it.
    file = await trio.to_thread.run_sync(_opened, shelf, owner)
    if isinstance(file, OSError):
        await trio.to_thread.run_sync(store.close)
        raise LedgerUnavailable(f"the journal cannot be opened: {file.strerror}") from file
    writer = JournalWriter(ThreadWriter(store), file, ThreadScribe)
    return Ledger(store, writer, owner, now_ms, Journals(shelf, writer))


def _opened(shelf: DiskShelf, owner: str) -> DiskFile | OSError:
    try:
        return shelf.open(owner)
    except OSError as error:
        return error


@asynccontextmanager
async def memory_ledger(
    store: MemoryStore | None = None,
    *,
    owner: str | None = "test",
    shelf: MemoryShelf | None = None,
    now_ms: Callable[[], int] = wall_ms,
) -> AsyncIterator[Ledger]:
    """A ledger without threads and files. Several may share one `store`, as processes share a database; those of one
    machine share a `shelf` too, and then have journals."""
    store = store or MemoryStore(now_ms)
    writer = InlineWriter(store)
    if shelf is None or owner is None:
        ledger = Ledger(store, writer, owner, now_ms, Journals(shelf))
    else:
        journalled = JournalWriter(writer, shelf.open(owner), InlineScribe)
        ledger = Ledger(store, journalled, owner, now_ms, Journals(shelf, journalled))
    async with trio.open_nursery() as nursery:
        # The writer outlives the callers that it serves: those are shielded while they settle, so it must be too.
        scope = await nursery.start(_run_shielded, writer)
        try:
            await ledger.renew()
            yield ledger
        finally:
            with trio.move_on_after(limits.LEDGER_CLOSE_S, shield=True):
                await ledger.close()
            scope.cancel()


async def _run_shielded(
    writer: InlineWriter, *, task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.CancelScope(shield=True) as scope:
        task_status.started(scope)
        await writer.run()


async def migrate(url: str) -> int:
    """Create the schema of the ledger at `url`, or bring it up to date; its version. Raises as `open_ledger` does."""
    try:
        return await trio.to_thread.run_sync(migrate_store, url)
    except StoreUnavailable as error:
        raise LedgerUnavailable(str(error)) from error


class Ledger:
    """One open ledger. All methods belong to the event loop; those without ``async`` return at once."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        owner: str | None,
        now_ms: Callable[[], int] = wall_ms,
        journals: Journals | None = None,
    ) -> None:
        self._store = store
        self._writer = writer
        self._journals = journals or Journals()
        #: By their id, the records of refused requests that are not committed yet.
        self._notes: dict[str, RequestRecord] = {}
        #: Trio time of the newest request to renew the lease that was granted.
        self._renewed_at = -limits.LEASE_S
        # Threads of their own: point reads of a server that hangs take none from anybody else.
        self._readers = trio.CapacityLimiter(limits.POSTGRES_READERS)
        #: The name for `Hold.owner`; None = this process places no holds.
        self.owner = owner
        #: The wall clock of records, in milliseconds.
        self.now_ms = now_ms

    # -- the request path ---------------------------------------------------------------------------------------------

    async def place(self, hold: Hold) -> Placed | HoldRefused | Claimed:
        """Place a hold; durable when it returns. Never raises Cancelled: see the module. With a claim that another
        request holds nothing is placed: over all processes of the ledger, one request stands for all.

        Raises LedgerUnavailable when the ledger cannot be written, is too busy, or takes longer than `limits.HOLD_S`;
        should the hold be committed after all, it is released at once. ValueError for a negative amount
        or another owner than this ledger's.
        """
        if hold.amount_nanos < 0:
            raise ValueError("a hold cannot be negative")
        if hold.owner != self.owner:
            # Nobody would renew its lease, and the sweep would take it from under a running stream.
            raise ValueError("a hold is owned by the process that places it")
        if self._writer.backlog >= limits.LEDGER_QUEUE_MAX:
            raise LedgerUnavailable("too many requests wait for the ledger", retry_after_s=1)
        if self._journals.full:
            raise LedgerUnavailable("too many settlements wait for the ledger", retry_after_s=1)
        self._renew_if_late()
        ticket = await self._ask(hold, limits.HOLD_S, self._void_if_placed)
        if ticket.abandoned:
            raise LedgerUnavailable("the ledger did not answer in time", retry_after_s=1)
        return ticket.take()  # type: ignore[no-any-return]

    async def settle(self, resolution: Resolution) -> Resolved | None:
        """Resolve a hold; durable when it returns a Resolved, in the store or in the journal. Never raises Cancelled.

        None: not confirmed within `limits.SETTLE_S`, and still being tried. Repeating it is harmless (`first` False).
        Raises NotFound for a capture of a hold that was never placed, ValueError for a negative amount.
        """
        if resolution.capture_nanos is not None and resolution.capture_nanos < 0:
            raise ValueError("a capture cannot be negative")
        ticket = await self._ask(resolution, limits.SETTLE_S, hasten=self._journals.hasten)
        return ticket.take()  # type: ignore[no-any-return]

    def note(self, record: RequestRecord) -> None:
        """Keep the record of a refused request: best effort, with the next commit; dropped when too many wait.
        `request` knows it at once."""
        if len(self._notes) < limits.LEDGER_NOTES_MAX:
            self._notes[record.id] = record
            self._writer.submit(Ticket(Note(record), partial(self._noted, record.id)))

    def _noted(self, request_id: str, ticket: Ticket) -> None:
        self._notes.pop(request_id, None)

    def _void_if_placed(self, ticket: Ticket) -> None:
        if isinstance(ticket.answer, Placed) and isinstance(ticket.operation, Hold):
            release = Release(ticket.operation.id, Reason.NOT_DISPATCHED.value)
            self._writer.submit(Ticket(release, _ignore))

    async def find_key(self, secret: str) -> ApiKey | None:
        """The key with this secret and its account as they stand, revoked and expired ones too; None = no such key.

        Like the other point reads it sees whatever any process committed before, and no writer can block it. Raises
        LedgerUnavailable.
        """
        return await self._soon(self._store.find_key, _hash(secret))

    async def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """(account id, channel) of the request whose answer had this provider-side id, for each that is known."""
        found = self._journals.owners_of(provider_ids)
        if missing := [each for each in provider_ids if each not in found]:
            found |= await self._soon(self._store.owners_of, missing)
        if missing := [each for each in missing if each not in found]:
            found |= await self._journals.search_owners_of(missing)
        return found

    async def request(self, request_id: str) -> RequestRecord | None:
        """The request's record, or None. A settlement that a journal of this machine has reads as settled."""
        known = self._journals.settled(request_id) or self._notes.get(request_id)
        if known is not None:
            return known
        record = await self._soon(self._store.request, request_id)
        if record is None or record.state != "running":
            return record
        return await self._journals.search_settled(record)

    async def hold(self, hold_id: str) -> HoldRow | None:
        """The hold as it stands, or None."""
        return await self._soon(self._store.hold, hold_id)

    async def claimed(self, claim: Claim) -> Claimed | None:
        """The request that stands for one with this claim, or None; only `place` decides it.

        Raises LedgerUnavailable.
        """
        return await self._soon(self._store.claimed, claim)

    async def account(self, name_or_id: str) -> Account | None:
        """The account as it stands, or None."""
        return await self._soon(self._store.account, name_or_id)

    # -- accounts and keys --------------------------------------------------------------------------------------------

    async def create_account(self, name: str, deposit_nanos: int = 0) -> Account:
        """Open an account. Raises Conflict if the name is taken, ValueError for a bad name or amount."""
        if not 0 < len(name) <= limits.NAME_CHARS_MAX or not name.isprintable() or deposit_nanos < 0:
            raise ValueError("an account needs a printable name and a deposit of at least 0")
        if deposit_nanos > BALANCE_NANOS_MAX:
            raise ValueError(f"a balance is {format_nanos(BALANCE_NANOS_MAX)} at most")
        if name in DOT_SEGMENTS:
            raise ValueError(f"no account can be named {name}, since no address of one can end in it")
        if name != name.strip():
            raise ValueError("an account's name neither begins nor ends with a blank")
        account_id = f"acct_{secrets.token_hex(12)}"
        create = CreateAccount(id=account_id, name=name, deposit_nanos=deposit_nanos, ref=_ref())
        return await self._change(create)  # type: ignore[no-any-return]

    async def deposit(self, account: str, amount_nanos: int, why: str = "", *, ref: str | None = None) -> Account:
        """Pay in; the same with the same `ref` again changes nothing. Raises NotFound, Conflict if another change has
        the `ref` or the balance would be too large, ValueError for an amount that is not above 0."""
        if amount_nanos <= 0:
            raise ValueError("a deposit is above 0")
        return await self._move(account, EntryKind.DEPOSIT, amount_nanos, why, ref)

    async def adjust(self, account: str, amount_nanos: int, why: str, *, ref: str | None = None) -> Account:
        """Correct a balance, up or down; the same with the same `ref` again changes nothing. Raises NotFound, Conflict
        if another change has the `ref` or the balance would be too large, InsufficientBalance if less than what is held
        would be left, ValueError without a reason."""
        if not why.strip() or not amount_nanos:
            raise ValueError("an adjustment needs an amount and a reason")
        return await self._move(account, EntryKind.ADJUST, amount_nanos, why, ref)

    async def _move(self, account: str, kind: EntryKind, amount_nanos: int, why: str, ref: str | None) -> Account:
        move = Move(ref=ref or _ref(), account=account, kind=kind, amount_nanos=amount_nanos, why=why)
        return await self._change(move)  # type: ignore[no-any-return]

    async def disable(self, account: str, *, disabled: bool = True, why: str = "") -> Account:
        """Refuse every new hold of the account from now on, or no more. Raises NotFound."""
        return await self._change(SetDisabled(account, disabled, why))  # type: ignore[no-any-return]

    async def create_key(
        self,
        account: str,
        *,
        key_id: str | None = None,
        secret: str | None = None,
        contract: str | None = None,
        max_streams: int | None = None,
        rpm: int | None = None,
        budget_nanos: int | None = None,
        budget_per: str | None = None,
        expires_at_ms: int | None = None,
        models: Sequence[str] = (),
    ) -> tuple[ApiKey, str]:
        """A new key and its secret, which is stored as a hash only. `budget_per` is "day" or "month" (UTC).

        Raises NotFound for the account, Conflict if `key_id` or `secret` is in use, ValueError for a budget without its
        period.
        """
        if (budget_nanos is None) != (budget_per is None) or budget_per not in (None, "day", "month"):
            raise ValueError("a budget needs a period, day or month")
        secret = secret or f"sk-{secrets.token_urlsafe(32)}"
        create = CreateKey(
            id=key_id or f"key_{secrets.token_hex(8)}",
            secret_hash=_hash(secret),
            account=account,
            contract=contract,
            max_streams=max_streams,
            rpm=rpm,
            budget_nanos=budget_nanos,
            budget_per=budget_per,
            expires_at_ms=expires_at_ms,
            models=tuple(models),
        )
        return await self._change(create), secret

    async def revoke_key(self, key_id: str) -> ApiKey:
        """Refuse the key from now on; its running streams go on. Raises NotFound."""
        return await self._change(RevokeKey(key_id))  # type: ignore[no-any-return]

    async def release(self, hold_id: str, why: str) -> Resolved | None:
        """Release a stuck hold by hand; None = there is no such hold. Raises ValueError without a reason."""
        if not why.strip():
            raise ValueError("a release by hand needs a reason")
        return (await self.release_all([Release(hold_id, OPERATOR, why)]))[0]

    # -- certification ------------------------------------------------------------------------------------------------

    async def begin_probe(self, begin: BeginProbe) -> bool:
        """Claim a probe; False = another's is too recent. Raises LedgerUnavailable."""
        return await self._change(begin)  # type: ignore[no-any-return]

    async def end_probe(self, end: EndProbe) -> None:
        """Keep what a probe found, and the evidence. Raises LedgerUnavailable."""
        await self._change(end)

    async def usage_evidence(self) -> list[UsageEvidence]:
        """What is certified, expired rows included."""
        return await self._later(self._store.usage_evidence)

    async def probes(self) -> list[ProbeRow]:
        """The last probe of everything that was probed."""
        return await self._later(self._store.probes)

    # -- channels -----------------------------------------------------------------------------------------------------

    async def set_paused(self, channel: str, *, paused: bool = True, why: str = "") -> None:
        """Take a channel out of service, or put it back. Raises LedgerUnavailable."""
        await self._change(SetPaused(channel, paused, why))

    async def pauses(self) -> list[PauseRow]:
        """The channels that are paused."""
        return await self._later(self._store.pauses)

    # -- lists --------------------------------------------------------------------------------------------------------

    async def requests(self, where: RequestFilter) -> list[RequestRecord]:
        """The newest requests that match; a client's own id is looked for as far as one is kept."""
        if where.client_request_id is not None:
            kept = where.client_request_id[: limits.CLIENT_REQUEST_ID_CHARS_MAX]
            where = replace(where, client_request_id=kept)
        return await self._later(self._store.requests, where)

    async def accounts(self) -> list[Account]:
        """Every account, by name."""
        return await self._later(self._store.accounts)

    async def keys(self, account_id: str | None = None) -> list[ApiKey]:
        """Every key (of one account), oldest first."""
        return await self._later(self._store.keys, account_id)

    async def entries(self, account_id: str, *, after_seq: int = 0, limit: int = 100) -> list[Entry]:
        """An account's entries behind `after_seq`, oldest first."""
        return await self._later(self._store.entries, account_id, after_seq, limit)

    async def last_entries(
        self, account_id: str | None = None, *, before_seq: int | None = None, limit: int = 100
    ) -> list[Entry]:
        """The newest entries (of one account) in front of `before_seq`, newest first."""
        return await self._later(self._store.last_entries, account_id, before_seq, limit)

    async def all_entries(
        self, account_id: str | None = None, *, since_ms: int = 0, until_ms: int
    ) -> AsyncGenerator[Entry, None]:
        """Every entry (of one account) made in that time, oldest first, a page in memory at a time."""
        after = 0
        while page := await self._later(
            self._store.entry_page, account_id, since_ms, until_ms, after, limits.EXPORT_PAGE_ROWS
        ):
            for entry in page:
                yield entry
            after = page[-1].seq

    async def all_requests(
        self, account_id: str | None = None, *, since_ms: int = 0, until_ms: int
    ) -> AsyncGenerator[RequestRecord, None]:
        """Every request (of one account) made in that time, oldest first, a page in memory at a time."""
        after = (0, "")
        while page := await self._later(
            self._store.request_page, account_id, since_ms, until_ms, after, limits.EXPORT_PAGE_ROWS
        ):
            for record in page:
                yield record
            after = (page[-1].created_at_ms, page[-1].id)

    async def purge(self, before_ms: int, limit: int = limits.PURGE_ROWS) -> int:
        """Forget the oldest records of requests from before; how many. Those that run stay, and so do all entries."""
        return await self._change(Purge(before_ms, limit))  # type: ignore[no-any-return]

    async def open_holds(self, owner: str | None = None) -> list[HoldRow]:
        """The open holds (of one owner)."""
        return await self._later(self._store.open_holds, owner)

    async def held_nanos(self) -> int:
        """What all open holds add up to."""
        return await self._later(self._store.held_nanos)

    async def open_since_ms(self) -> list[int]:
        """When each of the open holds was placed."""
        return await self._later(self._store.open_since_ms)

    async def owners(self) -> list[OwnerRow]:
        """Every process with a lease or an open hold."""
        return await self._later(self._store.owners)

    async def audit(self) -> AuditReport:
        """Recompute everything from the entries (`audit.audit`)."""
        return await self._later(self._audit)

    def _audit(self) -> AuditReport:
        with self._store.books() as books:
            return audit(books)

    async def schema_version(self) -> int:
        """The schema's version; opening the ledger brought it up to date."""
        return await self._later(self._store.schema_version)

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def reachable(self) -> bool:
        """False from a commit that failed until one that wrote something."""
        return self._writer.reachable

    @property
    def backlog(self) -> int:
        """Operations that wait for the writer."""
        return self._writer.backlog

    @property
    def batches(self) -> Histogram:
        """Operations in each transaction of the store, for `telemetry`."""
        return self._writer.sizes

    async def ping(self, timeout_s: float = 1.0) -> bool:
        """Can the ledger be written now? An empty transaction through the writer, which costs no disk flush, and the
        last write: the sweep makes one every few seconds."""
        ticket = await self._ask(Ping(), timeout_s)
        return self.reachable and not ticket.abandoned and not isinstance(ticket.answer, HoptrioError)

    async def renew(self) -> None:
        """Renew the lease of `owner`; it lasts `limits.LEASE_S`. Raises LedgerUnavailable."""
        if self.owner is not None:
            asked_at = trio.current_time()
            await self._change(Renew(self.owner))
            self._renewed_at = asked_at

    def _renew_if_late(self) -> None:
        """In front of a hold: to others the owner of a late lease may be dead, and then its new holds were orphans."""
        asked_at = trio.current_time()
        if self.owner is not None and asked_at - self._renewed_at >= limits.LEASE_S - limits.LEASE_RENEW_S:

            def renewed(ticket: Ticket) -> None:
                if not isinstance(ticket.answer, HoptrioError):
                    self._renewed_at = asked_at

            self._writer.submit(Ticket(Renew(self.owner), renewed))

    async def run_sweep(self, tell: Callable[[RequestRecord, str], None] | None = None) -> None:
        """Renew the own lease and release the holds of dead owners (`recover`), until cancelled. `tell` is given the
        request of each hold that was released so, with its account's name."""
        await Sweep(self, tell).run()

    async def release_all(self, releases: Sequence[Release]) -> list[Resolved | None]:
        """Apply releases in as few commits as may be; the answers in their order.

        Raises LedgerUnavailable if some are not confirmed within `limits.SETTLE_S`; they go on being tried.
        """
        tickets: dict[int, Ticket] = {}

        async def release(i: int) -> None:
            tickets[i] = await self._ask(releases[i], limits.SETTLE_S)

        for start in range(0, len(releases), limits.COMMIT_OPS_MAX):
            async with trio.open_nursery() as nursery:
                for i in range(start, min(start + limits.COMMIT_OPS_MAX, len(releases))):
                    nursery.start_soon(release, i)
        if any(ticket.abandoned for ticket in tickets.values()):
            raise LedgerUnavailable("the ledger did not confirm in time")
        return [tickets[i].take() for i in range(len(releases))]

    async def adopt(self) -> frozenset[str]:
        """Apply the journals that dead processes of this machine have left. The owners of those that are not applied
        yet, and of those that other processes have: no hold of these is known to be an orphan."""
        return await self._journals.adopt(self._writer)

    async def close(self) -> None:
        """Apply what is queued, then close the store. Nothing may be asked afterwards."""
        self._journals.close()
        await self._writer.close()
        await self._later(self._store.close)

    # -- how it is asked ----------------------------------------------------------------------------------------------

    async def _ask(
        self,
        operation: Operation,
        wait_s: float,
        late: Callable[[Ticket], None] | None = None,
        hasten: Callable[[Ticket], None] | None = None,
    ) -> Ticket:
        """The ticket, answered, or `abandoned` after `wait_s`; from then on `late` takes the answer when it comes.
        `hasten` is called if there is none after `limits.JOURNAL_S`."""
        answered = trio.Event()

        def done(ticket: Ticket) -> None:
            if not ticket.abandoned:
                answered.set()
            elif late is not None:
                late(ticket)

        ticket = Ticket(operation, done)
        self._writer.submit(ticket)
        until = trio.current_time() + wait_s
        if hasten is not None:
            with trio.move_on_after(limits.JOURNAL_S, shield=True):
                await answered.wait()
            if answered.is_set():
                return ticket
            hasten(ticket)
        with trio.move_on_at(until, shield=True):
            await answered.wait()
        ticket.abandoned = not answered.is_set()
        return ticket

    async def _change(self, operation: Operation) -> Any:
        """Apply an operator's change, and be certain whether it happened.

        After `limits.HOLD_S` the writer is asked to drop it, and the wait goes on for whether it could.
        """
        answered = trio.Event()
        ticket = Ticket(operation, lambda _: answered.set())
        self._writer.submit(ticket)
        with trio.move_on_after(limits.HOLD_S, shield=True):
            await answered.wait()
        ticket.abandoned = True
        with trio.move_on_after(limits.SETTLE_S, shield=True):
            await answered.wait()
        if not answered.is_set():
            raise LedgerUnavailable("the ledger does not answer; whether the change was made is not known")
        return ticket.take()

    async def _soon(self, read: Callable[..., T], *args: Any) -> T:
        """A point read: on the loop where it is quick, else in a thread that is given up on after `limits.HOLD_S`."""
        if self._store.reads_inline:
            await trio.lowlevel.checkpoint()
            return raised(_read(read, *args))
        with trio.move_on_after(limits.HOLD_S):
            return raised(
                await trio.to_thread.run_sync(_read, read, *args, abandon_on_cancel=True, limiter=self._readers)
            )
        raise LedgerUnavailable("the ledger did not answer in time", retry_after_s=1)

    async def _later(self, read: Callable[..., T], *args: Any) -> T:
        if self._store.inline:
            await trio.lowlevel.checkpoint()
            return raised(_read(read, *args))
        return raised(await trio.to_thread.run_sync(_read, read, *args))


def _read(read: Callable[..., T], *args: Any) -> T | LedgerUnavailable:
    """What it read. An error is a value, to be raised by who asked, and its cause has no traceback: a thread keeps what
    it returns in its frames, which a traceback keeps, and in an outage every request would leave that to the
    collector."""
    try:
        return read(*args)
    except StoreUnavailable as error:
        unavailable = LedgerUnavailable("the ledger cannot be read now")
        unavailable.__cause__ = StoreUnavailable(str(error))
        return unavailable


def _ignore(ticket: Ticket) -> None:
    pass


def _hash(secret: str) -> str:
    """Secrets are 256 random bits, so a plain hash cannot be reversed by guessing; a fixed one is for the demo."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _ref() -> str:
    return secrets.token_hex(16)
