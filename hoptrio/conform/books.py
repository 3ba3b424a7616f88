"""Books: the money, of gateways that show it as hoptrio does: ``GET /v1/requests/{id}`` and ``GET /v1/account``.

Pure; `run` does the asking. Amounts are decimal strings and are compared exactly. Where a gateway shows nothing,
nothing is concluded.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.case import Charge, Free
from hoptrio.conform.verdict import Finding, Verdict, departs, differs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACCOUNTS", "Account", "AccountCase", "Books", "judge", "read_account"]

#: States of a request that is over.
_OVER = ("captured", "released", "refused")
_UNSEEN = Finding(Verdict.NOT_REACHABLE, "no stream has a record")
_PRODUCED = ("partial", "estimated")


class Account(msgspec.Struct, frozen=True):
    """What an account has, and how much of it is held."""

    balance: Decimal
    held: Decimal


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """The account before and after, the lowest balance seen between, and the records of all streams."""

    before: Account
    after: Account
    lowest: Decimal
    #: None: a stream whose id is known, and of which nothing is told.
    records: tuple[dict[str, Any] | None, ...]
    #: Streams whose client left before it learned an id.
    unknown: int


class AccountCase(msgspec.Struct, frozen=True):
    """A fault that shows in the account, after everything else."""

    number: int
    name: str
    fault: str
    right: str
    check: Callable[[Books], Finding | None]

    def as_dict(self) -> dict[str, Any]:
        """What is told of it."""
        return {"number": self.number, "name": self.name, "fault": self.fault, "right": self.right}


def read_account(value: Any) -> Account | None:
    """The account, if that is one."""
    try:
        return Account(Decimal(value["balance"]), Decimal(value["held"]))
    except (TypeError, KeyError, InvalidOperation, ValueError):
        return None


def judge(expected: Charge | Free, record: dict[str, Any] | None) -> Finding | None:
    """What is wrong with the record of one stream."""
    if record is None:
        return departs("no record of the request")
    if record.get("state") not in _OVER:
        return departs(f"the request is still {record.get('state')}")
    if isinstance(expected, Free):
        return _free(record)
    if record["state"] != "captured":
        return departs(f"{record['state']} instead of captured ({record.get('reason')})")
    usage = record.get("usage") or {}
    wrong = {name: usage.get(name) for name, count in expected.usage.items() if usage.get(name) != count}
    if wrong:
        return departs(f"charged by {wrong} instead of {expected.usage}")
    return None if Decimal(record["charge"]) > 0 else departs("captured, and nothing was charged")


def _free(record: dict[str, Any]) -> Finding | None:
    if record["state"] in ("released", "refused") and Decimal(record.get("charge") or 0) == 0:
        return None
    if record.get("evidence") in _PRODUCED:
        return differs("what was produced before the failure is charged")
    return departs(f"charged {record.get('charge')} for an answer that failed")


def _recorded(books: Books) -> Finding | None:
    if not books.records:
        return _UNSEEN
    missing = sum(record is None for record in books.records)
    return departs(f"{missing} of {len(books.records)} streams have no record") if missing else None


def _resolved(books: Books) -> Finding | None:
    if not books.records:
        return _UNSEEN
    states = [record.get("state") for record in books.records if record is not None]
    running = sum(state not in _OVER for state in states)
    if running:
        return departs(f"{running} of {len(states)} streams are never settled")
    return departs(f"{books.after.held} is still held") if books.after.held else None


def _never_negative(books: Books) -> Finding | None:
    return departs(f"the balance was {books.lowest}") if books.lowest < 0 else None


def _adds_up(books: Books) -> Finding | None:
    if not books.records:
        return _UNSEEN
    charged = sum((Decimal(record.get("charge") or 0) for record in books.records if record is not None), Decimal(0))
    paid = books.before.balance - books.after.balance
    if paid == charged or (books.unknown and paid > charged):
        return None
    return Finding(Verdict.FAIL, f"the balance fell by {paid}, and the charges are {charged}")


ACCOUNTS = (
    AccountCase(
        50,
        "streams without a record",
        "Streams whose client left are in no report of usage.",
        "There is a record of every stream, however it ended.",
        _recorded,
    ),
    AccountCase(
        72,
        "holds that are never resolved",
        "On some way out a hold is left, or resolved twice.",
        "Once all streams are over nothing is held, and each was settled.",
        _resolved,
    ),
    AccountCase(
        77,
        "a balance below zero",
        "A settlement overdraws the account.",
        "The balance was never negative.",
        _never_negative,
    ),
    AccountCase(
        78,
        "sums that drift",
        "Amounts are floats, and their sum drifts.",
        "The balance fell by exactly the sum of the charges (if nobody else uses the account).",
        _adds_up,
    ),
)
