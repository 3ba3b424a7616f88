"""Books: a second ledger, kept from the operations alone, by rules written down here once more.

Every answer of the store is compared with what these rules make of the operation, and every account that a commit
touched with the balances here: so limits, budgets, refusals, charges, late captures and shares are judged at the
commit, over all processes. Nothing here imports the product's rules.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from bench.world import checks
from hoptrio.errors import HoptrioError
from hoptrio.ledger.model import Hold, HoldRefused, Placed, Resolution, Resolved
from hoptrio.ledger.operations import CreateAccount, CreateKey, Move, Release, Renew, RevokeKey, SetDisabled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.world.checks import Checks
    from hoptrio.ledger.memory import MemoryStore
    from hoptrio.ledger.operations import Operation

_NANOS = 10**9
#: Releases that no gateway asked for: what it knows may still come.
_BY_OTHERS = ("orphaned", "operator")


@dataclass
class Row:
    """One hold as it stands here."""

    hold: Hold
    placed_at: float
    state: str = "open"
    reason: str | None = None
    charge_nanos: int = 0
    uncollected_nanos: int = 0
    late: bool = False
    #: Its gateway's own word was applied: a Resolution, or the release of a hold it had given up.
    answered: bool = False

    @property
    def account(self) -> str:
        return self.hold.request.account_id

    @property
    def key(self) -> str:
        return self.hold.request.key_id


class Observer:
    """What the books tell of: the world overrides these."""

    def hold_placed(self, row: Row) -> None: ...

    def hold_resolved(self, row: Row, operation: Resolution | Release) -> None:
        """The first resolution of an open hold."""

    def hold_answered(self, row: Row) -> None:
        """Its gateway's resolution is in the ledger, first or not."""

    def captured_late(self, row: Row) -> None: ...

    def renewed(self, owner: str) -> None: ...


