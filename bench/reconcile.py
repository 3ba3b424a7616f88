"""Reconciliation: what the ledger says of each stream against what the client and the provider saw of it. Pure.

The charge is computed here by the contract's sentence (tokens times price per million, one ceil to a billionth) and
nothing of the gateway's own arithmetic. A stream is paid if and only if the provider sent all of it, whatever its
client did; the ledger's default contract releases every other one. Where processes are killed (`deaths`), what was a
dead one's is released as orphaned, however much of it the provider sent, and no client may have seen its end.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.books import Balance, Line
    from bench.job import Seen
    from bench.provider import Served

__all__ = ["Prices", "Reconciled", "charge_nanos", "reconcile", "reconcile_balance"]

_PER = 10**6
_WRONG_SHOWN = 20


class Prices(NamedTuple):
    """Billionths per million tokens."""

    input_nanos: int
    output_nanos: int


class Reconciled(msgspec.Struct, frozen=True):
    """Streams looked at, their charges together, and everything that does not fit (the first of it)."""

    streams: int
    captured: int
    released: int
    charged_nanos: int
    wrong: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return not self.wrong


def charge_nanos(input_tokens: int, output_tokens: int, prices: Prices) -> int:
    """What so many tokens cost."""
    millionths = input_tokens * prices.input_nanos + output_tokens * prices.output_nanos
    return -(-millionths // _PER)


def reconcile(
    seen: Iterable[Seen], served: Iterable[Served], lines: Iterable[Line], prices: Prices, *, deaths: bool = False
) -> Reconciled:
    """One run, stream by stream."""
    ours = {each.number: each for each in seen}
    theirs = {each.number: each for each in served}
    ledger = {each.number: each for each in lines}
    wrong = [f"stream {number}: {count} requests" for number, count in _repeated(lines)]
    wrong += [f"stream {number}: dispatched {count} times" for number, count in _repeated(served)]
    wrong += [f"stream {number}: in the ledger, and no client sent it" for number in ledger.keys() - ours.keys()]
    for number in sorted(ours):
        faults = _faults(ours[number], theirs.get(number), ledger.get(number), prices, deaths=deaths)
        wrong += [f"stream {number}: {fault}" for fault in faults]
    states = Counter(line.state for line in ledger.values())
    charged = sum(line.charge_nanos or 0 for line in ledger.values())
    if len(wrong) > _WRONG_SHOWN:
        wrong[_WRONG_SHOWN:] = [f"and {len(wrong) - _WRONG_SHOWN} more"]
    return Reconciled(len(ours), states["captured"], states["released"], charged, tuple(wrong))


def reconcile_balance(before: Balance, after: Balance, charged_nanos: int) -> Iterator[str]:
    """The account's change over a run is what its streams were charged, and nothing is held any more."""
    moved = before.balance_nanos - after.balance_nanos
    if moved != charged_nanos:
        yield f"the balance moved by {moved} and the streams were charged {charged_nanos}"
    if after.held_nanos:
        yield f"{after.held_nanos} are still held"


def _repeated(each: Iterable[Line | Served]) -> list[tuple[int, int]]:
    counts = Counter(one.number for one in each)
    return [(number, count) for number, count in counts.items() if count > 1]


def _faults(ours: Seen, theirs: Served | None, line: Line | None, prices: Prices, *, deaths: bool) -> Iterator[str]:
    if line is None:
        if theirs is not None:
            yield "the provider served it, and the ledger does not know it"
        elif ours.complete:
            yield "the client has an answer, and the ledger does not know it"
        return
    if ours.request_id and ours.request_id != line.request_id:
        yield f"the client was told {ours.request_id}, the ledger has {line.request_id}"
    orphaned = deaths and line.reason == "orphaned"
    if orphaned and ours.complete:
        yield "the client has a complete answer, and the ledger an orphan"
    if theirs is not None and theirs.outcome in ("open", "gone") and not orphaned:
        yield f"the provider was left: {theirs.outcome} after {theirs.events} events"
    sent = theirs is not None and theirs.outcome == "complete"
    if ours.complete and not sent:
        yield "the client has a complete answer that the provider did not send"
    paid = sent and not orphaned
    due = charge_nanos(theirs.input, theirs.output, prices) if paid and theirs is not None else 0
    yield from _unsettled(line, due, paid=paid)
    if paid and theirs is not None:
        yield from _miscounted(ours, theirs, line)


def _unsettled(line: Line, due_nanos: int, *, paid: bool) -> Iterator[str]:
    """State, charge, hold and entries must all tell the same; a late capture is an entry beside a hold's release."""
    if (line.state == "captured") != paid:
        yield f"{line.state}, and the provider was{'' if paid else ' not'} complete"
    if (line.charge_nanos or 0) != due_nanos:
        yield f"charged {line.charge_nanos}, due {due_nanos}"
    if line.moved_nanos != due_nanos:
        yield f"its entries moved {line.moved_nanos}, due {due_nanos}"
    if line.hold_state is None:
        if line.state != "refused":
            yield f"{line.state} without a hold"
        return
    held = ("released", 0) if "late_capture" in line.flags else (line.state, due_nanos)
    if (line.hold_state, line.hold_charge_nanos) != held:
        yield f"its hold is {line.hold_state} with {line.hold_charge_nanos}, due {due_nanos}"
    if line.hold_nanos < due_nanos:
        yield f"held {line.hold_nanos}, due {due_nanos}"


def _miscounted(ours: Seen, theirs: Served, line: Line) -> Iterator[str]:
    if (line.input, line.output) != (theirs.input, theirs.output):
        yield f"usage {line.input}/{line.output}, the provider sent {theirs.input}/{theirs.output}"
    told = (ours.input, ours.output)
    # Messages begins with a count that is not the last.
    if ours.complete and None not in told and told != (theirs.input, theirs.output):
        yield f"the client was told {ours.input}/{ours.output}, the provider sent {theirs.input}/{theirs.output}"
    # An answer in one piece has none.
    if ours.complete and theirs.events and ours.events != theirs.events:
        yield f"the client got {ours.events} events of {theirs.events}"
