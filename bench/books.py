"""Books: what a gateway's ledger says of a run, read from its database with SQL of our own.

Nothing of the gateway's code is used, so that a mistake of it cannot hide itself here.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Balance", "Books", "Line"]

_REQUESTS = """
SELECT r.client_request_id, r.id, r.state, r.usage, r.charge_nanos, h.state, h.charge_nanos, h.amount_nanos,
       r.reason, r.flags,
       (SELECT coalesce(sum(e.amount_nanos), 0) FROM entries e WHERE e.hold_id = h.id AND e.account_id = r.account_id)
  FROM requests r LEFT JOIN holds h ON h.request_id = r.id
 WHERE r.client_request_id >= ? AND r.client_request_id < ?
"""
_POLL_S = 0.05


class Line(NamedTuple):
    """A request and its hold, as the ledger has them. `moved_nanos` is what its entries took from the balance."""

    number: int
    request_id: str
    state: str
    input: int | None
    output: int | None
    charge_nanos: int | None
    hold_state: str | None
    hold_charge_nanos: int
    hold_nanos: int
    moved_nanos: int
    reason: str | None = None
    flags: tuple[str, ...] = ()


class Balance(NamedTuple):
    """The one account."""

    balance_nanos: int
    held_nanos: int


class Books(NamedTuple):
    """A ledger in a file of SQLite's or at an address of PostgreSQL's, of one account that was given `deposit_nanos`;
    prices are per million tokens."""

    path: Path | str
    deposit_nanos: int
    input_nanos: int
    output_nanos: int

    def lines(self, run: int, call: str = "bench") -> list[Line]:
        """All requests of a run, by what their callers' ids begin with."""
        # ":" is the character behind the digits.
        return [_line(row) for row in self.rows(_REQUESTS, (f"{call}-{run}-", f"{call}-{run}-:"))]

    def balance(self) -> Balance:
        """As it stands."""
        return Balance(*self.rows("SELECT balance_nanos, held_nanos FROM accounts")[0])

    def captured_nanos(self) -> int:
        """The sum of all that the entries took."""
        query = "SELECT coalesce(sum(amount_nanos), 0) FROM entries WHERE kind NOT IN ('deposit', 'adjust')"
        return -int(self.rows(query)[0][0])

    def settled(self, within_s: float) -> bool:
        """Wait until no hold is open; False if one still is."""
        until = time.monotonic() + within_s
        while self.balance().held_nanos:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        return True

    def rows(self, query: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        """What a query says, its values marked as SQLite's are."""
        if isinstance(self.path, Path):
            with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)) as database:
                return database.execute(query, values).fetchall()
        import psycopg

        with psycopg.connect(self.path) as connection:
            # The queries are this file's own.
            return connection.execute(query.replace("?", "%s").encode(), values).fetchall()


def _line(row: tuple[Any, ...]) -> Line:
    call, request_id, state, usage, charge, hold_state, hold_charge, hold, reason, flags, moved = row
    counts = json.loads(usage) if usage else {}
    return Line(
        number=int(call.rpartition("-")[2]),
        request_id=request_id,
        state=state,
        input=counts.get("input_tokens"),
        output=counts.get("output_tokens"),
        charge_nanos=charge,
        hold_state=hold_state,
        hold_charge_nanos=hold_charge or 0,
        hold_nanos=hold or 0,
        moved_nanos=-int(moved),
        reason=reason,
        flags=tuple(json.loads(flags)),
    )
