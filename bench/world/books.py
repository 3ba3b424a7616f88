"""Books: a second ledger, kept from the operations alone, that every account of the store is compared with.

`Door` is the store as one gateway process has it: outages and lost answers happen there, and a process that was killed
finds it closed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hoptrio.errors import HoptrioError
from hoptrio.ledger.model import Hold, Placed, Resolution, Resolved
from hoptrio.ledger.operations import CreateAccount, Move, Release
from hoptrio.ledger.store import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from hoptrio.ledger.memory import MemoryStore
    from hoptrio.ledger.operations import Operation

_NANOS = 10**9
#: How often a commit meets another process's and is tried again a moment later, so that it takes time as a disk does.
_BUSY = 0.2


class Books:
    """Balances and open holds, and a check of every operation; `broken` is told what does not agree."""

    def __init__(
        self,
        store: MemoryStore,
        *,
        broken: Callable[[str, str], None],
        placed: Callable[[Hold], None],
        resolved: Callable[[str, Any], None],
    ) -> None:
        self._store = store
        self._broken = broken
        self._on_placed = placed
        self._on_resolved = resolved
        self.balances: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.open: dict[str, Hold] = {}
        self.holds: dict[str, Hold] = {}
        self.settlements = 0

    def applied(self, operations: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Take over what a store did, in its order."""
        for operation, answer in zip(operations, answers, strict=True):
            if isinstance(answer, HoptrioError):
                if isinstance(operation, Resolution):
                    self._broken(operation.hold_id, f"a settlement was refused: {answer}")
            elif isinstance(operation, Hold) and isinstance(answer, Placed):
                self._place(operation)
            elif isinstance(operation, Resolution | Release):
                self._resolve(operation, answer)
            elif isinstance(operation, CreateAccount):
                self.balances[answer.id] = self.balances.get(answer.id, 0) + operation.deposit_nanos
            elif isinstance(operation, Move):
                self.balances[answer.id] = self.balances.get(answer.id, 0) + operation.amount_nanos
        for operation in operations:
            if (hold := self.holds.get(_hold_id(operation))) is not None:
                self._compare(hold)

    def _place(self, hold: Hold) -> None:
        if hold.id in self.holds:
            self._broken(hold.id, "placed twice")
        self.holds[hold.id] = self.open[hold.id] = hold
        account = hold.request.account_id
        self.held[account] = self.held.get(account, 0) + hold.amount_nanos
        self._on_placed(hold)

    def _resolve(self, operation: Resolution | Release, answer: Resolved | None) -> None:
        if answer is None or not answer.first:
            return
        hold = self.open.pop(operation.hold_id, None)
        if hold is None:
            self._broken(operation.hold_id, "resolved twice, or never placed")
            return
        self.settlements += 1
        account, charge = hold.request.account_id, answer.charge_nanos
        wanted = operation.capture_nanos if isinstance(operation, Resolution) else None
        if not 0 <= charge <= hold.amount_nanos or charge != (wanted or 0):
            self._broken(hold.id, f"charged {charge} of {hold.amount_nanos}, asked for {wanted}")
        self.held[account] -= hold.amount_nanos
        self.balances[account] -= charge
        if hold.supplier and charge:
            supplier = self._store._account_ids[hold.supplier]
            share = charge * hold.revenue_share_nanos // _NANOS
            self.balances[supplier] = self.balances.get(supplier, 0) + share
        self._on_resolved(hold.id, operation)

    def _compare(self, hold: Hold) -> None:
        """The accounts a change touched, in the store and here."""
        for account_id in (hold.request.account_id, self._store._account_ids.get(hold.supplier, "")):
            row = self._store._accounts.get(account_id)
            if row is None:
                continue
            mine = self.balances.get(account_id, 0), self.held.get(account_id, 0)
            if (row.balance_nanos, row.held_nanos) != mine:
                self._broken(hold.id, f"{row.name} has {row.balance_nanos} with {row.held_nanos} held, not {mine}")
            if not 0 <= row.held_nanos <= row.balance_nanos:
                self._broken(hold.id, f"{row.name}: {row.held_nanos} held of {row.balance_nanos}")

    @staticmethod
    def prices_of(pinned: str) -> dict[str, Any]:
        """The standard table of what a hold pins."""
        return json.loads(pinned)["standard"]  # type: ignore[no-any-return]


def _hold_id(operation: Operation) -> str:
    if isinstance(operation, Hold):
        return operation.id
    return operation.hold_id if isinstance(operation, Resolution | Release) else ""


class Door:
    """One process's way to the store."""

    inline = True

    def __init__(self, store: MemoryStore, books: Books, rng: Random) -> None:
        self._store = store
        self._books = books
        self._rng = rng
        #: The process was killed: nothing of it arrives any more.
        self.dead = False
        #: Commits arrive, their answers do not.
        self.deaf = False
        #: Nothing can be written for now; reading goes on.
        self.locked = False

    @property
    def ill(self) -> bool:
        """Not everything is answered as on a quiet day."""
        return self.dead or self.deaf or self.locked

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        if self.dead:
            raise StoreUnavailable("the process is dead")
        if self.locked or self._rng.random() < _BUSY:
            raise StoreUnavailable("locked", busy=True)
        answers = self._store.apply(operations)
        self._books.applied(operations, answers)
        if self.deaf:
            raise StoreUnavailable("the answer was lost", uncertain=True)
        return answers

    def __getattr__(self, name: str) -> Any:
        if self.dead and name != "close":
            raise StoreUnavailable("the process is dead")
        return getattr(self._store, name)
