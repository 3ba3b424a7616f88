"""What the records of a gateway say of the money, and what is wrong with it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hoptrio.conform.books import ACCOUNTS, Account, Books, judge, read_account
from hoptrio.conform.case import FREE, Charge
from hoptrio.conform.verdict import Verdict

PAID = Charge(usage={"input_tokens": 5, "output_tokens": 7})
CAPTURED = {"state": "captured", "usage": {"input_tokens": 5, "output_tokens": 7}, "charge": "0.1", "evidence": "x"}
RELEASED = {"state": "released", "usage": None, "charge": "0", "evidence": "none", "reason": "truncated"}


@pytest.mark.parametrize(
    ("expected", "record", "words"),
    [
        (PAID, CAPTURED, ""),
        (PAID, CAPTURED | {"charge": "0"}, "nothing was charged"),
        (PAID, CAPTURED | {"usage": {"input_tokens": 5, "output_tokens": 1}}, "charged by {'output_tokens': 1}"),
        (PAID, RELEASED, "released instead of captured (truncated)"),
        (PAID, None, "no record"),
        (PAID, CAPTURED | {"state": "running"}, "still running"),
        (FREE, RELEASED, ""),
        (FREE, CAPTURED, "charged 0.1 for an answer that failed"),
        (FREE, CAPTURED | {"evidence": "estimated"}, "what was produced before the failure is charged"),
    ],
)
def test_a_record_is_what_is_expected_or_it_is_said_what_is_wrong(expected, record, words):
    found = judge(expected, record)
    assert (words in found.words) if words else found is None


def test_a_charge_for_what_was_produced_is_a_choice():
    assert judge(FREE, CAPTURED | {"evidence": "partial"}).verdict is Verdict.POLICY


@pytest.mark.parametrize("value", [None, [], {}, {"balance": "1"}, {"balance": "x", "held": "0"}])
def test_what_is_no_account_is_none(value):
    assert read_account(value) is None


def books(*, before="10", after="9.8", held="0", lowest="9.8", records=(CAPTURED, CAPTURED, RELEASED), unknown=0):
    return Books(
        before=Account(Decimal(before), Decimal(0)),
        after=Account(Decimal(after), Decimal(held)),
        lowest=Decimal(lowest),
        records=records,
        unknown=unknown,
    )


def found_in(these):
    return {case.number for case in ACCOUNTS if case.check(these) is not None}


@pytest.mark.parametrize(
    ("these", "numbers"),
    [
        (books(), set()),
        (books(records=(CAPTURED, CAPTURED, None)), {50}),
        (books(held="0.5"), {72}),
        (books(records=(CAPTURED, CAPTURED, {"state": "running", "charge": None})), {72}),
        (books(lowest="-0.1"), {77}),
        (books(after="9.8000000001"), {78}),
        (books(after="9.7"), {78}),
        (books(after="9.7", unknown=1), set()),
        (books(after="9.9", unknown=1), {78}),
    ],
)
def test_the_account_shows_what_is_wrong_with_all_streams_together(these, numbers):
    assert found_in(these) == numbers


def test_an_account_without_records_shows_nothing():
    empty = books(records=(), unknown=3)
    assert {case.number for case in ACCOUNTS if case.check(empty) is None} == {77}
    assert {found.verdict for case in ACCOUNTS if (found := case.check(empty))} == {Verdict.NOT_REACHABLE}
