"""Group commit: many callers' operations in one durable transaction, in the order they came.

A `Batcher` is the logic, without thread or clock: it applies what it is given, keeps what is owed until it is done and
says how long to wait before the next attempt. Two drivers call it: `ThreadWriter` in a thread of its own (a commit
waits for the disk, and the event loop must not), and `InlineWriter` on the loop for stores that need no waiting. A
batch is whatever was queued while the last commit ran, and while much comes a little longer (`Pace`); where operations
are few none waits for others.

Invariants: an operation that is owed (`operations.is_owed`) is never dropped while the process lives; a hold is applied
at most once; every ticket is answered exactly once, on the event loop.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog
import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import HoptrioError, Internal, LedgerUnavailable
from hoptrio.ledger.model import Hold, Placed, Resolution, Resolved
from hoptrio.ledger.operations import BeginProbe, Operation, Ping, Release, is_owed
from hoptrio.ledger.store import Store, StoreUnavailable
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Batcher", "InlineWriter", "Pace", "ThreadWriter", "Ticket", "Writer", "raised"]


log = structlog.get_logger("hoptrio.ledger")

T = TypeVar("T")


class Ticket:
    """One operation on its way. `abandoned` is set by a caller that stopped waiting; the rest by the batcher."""

    __slots__ = ("abandoned", "answer", "done", "operation", "owed")

    def __init__(self, operation: Operation, done: Callable[[Ticket], None]) -> None:
        self.operation = operation
        #: Called on the event loop when `answer` is there.
        self.done = done
        self.abandoned = False
        #: It is tried again until it is done.
        self.owed = is_owed(operation)
        #: See `operations`; a `HoptrioError` value is for the caller to raise (`take`).
        self.answer: Any = None

    def take(self) -> Any:
        """The answer, which the ticket forgets, or raise it."""
        try:
            return raised(self.answer)
        finally:
            self.answer = None


class Batcher:
    """What is applied next, what is kept for later, and when."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: list[Ticket] = []
        #: 0 = nothing waits; else the pause before `commit` is called again.
        self.retry_s = 0.0
        self.reachable = True
        #: Operations in each transaction.
        self.sizes = Histogram(BATCH_OPERATIONS)

    @property
    def kept(self) -> int:
        """Operations that wait for another attempt."""
        return len(self._kept)

    def commit(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Apply what was kept and `tickets`, at most `limits.COMMIT_OPS_MAX` at once; the tickets now answered."""
        waiting = [*self._kept, *tickets]
        self._kept = []
        answered: list[Ticket] = []
        written = False
        while waiting:
            batch = [ticket for ticket in waiting[: limits.COMMIT_OPS_MAX] if not _dropped(ticket, answered)]
            waiting = waiting[limits.COMMIT_OPS_MAX :]
            try:
                self._apply(batch, answered)
                written |= any(map(_wrote, batch))
            except StoreUnavailable as error:
                done = set(answered)
                self._fail([ticket for ticket in batch if ticket not in done] + waiting, error, answered)
                return answered
        self.retry_s = 0.0
        # A full disk still lets a transaction through that writes nothing.
        if written and not self.reachable:
            self.reachable = True
            log.info("the ledger can be written again", kept=len(self._kept))
        return answered

    def _apply(self, batch: list[Ticket], answered: list[Ticket]) -> None:
        try:
            answers = self._store.apply([ticket.operation for ticket in batch])
        except StoreUnavailable:
            raise
        except Exception:
            self._one_by_one(batch, answered)
            return
        self.sizes.observe(len(batch))
        for ticket, answer in zip(batch, answers, strict=True):
            ticket.answer = answer
        answered += batch

    def _one_by_one(self, batch: list[Ticket], answered: list[Ticket]) -> None:
        """One operation has a bug: the others must not fail with it."""
        for ticket in batch:
            try:
                [ticket.answer] = self._store.apply([ticket.operation])
            except StoreUnavailable:
                raise
            except Exception as error:
                ticket.answer = Internal("the ledger could not apply an operation")
                ticket.answer.__cause__ = error
            answered.append(ticket)

    def _fail(self, batch: list[Ticket], error: StoreUnavailable, answered: list[Ticket]) -> None:
        """Keep what is owed, and behind a short lock everything; answer the rest.

        After a commit that may have happened everything is owed, since only its repetition tells: all operations but
        holds may be repeated. A hold's caller must not wait for that, so its hold is made void instead.
        """
        if self.reachable:
            self.reachable = False
            log.warning("the ledger cannot be written", error=str(error))
        self.retry_s = min(max(2 * self.retry_s, limits.LEDGER_RETRY_MIN_S), limits.LEDGER_RETRY_MAX_S)
        for ticket in batch:
            is_hold = isinstance(ticket.operation, Hold)
            ticket.owed |= error.uncertain and not is_hold
            if ticket.owed or error.busy:
                self._kept.append(ticket)
                continue
            ticket.answer = LedgerUnavailable("the ledger cannot be written now")
            answered.append(ticket)
            if error.uncertain:
                self._kept.append(_void(ticket.operation))


def _wrote(ticket: Ticket) -> bool:
    """Applying it changed something: not so a ping, a refused hold, a hold that was resolved before or never was, or a
    probe that is another's."""
    answer = ticket.answer
    if isinstance(ticket.operation, BeginProbe):
        return answer is True
    if isinstance(ticket.operation, Hold | Resolution | Release):
        return isinstance(answer, Placed) or (isinstance(answer, Resolved) and answer.first)
    return not isinstance(ticket.operation, Ping) and not isinstance(answer, HoptrioError)


def _dropped(ticket: Ticket, answered: list[Ticket]) -> bool:
    """Nobody waits for it and it is not owed: answer it without applying it."""
    if not ticket.abandoned or ticket.owed:
        return False
    ticket.answer = LedgerUnavailable("the ledger did not answer in time")
    answered.append(ticket)
    return True


def _void(hold: Operation) -> Ticket:
    """A hold whose caller was told that it failed must not exist, whatever became of the commit."""
    assert isinstance(hold, Hold)
    return Ticket(Release(hold.id, Reason.NOT_DISPATCHED.value), lambda _: None)


class Pace:
    """When the next commit begins: at once while there is little to write, and `limits.COMMIT_EVERY_S` after the last
    one while more than `limits.COMMIT_ALONE_HZ` operations a second come (a bucket that leaks so fast holds more than
    `limits.COMMIT_ALONE_OPS`). An operation alone costs SQLite 190 us of CPU, most of it for pages that a commit writes
    once for any number, and the thread a wake-up; of eight each costs 65. Where they are few nobody has to wait for
    that: the CPU is there."""

    def __init__(self) -> None:
        self._due = 0.0
        self._level = 0.0
        self._at = 0.0

    def wait_s(self, now: float) -> float:
        """How long operations still gather for a commit at the monotonic time `now`."""
        return max(0.0, self._due - now)

    def began(self, now: float, operations: int) -> None:
        """A commit of so many began."""
        self._level = max(0.0, self._level - (now - self._at) * limits.COMMIT_ALONE_HZ) + operations
        self._at = now
        self._due = now + limits.COMMIT_EVERY_S if self._level > limits.COMMIT_ALONE_OPS else now


class Writer(Protocol):
    """What `ledger.Ledger` needs of a driver; all of it is called on the event loop."""

    @property
    def reachable(self) -> bool:
        """False from a failed attempt until the next one that succeeds."""

    @property
    def backlog(self) -> int:
        """Operations that wait."""

    @property
    def sizes(self) -> Histogram:
        """Operations in each transaction of the store."""

    def submit(self, ticket: Ticket) -> None:
        """Queue it; `ticket.done` is called when it is answered."""

    async def close(self) -> None:
        """Apply what is queued; give up on what the store does not take within `limits.SETTLE_S`."""


class ThreadWriter:
    """A writer thread. `submit` belongs to the event loop, `_run` and everything it calls to the thread."""

    def __init__(self, store: Store) -> None:
        self._batcher = Batcher(store)
        self._pace = Pace()
        #: Set when the writer closes.
        self._hurry = threading.Event()
        self._inbox: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._closed = trio.Event()
        # A daemon, so that a disk that hangs cannot keep a process from exiting; what it loses is swept as orphaned.
        self._thread = threading.Thread(target=self._run, name="hoptrio-ledger", daemon=True)
        self._thread.start()

    @property
    def reachable(self) -> bool:
        return self._batcher.reachable

    @property
    def backlog(self) -> int:
        return self._inbox.qsize() + self._batcher.kept

    @property
    def sizes(self) -> Histogram:
        return self._batcher.sizes

    def submit(self, ticket: Ticket) -> None:
        self._inbox.put(ticket)

    async def close(self) -> None:
        self._inbox.put(None)
        self._hurry.set()
        await self._closed.wait()
        self._thread.join()

    def _run(self) -> None:
        closing_at = None
        while closing_at is None or (self._batcher.kept and time.monotonic() < closing_at + limits.SETTLE_S):
            tickets, closing = self._take()
            if closing:
                closing_at = time.monotonic()
            self._pace.began(time.monotonic(), len(tickets))
            answered = self._batcher.commit(tickets)
            if answered:
                self._tell(_answer, answered)
        self._tell(self._closed.set)

    def _take(self) -> tuple[list[Ticket], bool]:
        """What is queued, after waiting for the first of it; and whether the writer is to close after that."""
        tickets: list[Ticket] = []
        # Not behind the first: who puts one where nobody waits wakes nobody, and saves two switches of threads.
        self._hurry.wait(self._pace.wait_s(time.monotonic()))
        try:
            ticket = self._inbox.get(timeout=self._batcher.retry_s or None)
            while ticket is not None:
                tickets.append(ticket)
                if len(tickets) == limits.COMMIT_OPS_MAX:
                    return tickets, False
                ticket = self._inbox.get_nowait()
        except queue.Empty:
            return tickets, False
        return tickets, True

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        # Once the loop has finished there is nobody left to be told.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)


class InlineWriter:
    """A writer without a thread: an operation is applied as it is submitted, and what is owed tried again by `run`."""

    def __init__(self, store: Store) -> None:
        self._batcher = Batcher(store)
        self._stalled = trio.Event()

    @property
    def reachable(self) -> bool:
        return self._batcher.reachable

    @property
    def backlog(self) -> int:
        return self._batcher.kept

    @property
    def sizes(self) -> Histogram:
        return self._batcher.sizes

    def submit(self, ticket: Ticket) -> None:
        self._commit([ticket])

    def _commit(self, tickets: list[Ticket]) -> None:
        _answer(self._batcher.commit(tickets))
        if self._batcher.kept:
            self._stalled.set()

    async def run(self) -> None:
        """Try what is kept again until cancelled."""
        while True:
            await self._stalled.wait()
            await trio.sleep(self._batcher.retry_s)
            self._stalled = trio.Event()
            self._commit([])

    async def close(self) -> None:
        with trio.move_on_after(limits.SETTLE_S, shield=True):
            while self._batcher.kept:
                await trio.sleep(self._batcher.retry_s)
                self._commit([])


def raised(answer: T | HoptrioError) -> T:
    """`answer`, unless it is an error to raise."""
    if not isinstance(answer, HoptrioError):
        return answer
    try:
        raise answer
    finally:
        # Its traceback has this frame: with the name it were a cycle, which stays until the collector looks.
        del answer


def _answer(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.done(ticket)
