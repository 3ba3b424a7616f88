"""The journal between a ledger and its writer: a settlement is synced to this machine's disk, confirmed, then applied.

`JournalWriter` is a `writer.Writer` in front of another one. It knows the holds that this process placed, so it can
reckon what the store will answer: a settlement of one of these is confirmed as soon as the journal has it, and applied
to the store behind that, in the batches that the writer makes. There is one path in good and bad times. Everything
else goes straight on. So does a settlement that the journal cannot take (a full disk), or has not taken within
`limits.JOURNAL_S`; it is confirmed by its commit then.

Two drivers write: `ThreadScribe` in a thread of its own (many settlements, one sync) and `InlineScribe` on the loop,
for a shelf that needs no waiting. Both call a `Scribe`, which has neither thread nor clock.

Invariants: what was confirmed is in the file until the store has it; what the store refuses stays in the file; a ticket
is answered once.
"""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import structlog
import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import HoptrioError
from hoptrio.ledger.journal import Settlement, as_record
from hoptrio.ledger.model import Hold, Placed, RequestRecord, Resolution, Resolved
from hoptrio.ledger.operations import Operation, Release
from hoptrio.ledger.rules import resolve_open, settled_record
from hoptrio.ledger.writer import Ticket, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hoptrio.ledger.shelf import AnyFile
    from hoptrio.telemetry.tally import Histogram

__all__ = ["InlineScribe", "JournalWriter", "ThreadScribe"]

log = structlog.get_logger("hoptrio.ledger")


class _Entry:
    """One settlement on its way. All but `record` belongs to the event loop."""

    __slots__ = ("answer", "applied", "durable", "reckoned", "record", "request", "settlement", "submitted", "tickets")

    def __init__(self, settlement: Settlement, hold: Hold, record: bytes) -> None:
        capture = settlement.capture_nanos if isinstance(settlement, Resolution) else None
        request = settlement.request if isinstance(settlement, Resolution) else hold.request
        reason = request.reason if isinstance(settlement, Resolution) else settlement.reason
        effect = resolve_open(hold.amount_nanos, hold.revenue_share_nanos, capture)
        self.settlement = settlement
        #: Its frame in the journal.
        self.record = record
        #: What the store will say, and the request as it will be.
        self.reckoned = Resolved(True, effect.charge_nanos, effect.flags)
        self.request: RequestRecord = settled_record(request, effect, reason, hold.amount_nanos)
        #: Who waits; the first of them settled it, the others again.
        self.tickets: list[Ticket] = []
        #: What they are told, once it is known.
        self.answer: Any = None
        #: In the journal; given to the store's writer; done there.
        self.durable = self.submitted = self.applied = False


