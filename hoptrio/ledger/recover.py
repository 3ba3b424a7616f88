"""Orphans: open holds whose gateway is dead are released, those of a live one never.

An owner is dead when its machine proves it (`owner.fate`), or when this process has watched its lease stand still for
`limits.LEASE_S`. Only what was watched counts: no two clocks are ever compared, so neither skew between nodes nor a
clock that jumps can kill anyone. Whenever the ledger could not be reached, or made this process wait, all watching
starts anew, since the others could not renew either; hence an outage gives every owner one whole lease before it is
called dead (contract page). A process that was cut off alone renews before it places another hold (`Ledger.place`), and
an owner's beat is read again behind the list of its holds: so no hold is taken that was placed after the silence.

What a dead process of this machine had settled is in its journal. So the journals are adopted between the moment when
an owner is found dead and the moment when its holds are called orphans, and an owner whose journal is not applied yet,
here or by another process, waits for the next look.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import HoptrioError, LedgerUnavailable
from hoptrio.ledger.model import RequestRecord
from hoptrio.ledger.operations import Release
from hoptrio.ledger.owner import Fate, fate, same_journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import HoldRow, OwnerRow

__all__ = ["Sweep", "recover"]

log = structlog.get_logger("hoptrio.ledger")


async def recover(ledger: Ledger) -> int:
    """One look at start: release the holds of owners that this machine proves dead. How many were released."""
    return await Sweep(ledger).once()


class Sweep:
    """Renews the lease of its own ledger's owner and releases the holds of dead ones.

    `tell` is given the request of each hold that it released, with its account's name: nobody else can tell of these.
    """

    def __init__(self, ledger: Ledger, tell: Callable[[RequestRecord, str], None] | None = None) -> None:
        self._ledger = ledger
        self._tell = tell
        #: Owner -> (its last beat seen, trio time when that beat was first seen).
        self._seen: dict[str, tuple[int, float]] = {}
        self._pause_s = 0.0

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self.once()
            await trio.sleep(self._pause_s)

    async def once(self) -> int:
        """Renew, look at every owner, adopt what the dead have left; the number of holds released."""
        self._pause_s = min(limits.LEASE_RENEW_S, limits.SWEEP_S)
        try:
            started = trio.current_time()
            await self._ledger.renew()
            if trio.current_time() - started > limits.LEDGER_RETRY_MAX_S:
                self._seen.clear()
            owners = await self._ledger.owners()
            self._seen = {owner.id: self._watch(owner) for owner in owners}
            dead = [owner.id for owner in owners if owner.open_holds and self._is_dead(owner)]
            settling = await self._ledger.adopt()
            return sum([await self._try_release(owner) for owner in dead if owner not in settling])
        except LedgerUnavailable:
            self._seen.clear()
            # Soon: others that could be reached meanwhile may be counting.
            self._pause_s = limits.LEDGER_RETRY_MAX_S
            return 0

    def _watch(self, owner: OwnerRow) -> tuple[int, float]:
        beat, since = self._seen.get(owner.id, (None, 0.0))
        return (owner.beat, since) if beat == owner.beat else (owner.beat, trio.current_time())

    def _is_dead(self, owner: OwnerRow) -> bool:
        if owner.id == self._ledger.owner:
            return False
        known = fate(owner.id)
        # Of a process with another journal nobody here knows what it had settled: its next start has a lease to tell.
        proven = known is Fate.DEAD and same_journal(owner.id, self._ledger.owner)
        stood_still = trio.current_time() - self._seen[owner.id][1] >= limits.LEASE_S
        return proven or (known is not Fate.ALIVE and stood_still)

    async def _try_release(self, owner: str) -> int:
        """A hold that the ledger cannot resolve is for the operator to look into (`ledger audit`); the others go on."""
        try:
            return await self._release(owner)
        except LedgerUnavailable:
            raise
        except HoptrioError as error:
            log.error("orphaned holds are not released", owner=owner, error=error.code, cause=repr(error.__cause__))
            return 0

    async def _release(self, owner: str) -> int:
        holds = await self._ledger.open_holds(owner)
        beats = {each.id: each.beat for each in await self._ledger.owners()}
        if beats.get(owner) != self._seen[owner][0]:
            return 0
        answers = await self._ledger.release_all([Release(hold.id, Reason.ORPHANED.value) for hold in holds])
        # Another process may have looked at the same time: each hold was released first by one.
        released = [hold for hold, answer in zip(holds, answers, strict=True) if answer is not None and answer.first]
        for hold in released:
            await self._tell_of(hold)
        return len(released)

    async def _tell_of(self, hold: HoldRow) -> None:
        if self._tell is None:
            return
        record, account = None, None
        with suppress(LedgerUnavailable):
            record = await self._ledger.request(hold.request_id)
            account = await self._ledger.account(hold.account_id)
        self._tell(record or _record(hold), account.name if account is not None else hold.account_id)


def _record(hold: HoldRow) -> RequestRecord:
    """What a hold alone says of its request."""
    return RequestRecord(
        id=hold.request_id,
        account_id=hold.account_id,
        key_id=hold.key_id,
        created_at_ms=hold.created_at_ms,
        protocol="",
        model="",
        contract="",
        stream=True,
        state="released",
        reason=Reason.ORPHANED.value,
        hold_nanos=hold.amount_nanos,
    )