class Books:
    """Balances, keys and holds, and a check of every operation."""

    def __init__(
        self,
        store: MemoryStore,
        checks: Checks,
        observer: Observer,
        now: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._checks = checks
        self._observer = observer
        self._now = now
        self._now_ms = now_ms
        self.balances: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        self.rows: dict[str, Row] = {}
        self.open: dict[str, Row] = {}
        #: Paid in, taken, and credited, of all accounts: money comes from nowhere else.
        self.moved_nanos = 0
        self.taken_nanos = 0
        self.shared_nanos = 0
        self.refusals: Counter[str] = Counter()
        self._keys: dict[str, CreateKey] = {}
        self._key_account: dict[str, str] = {}
        self._revoked: set[str] = set()
        self._disabled: set[str] = set()
        self._names: dict[str, str] = {}
        self._refs: set[str] = set()
        self._key_open: Counter[str] = Counter()
        self._key_held: Counter[str] = Counter()
        #: (key, period) -> captured in it; late captures apart, which no budget can refuse.
        self._spent: Counter[tuple[str, str]] = Counter()
        self._spent_late: Counter[tuple[str, str]] = Counter()

    def applied(self, operations: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Take over one commit, in its order, and look at what it touched."""
        touched: dict[str, None] = {}
        for operation, answer in zip(operations, answers, strict=True):
            for account in self._take(operation, answer):
                touched[account] = None
        for account in touched:
            self._compare(account)

    def _take(self, operation: Operation, answer: Any) -> tuple[str, ...]:
        """The accounts it touched."""
        if isinstance(operation, Hold):
            return self._hold(operation, answer)
        if isinstance(operation, Resolution | Release):
            return self._resolve(operation, answer)
        if isinstance(operation, Renew):
            self._observer.renewed(operation.owner)
        elif isinstance(answer, HoptrioError):
            self.refusals[type(answer).__name__] += 1
        elif isinstance(operation, CreateAccount):
            self._names[operation.name] = operation.id
            return self._moved(operation.id, operation.ref, operation.deposit_nanos)
        elif isinstance(operation, Move):
            return self._moved(answer.id, operation.ref, operation.amount_nanos)
        elif isinstance(operation, CreateKey):
            self._keys[operation.id] = operation
            self._key_account[operation.id] = answer.account.id
        elif isinstance(operation, RevokeKey):
            self._revoked.add(operation.id)
        elif isinstance(operation, SetDisabled):
            (self._disabled.add if operation.disabled else self._disabled.discard)(answer.id)
        return ()

    def _moved(self, account: str, ref: str, amount_nanos: int) -> tuple[str, ...]:
        """What is asked for twice, since its answer was lost, is done once."""
        if ref not in self._refs:
            self._refs.add(ref)
            self.balances[account] += amount_nanos
            self.moved_nanos += amount_nanos
        return (account,)

    # -- holds ------------------------------------------------------------------------------------------------------

    def _hold(self, hold: Hold, answer: Any) -> tuple[str, ...]:
        row = Row(hold, self._now())
        wanted = self._judge(row)
        got = (
            answer.why.value if isinstance(answer, HoldRefused) else "placed" if isinstance(answer, Placed) else answer
        )
        name = {"max_streams": checks.STREAMS, "budget": checks.BUDGET, "balance": checks.BALANCE}.get(wanted)
        self._checks.that(name or checks.REFUSED, got == wanted, f"hold {hold.id} is {got}, and should be {wanted}")
        if not isinstance(answer, Placed):
            self.refusals[str(got)] += 1
            return (row.account,)
        self._checks.that(checks.ONCE, hold.id not in self.rows, f"hold {hold.id} is placed twice")
        self.rows[hold.id] = self.open[hold.id] = row
        self.held[row.account] += hold.amount_nanos
        self._key_open[row.key] += 1
        self._key_held[row.key] += hold.amount_nanos
        self._within_limits(row.key)
        self._observer.hold_placed(row)
        return (row.account,)

    def _judge(self, row: Row) -> str:
        key = self._keys[row.key]
        amount = row.hold.amount_nanos
        if row.key in self._revoked:
            return "key_revoked"
        if row.account in self._disabled:
            return "account_disabled"
        if key.max_streams is not None and self._key_open[row.key] >= key.max_streams:
            return "max_streams"
        if key.budget_nanos is not None:
            period = row.key, self._period(row.key)
            used = self._spent[period] + self._spent_late[period] + self._key_held[row.key]
            if used + amount > key.budget_nanos:
                return "budget"
        return "balance" if self.held[row.account] + amount > self.balances[row.account] else "placed"

    def _within_limits(self, key_id: str) -> None:
        """A late capture may go beyond a budget: what it takes was spent before the hold was lost."""
        key = self._keys[key_id]
        if key.max_streams is not None:
            running = self._key_open[key_id]
            self._checks.that(checks.STREAMS, running <= key.max_streams, f"{running} streams of {key.max_streams}")
        if key.budget_nanos is not None:
            used = self._spent[key_id, self._period(key_id)] + self._key_held[key_id]
            self._checks.that(checks.BUDGET, used <= key.budget_nanos, f"{used} used of a budget of {key.budget_nanos}")

    def _period(self, key_id: str) -> str:
        day = datetime.fromtimestamp(self._now_ms() / 1000, UTC).strftime("%Y-%m-%d")
        return day if self._keys[key_id].budget_per == "day" else day[:7]

    # -- resolutions ------------------------------------------------------------------------------------------------

    def _resolve(self, operation: Resolution | Release, answer: Any) -> tuple[str, ...]:
        row = self.rows.get(operation.hold_id)
        if row is None:
            nothing = answer is None or (isinstance(answer, Resolved) and not answer.first)
            wanted = isinstance(operation, Resolution) and operation.capture_nanos is not None
            self._checks.that(checks.ONCE, nothing and not wanted, f"{operation.hold_id} was never placed: {answer}")
            return ()
        asked = operation.capture_nanos if isinstance(operation, Resolution) else None
        due = None if asked is None else min(asked, row.hold.amount_nanos)
        terms = operation.terms if isinstance(operation, Resolution) else None
        before = row.hold
        if terms is not None:
            row.hold = replace(before, supplier=terms.supplier, revenue_share_nanos=terms.revenue_share_nanos)
        if row.state == "open":
            first = self._first(row, operation, due)
        elif row.state == "released" and row.reason in _BY_OTHERS and not row.late and due is not None:
            first = self._late(row, due)
        else:
            first = False
            row.hold = before
        self._answered(row, operation)
        got = (answer.first, answer.charge_nanos) if isinstance(answer, Resolved) else answer
        self._tell(
            checks.ONCE, got == (first, row.charge_nanos), f"answered {got}, not {(first, row.charge_nanos)}", row
        )
        if first:
            self._tell_of(row, operation)
        supplier = self._names.get(row.hold.supplier)
        return (row.account,) if supplier is None else (row.account, supplier)

    def _first(self, row: Row, operation: Resolution | Release, due: int | None) -> bool:
        del self.open[row.hold.id]
        amount = row.hold.amount_nanos
        self.held[row.account] -= amount
        self._key_open[row.key] -= 1
        self._key_held[row.key] -= amount
        row.state = "released" if due is None else "captured"
        row.reason = operation.reason if isinstance(operation, Release) else operation.request.reason
        self._charge(row, due or 0, self._spent)
        return True

    def _late(self, row: Row, due: int) -> bool:
        taken = min(due, max(0, self.balances[row.account] - self.held[row.account]))
        row.late = True
        row.uncollected_nanos = due - taken
        self._charge(row, taken, self._spent_late)
        return True

    def _charge(self, row: Row, nanos: int, spent: Counter[tuple[str, str]]) -> None:
        row.charge_nanos = nanos
        self.taken_nanos += nanos
        self.balances[row.account] -= nanos
        if self._keys[row.key].budget_per is not None:
            spent[row.key, self._period(row.key)] += nanos
        share = nanos * row.hold.revenue_share_nanos // _NANOS
        if row.hold.supplier and share:
            opened = self._store.account(row.hold.supplier)
            assert opened is not None, "a share was credited"
            supplier = self._names.setdefault(row.hold.supplier, opened.id)
            self.balances[supplier] += share
            self.shared_nanos += share

    def _answered(self, row: Row, operation: Resolution | Release) -> None:
        given_up = isinstance(operation, Release) and operation.reason not in _BY_OTHERS
        if isinstance(operation, Resolution) or given_up:
            row.answered = True
            self._observer.hold_answered(row)

    def _tell_of(self, row: Row, operation: Resolution | Release) -> None:
        if row.late:
            self._observer.captured_late(row)
        else:
            self._observer.hold_resolved(row, operation)
            self._within_limits(row.key)

    # -- comparing --------------------------------------------------------------------------------------------------

    def _compare(self, account_id: str) -> None:
        """One account, in the store and here."""
        row = self._store._accounts.get(account_id)
        mine = self.balances[account_id], self.held[account_id]
        theirs = None if row is None else (row.balance_nanos, row.held_nanos)
        self._checks.that(checks.AGREES, theirs == mine, f"{account_id} has {theirs} (balance, held), not {mine}")
        if row is not None:
            within = 0 <= row.held_nanos <= row.balance_nanos
            self._checks.that(checks.BALANCE, within, f"{row.name}: {row.held_nanos} held of {row.balance_nanos}")

    def _tell(self, name: str, holds: bool, what: str, row: Row) -> None:
        self._checks.that(name, holds, f"hold {row.hold.id}: {what}")

    @staticmethod
    def prices_of(pinned: str) -> dict[str, Any]:
        """The standard table of what a hold pins."""
        return json.loads(pinned)["standard"]  # type: ignore[no-any-return]