class JournalWriter:
    """See the module. All of it is called on the event loop."""

    def __init__(
        self,
        inner: Writer,
        file: AnyFile,
        scribe: Callable[[Scribe, Callable[[Sequence[_Entry], bool], None]], ScribeDriver],
    ) -> None:
        """`scribe` is one of the two drivers."""
        self._inner = inner
        self._scribe = scribe(Scribe(file), self._written)
        #: Open holds that this process placed.
        self._holds: dict[str, Hold] = {}
        #: Hold id -> a settlement that is not applied yet.
        self._entries: dict[str, _Entry] = {}
        self._by_request: dict[str, _Entry] = {}
        self._by_provider_id: dict[str, _Entry] = {}
        self._bytes = 0

    @property
    def reachable(self) -> bool:
        return self._inner.reachable

    @property
    def backlog(self) -> int:
        return self._inner.backlog

    @property
    def sizes(self) -> Histogram:
        return self._inner.sizes

    @property
    def full(self) -> bool:
        """So much waits that no further hold should be placed."""
        return self._bytes >= limits.JOURNAL_BYTES_MAX

    def settled(self, request_id: str) -> RequestRecord | None:
        """The request as it will be, if it is journalled and not applied."""
        entry = self._by_request.get(request_id)
        return entry.request if entry is not None and entry.durable else None

    def owners_of(self, provider_ids: Iterable[str]) -> dict[str, tuple[str, str | None]]:
        """(account id, channel) of the provider-side ids among these whose settlement is journalled and not applied."""
        found = {each: self._by_provider_id[each] for each in provider_ids if each in self._by_provider_id}
        return {each: (entry.request.account_id, entry.request.channel) for each, entry in found.items()}

    # -- on its way ---------------------------------------------------------------------------------------------------

    def submit(self, ticket: Ticket) -> None:
        operation = ticket.operation
        if isinstance(operation, Hold):
            ticket.done = partial(self._placed, ticket.done)
            self._inner.submit(ticket)
        elif isinstance(operation, Resolution) and operation.hold_id in self._entries:
            self._repeat(self._entries[operation.hold_id], ticket)
        elif _is_settlement(operation) and operation.hold_id in self._holds:
            self._journal(operation, self._holds.pop(operation.hold_id), ticket)
        else:
            self._inner.submit(ticket)

    def _placed(self, done: Callable[[Ticket], None], ticket: Ticket) -> None:
        if isinstance(ticket.answer, Placed) and isinstance(ticket.operation, Hold):
            self._holds[ticket.operation.id] = ticket.operation
        done(ticket)

    def _repeat(self, entry: _Entry, ticket: Ticket) -> None:
        entry.tickets.append(ticket)
        if entry.answer is not None:
            _tell(ticket, _again(entry.answer))

    def _journal(self, settlement: Settlement, hold: Hold, ticket: Ticket) -> None:
        try:
            record = as_record(settlement)
        except Exception as error:
            # A value that msgpack does not have; the store may still take it, and will say so if not.
            log.error("a settlement has no record", request=hold.request.id, error=type(error).__name__)
            self._inner.submit(ticket)
            return
        entry = self._entries[settlement.hold_id] = _Entry(settlement, hold, record)
        entry.tickets.append(ticket)
        self._by_request[entry.request.id] = entry
        self._bytes += len(record)
        self._scribe.write(entry)

    def hasten(self, ticket: Ticket) -> None:
        """The disk takes too long for this settlement: let the store confirm it, if that is quicker."""
        entry = self._entries.get(getattr(ticket.operation, "hold_id", ""))
        if entry is not None and not entry.submitted:
            self._submit(entry)

    def _written(self, entries: Sequence[_Entry], durable: bool) -> None:
        for entry in entries:
            entry.durable = durable
            if durable and not entry.applied:
                self._by_provider_id |= dict.fromkeys(entry.request.provider_ids, entry)
                self._answer(entry, entry.reckoned)
            # Before the one who was answered runs again: what it does next must come behind this.
            if not entry.submitted:
                self._submit(entry)
            elif entry.applied and durable:
                self._scribe.applied(entry)

    def _submit(self, entry: _Entry) -> None:
        entry.submitted = True
        self._inner.submit(Ticket(entry.settlement, partial(self._applied, entry)))

    def _applied(self, entry: _Entry, ticket: Ticket) -> None:
        refused = isinstance(ticket.answer, HoptrioError)
        if refused and entry.durable:
            # Confirmed, and yet the store will not have it. The journal keeps it for whoever is to look into it.
            log.error("a journalled settlement was refused", request=entry.request.id, error=ticket.answer.code)
            return
        self._forget(entry)
        if entry.durable:
            self._scribe.applied(entry)
        self._answer(entry, ticket.answer)

    def _forget(self, entry: _Entry) -> None:
        entry.applied = True
        self._bytes -= len(entry.record)
        del self._entries[entry.settlement.hold_id]
        del self._by_request[entry.request.id]
        for provider_id in entry.request.provider_ids:
            if self._by_provider_id.get(provider_id) is entry:
                del self._by_provider_id[provider_id]

    def _answer(self, entry: _Entry, answer: Any) -> None:
        if entry.answer is not None:
            return
        entry.answer = answer
        first, *others = entry.tickets
        _tell(first, answer)
        for ticket in others:
            _tell(ticket, _again(answer))

    async def close(self) -> None:
        """Apply what is queued. What the store does not take within `limits.SETTLE_S` stays in the journal, for this
        machine's next process or one that runs."""
        with trio.move_on_after(limits.JOURNAL_S):
            await self._scribe.drain()
        for entry in [entry for entry in self._entries.values() if not entry.submitted]:
            self._submit(entry)
        try:
            await self._inner.close()
        finally:
            left = sum(entry.durable for entry in self._entries.values())
            if left:
                log.warning("settlements stay in the journal", settlements=left)
            with trio.move_on_after(limits.JOURNAL_S, shield=True):
                await self._scribe.close()


def _is_settlement(operation: Operation) -> TypeGuard[Settlement]:
    """A stream's own settlement. A release by hand is none: evidence may still come behind it."""
    by_us = isinstance(operation, Release) and operation.reason == Reason.NOT_DISPATCHED.value
    return by_us or isinstance(operation, Resolution)


def _again(answer: Any) -> Any:
    return Resolved(False, answer.charge_nanos, answer.flags) if isinstance(answer, Resolved) else answer


def _tell(ticket: Ticket, answer: Any) -> None:
    ticket.answer = answer
    ticket.done(ticket)


# -- who writes --------------------------------------------------------------------------------------------------------


