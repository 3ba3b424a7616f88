"""The journals of this machine, as a ledger has them: what is settled there and not in the store yet, and the adoption
of those whose process is dead.

Adoption is replay: each settlement goes through the store's writer once more, in its order. Whatever was applied before
is applied no second time (`Resolved.first` is False), a hold that was released meanwhile becomes a late capture, both
by the store's own rules. A file goes when all of it is applied. One with damage, or with a settlement that the store
refuses, is set aside and told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import trio

from hoptrio import limits
from hoptrio.errors import HoptrioError
from hoptrio.ledger.rules import resolve_open, settled_record
from hoptrio.ledger.writer import Ticket, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.ledger.journal import Contents
    from hoptrio.ledger.journal_writer import JournalWriter
    from hoptrio.ledger.model import RequestRecord
    from hoptrio.ledger.shelf import AnyLeft, AnyShelf

__all__ = ["Journals"]

log = structlog.get_logger("hoptrio.ledger")

T = TypeVar("T")


class Journals:
    """All of it belongs to the event loop. Without a shelf there is no journal, and nothing in any."""

    def __init__(self, shelf: AnyShelf | None = None, own: JournalWriter | None = None) -> None:
        self._shelf = shelf
        self._own = own
        #: Locked by us and not done with yet, by name.
        self._adoptions: dict[str, _Adoption] = {}

    # -- what is settled ----------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """So much waits in the own journal that no further hold should be placed."""
        return self._own is not None and self._own.full

    def hasten(self, ticket: Ticket) -> None:
        """See `JournalWriter.hasten`."""
        if self._own is not None:
            self._own.hasten(ticket)

    def settled(self, request_id: str) -> RequestRecord | None:
        """The request as it will be, if the own journal has its settlement and the store has not."""
        return None if self._own is None else self._own.settled(request_id)

    async def search_settled(self, record: RequestRecord) -> RequestRecord:
        """`record`, which runs as far as the store knows, or what any journal makes of it."""
        for resolution in await self._call("search", [record.id], default=[]):
            if resolution.request.id == record.id:
                effect = resolve_open(record.hold_nanos, 0, resolution.capture_nanos)
                return settled_record(resolution.request, effect, resolution.request.reason, record.hold_nanos)
        return record

    def owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """(account id, channel) of the provider-side ids that the own journal has and the store has not."""
        return {} if self._own is None else self._own.owners_of(provider_ids)

    async def search_owners_of(self, provider_ids: Sequence[str]) -> dict[str, tuple[str, str | None]]:
        """The same from any journal."""
        found = [resolution.request for resolution in await self._call("search", provider_ids, default=[])]
        return {
            each: (request.account_id, request.channel)
            for request in found
            for each in request.provider_ids
            if each in provider_ids
        }

    # -- adoption -----------------------------------------------------------------------------------------------------

    async def adopt(self, writer: Writer) -> frozenset[str]:
        """Take over what dead processes have left, and go on with what was not finished; the owners of journals that
        are not applied: waiting here, or in the hands of other processes."""
        left, busy = await self._call("left", default=([], frozenset()))
        for each in left:
            # From here on `close` gives it up, whatever becomes of us.
            self._adoptions[each.name] = _Adoption(each)
        # No longer, or the own lease would stand still.
        ours = list(self._adoptions.items())
        with trio.move_on_after(limits.SWEEP_S):
            for name, adoption in ours:
                if await adoption.go_on(self._run, writer):
                    del self._adoptions[name]
        settled = {adoption.owner for _, adoption in ours if adoption.applied}
        waiting = {adoption.owner for _, adoption in ours if adoption.owner is not None and not adoption.applied}
        return frozenset((busy - settled) | waiting)

    def close(self) -> None:
        """Give up what is not done; whoever comes next begins it anew."""
        for adoption in self._adoptions.values():
            adoption.left.leave()
        self._adoptions.clear()

    async def _call(self, method: str, *args: Any, default: Any) -> Any:
        return default if self._shelf is None else await self._run(getattr(self._shelf, method), *args)

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        """Disks may wait."""
        if self._shelf is not None and not self._shelf.inline:
            return await trio.to_thread.run_sync(function, *args)
        await trio.lowlevel.checkpoint()
        return function(*args)


class _Adoption:
    """One journal of a dead process on its way into the store."""

    def __init__(self, left: AnyLeft) -> None:
        self.left = left
        self.owner: str | None = None
        #: The store has all of it, or has refused it.
        self.applied = False
        self._contents: Contents | None = None
        self._position = 0
        self._first = self._refused = 0
        self._outstanding = 0
        self._answered = trio.Event()

    async def go_on(self, run: Callable[..., Any], writer: Writer) -> bool:
        """Apply and take off the shelf; cancelled, the next call goes on. False: its disk fails."""
        try:
            if self._contents is None:
                self._contents = await run(self.left.read)
                self.owner = self._contents.owner
            await self._apply(self._contents, writer)
            await self._finish(run, self._contents)
        except OSError as error:
            log.error("a journal cannot be adopted now", journal=self.left.name, error=error.strerror)
            return False
        return True

    async def _apply(self, contents: Contents, writer: Writer) -> None:
        """A batch at a time, so that those who wait for a hold do not wait for all of it."""
        while self._outstanding or self._position < len(contents.settlements):
            if not self._outstanding:
                batch = contents.settlements[self._position : self._position + limits.COMMIT_OPS_MAX]
                self._position += len(batch)
                self._outstanding, self._answered = len(batch), trio.Event()
                for settlement in batch:
                    writer.submit(Ticket(settlement, self._done))
            await self._answered.wait()
        self.applied = True

    def _done(self, ticket: Ticket) -> None:
        self._refused += isinstance(ticket.answer, HoptrioError)
        self._first += getattr(ticket.answer, "first", False)
        self._outstanding -= 1
        if not self._outstanding:
            self._answered.set()

    async def _finish(self, run: Callable[..., Any], contents: Contents) -> None:
        facts = {"journal": self.left.name, "settlements": len(contents.settlements), "new": self._first}
        if contents.damaged or self._refused:
            await run(self.left.set_aside)
            log.error("a journal is set aside", **facts, damaged=contents.damaged, refused=self._refused)
        else:
            await run(self.left.remove)
            log.info("journal adopted", **facts)