class Scribe:
    """What is in the file, and what of it still counts."""

    def __init__(self, file: AnyFile) -> None:
        self._file = file
        #: In the file and not applied, oldest first.
        self._live: dict[_Entry, None] = {}
        self._live_bytes = 0
        #: Of applied ones, since the file was last emptied.
        self._dead_bytes = 0
        self._failing = False

    def write(self, entries: Sequence[_Entry]) -> bool:
        """All of them durable by one sync, or none."""
        try:
            if self._file.suspect:
                self._rewrite()
            self._file.append(b"".join(entry.record for entry in entries))
        except OSError as error:
            if not self._failing:
                log.error("the journal cannot be written; the database confirms alone", error=error.strerror)
            self._failing = True
            return False
        self._failing = False
        self._live |= dict.fromkeys(entries)
        self._live_bytes += sum(len(entry.record) for entry in entries)
        return True

    def applied(self, entries: Iterable[_Entry]) -> None:
        """These count no more. The file is made smaller when that gains enough."""
        for entry in entries:
            del self._live[entry]
            self._live_bytes -= len(entry.record)
            self._dead_bytes += len(entry.record)
        # At least half of the file goes, so that copying the rest is paid for by what was written.
        if self._dead_bytes >= max(limits.JOURNAL_RECLAIM_BYTES, self._live_bytes):
            with suppress(OSError):
                self._rewrite()

    def _rewrite(self) -> None:
        self._file.rewrite(b"".join(entry.record for entry in self._live))
        self._dead_bytes = 0

    def close(self) -> None:
        """Give the file up; it goes if nothing in it counts."""
        with suppress(OSError):
            self._file.close(keep=bool(self._live))


class ScribeDriver(Protocol):
    """What `JournalWriter` needs of a driver, which calls `written` on the loop: they were, or could not be."""

    def write(self, entry: _Entry) -> None: ...

    def applied(self, entry: _Entry) -> None: ...

    async def drain(self) -> None:
        """Until `written` was called for everything."""

    async def close(self) -> None: ...


class InlineScribe:
    """On the loop."""

    def __init__(self, scribe: Scribe, written: Callable[[Sequence[_Entry], bool], None]) -> None:
        self._scribe = scribe
        self._written = written

    def write(self, entry: _Entry) -> None:
        self._written([entry], self._scribe.write([entry]))

    def applied(self, entry: _Entry) -> None:
        self._scribe.applied([entry])

    async def drain(self) -> None:
        await trio.lowlevel.checkpoint()

    async def close(self) -> None:
        self._scribe.close()
        await trio.lowlevel.checkpoint()


class ThreadScribe:
    """A thread of its own. `_run` and what it calls belong to that, the rest to the event loop."""

    def __init__(self, scribe: Scribe, written: Callable[[Sequence[_Entry], bool], None]) -> None:
        self._scribe = scribe
        self._written = written
        #: Entries to write; in a tuple, one that is applied; an event to set when all before it is done; None ends it.
        self._inbox: queue.SimpleQueue[_Entry | tuple[_Entry] | trio.Event | None] = queue.SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._closed = trio.Event()
        # A daemon: a disk that hangs must not keep a process from exiting. The kernel gives its lock up.
        self._thread = threading.Thread(target=self._run, name="hoptrio-journal", daemon=True)
        self._thread.start()

    def write(self, entry: _Entry) -> None:
        self._inbox.put(entry)

    def applied(self, entry: _Entry) -> None:
        self._inbox.put((entry,))

    async def drain(self) -> None:
        drained = trio.Event()
        self._inbox.put(drained)
        await drained.wait()

    async def close(self) -> None:
        self._inbox.put(None)
        await self._closed.wait()
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            entries, applied, events, more = self._take()
            self._scribe.applied(applied)
            if entries:
                self._tell(self._written, entries, self._scribe.write(entries))
            for event in events:
                self._tell(event.set)
        self._scribe.close()
        self._tell(self._closed.set)

    def _take(self) -> tuple[list[_Entry], list[_Entry], list[trio.Event], bool]:
        """What has queued up while the last sync ran: to write, applied, to be told; and whether there will be more."""
        entries: list[_Entry] = []
        applied: list[_Entry] = []
        events: list[trio.Event] = []
        item = self._inbox.get()
        with suppress(queue.Empty):
            while item is not None:
                if isinstance(item, _Entry):
                    entries.append(item)
                elif isinstance(item, tuple):
                    applied += item
                else:
                    events.append(item)
                if len(entries) == limits.COMMIT_OPS_MAX:
                    return entries, applied, events, True
                item = self._inbox.get_nowait()
        return entries, applied, events, item is not None

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)
