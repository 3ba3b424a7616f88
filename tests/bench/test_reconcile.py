"""A unit that is wrong anywhere is found: every single change of a right account of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.books import Balance, Line
from bench.job import Seen
from bench.provider import Served
from bench.reconcile import Prices, charge_nanos, reconcile, reconcile_balance

PRICES = Prices(1_234_567_891, 9_876_543_217)
#: ceil((17 x 1234567891 + 40 x 9876543217) / 1000000)
DUE = 416_050


@dataclass(frozen=True)
class Account:
    """A run in which one stream was paid, one cut by the provider, and one whose client left."""

    seen: tuple[Seen, ...] = (
        Seen(number=0, request_id="req_0", status=200, events=40, complete=True, input=17, output=40),
        Seen(number=1, request_id="req_1", status=200, events=3, error="truncated"),
        Seen(number=2, request_id="req_2", status=200, events=3, left=True),
    )
    served: tuple[Served, ...] = (
        Served(0, 17, 40, 40, "complete"),
        Served(1, 17, 40, 3, "cut"),
        Served(2, 17, 40, 40, "complete"),
    )
    lines: tuple[Line, ...] = (
        Line(0, "req_0", "captured", 17, 40, DUE, "captured", DUE, 10**6, DUE),
        Line(1, "req_1", "released", None, None, 0, "released", 0, 10**6, 0),
        Line(2, "req_2", "captured", 17, 40, DUE, "captured", DUE, 10**6, DUE),
    )
    wrong: list[str] = field(default_factory=list)

    def faults(self) -> tuple[str, ...]:
        return reconcile(self.seen, self.served, self.lines, PRICES).wrong

    def with_line(self, number: int, **changes: Any) -> Account:
        lines = tuple(each._replace(**changes) if each.number == number else each for each in self.lines)
        return replace(self, lines=lines)

    def with_served(self, number: int, **changes: Any) -> Account:
        served = (msgspec.structs.replace(each, **changes) if each.number == number else each for each in self.served)
        return replace(self, served=tuple(served))

    def with_seen(self, number: int, **changes: Any) -> Account:
        seen = (msgspec.structs.replace(each, **changes) if each.number == number else each for each in self.seen)
        return replace(self, seen=tuple(seen))


def test_the_right_account_has_no_fault() -> None:
    found = reconcile(Account().seen, Account().served, Account().lines, PRICES)
    assert found.right
    assert (found.streams, found.captured, found.released, found.charged_nanos) == (3, 2, 1, 2 * DUE)


def test_a_charge_is_rounded_up_once() -> None:
    assert charge_nanos(17, 40, PRICES) == DUE
    assert charge_nanos(0, 0, PRICES) == 0
    assert charge_nanos(1, 0, Prices(1, 1)) == 1


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_charge_is_the_least_whole_unit_that_covers_it(inputs: int, outputs: int) -> None:
    found = charge_nanos(inputs, outputs, PRICES) * 10**6
    exact = inputs * PRICES.input_nanos + outputs * PRICES.output_nanos
    assert exact <= found < exact + 10**6


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("off", [-1, 1])
@pytest.mark.parametrize("member", ["charge_nanos", "hold_charge_nanos", "moved_nanos"])
def test_a_unit_more_or_less_is_found(number: int, off: int, member: str) -> None:
    assert len(Account().with_line(number, **{member: DUE + off}).faults()) == 1


@pytest.mark.parametrize("member", ["charge_nanos", "hold_charge_nanos", "moved_nanos"])
def test_a_released_stream_that_paid_a_unit_is_found(member: str) -> None:
    assert len(Account().with_line(1, **{member: 1}).faults()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "released"},
        {"input": 18},
        {"output": None},
        {"hold_state": "open"},
        {"hold_state": None},
        {"hold_nanos": DUE - 1},
        {"request_id": "req_other"},
    ],
    ids=str,
)
def test_every_other_change_of_a_line_is_found(changes: dict[str, Any]) -> None:
    assert Account().with_line(0, **changes).faults()


def test_a_client_that_was_told_other_counts_is_found() -> None:
    assert Account().with_seen(0, output=41).faults()


def test_a_client_that_lacks_an_event_is_found() -> None:
    assert Account().with_seen(0, events=39).faults()


def test_an_answer_that_nobody_gave_is_found() -> None:
    assert Account().with_seen(1, complete=True, error="").faults()


@pytest.mark.parametrize("outcome", ["gone", "open"])
def test_a_gateway_that_leaves_the_provider_with_its_client_is_found(outcome: str) -> None:
    assert any("the provider was left" in each for each in Account().with_served(2, outcome=outcome).faults())


def test_a_stream_that_the_ledger_does_not_know_is_found() -> None:
    assert replace(Account(), lines=Account().lines[:2]).faults()


def test_a_stream_that_nobody_sent_is_found() -> None:
    assert replace(Account(), seen=Account().seen[:2]).faults()


def test_a_second_dispatch_and_a_second_request_are_found() -> None:
    assert replace(Account(), served=(*Account().served, Account().served[0])).faults()
    assert replace(Account(), lines=(*Account().lines, Account().lines[0])).faults()


def test_a_request_that_was_refused_holds_nothing() -> None:
    refused = Line(1, "req_1", "refused", None, None, None, None, 0, 0, 0)
    account = replace(Account(), served=Account().served[::2], lines=(Account().lines[0], refused, Account().lines[2]))
    assert account.faults() == ()


ORPHAN = Line(0, "req_0", "released", None, None, 0, "released", 0, 10**6, 0, "orphaned")


def orphaned(**seen: Any) -> Account:
    """The first stream's process was killed when the provider had sent everything."""
    broken = Account().with_seen(0, **{"complete": False, "error": "truncated"} | seen)
    return replace(broken, lines=(ORPHAN, *Account().lines[1:]))


def test_an_orphan_is_a_fault_unless_processes_are_killed() -> None:
    account = orphaned()
    assert account.faults()
    assert reconcile(account.seen, account.served, account.lines, PRICES, deaths=True).wrong == ()


def test_nobody_saw_the_end_of_an_orphan_and_nobody_paid_for_it() -> None:
    for account in (orphaned(complete=True, error=""), orphaned().with_line(0, charge_nanos=1)):
        assert reconcile(account.seen, account.served, account.lines, PRICES, deaths=True).wrong
    account = Account()
    lines = (account.lines[0]._replace(reason="orphaned"), *account.lines[1:])
    assert reconcile(account.seen, account.served, lines, PRICES, deaths=True).wrong


def test_the_provider_of_an_orphan_was_left() -> None:
    account = orphaned().with_served(0, outcome="gone", events=3)
    assert reconcile(account.seen, account.served, account.lines, PRICES, deaths=True).wrong == ()
    account = Account().with_served(0, outcome="gone", events=3)
    assert reconcile(account.seen, account.served, account.lines, PRICES, deaths=True).wrong


def test_a_late_capture_is_beside_a_released_hold() -> None:
    late = {"hold_state": "released", "hold_charge_nanos": 0}
    assert Account().with_line(0, **late, flags=("late_capture",)).faults() == ()
    assert Account().with_line(0, **late).faults()


def test_a_client_that_left_need_not_have_been_told_the_last_count() -> None:
    assert Account().with_seen(2, input=17, output=1).faults() == ()


def test_an_answer_in_one_piece_has_no_events() -> None:
    assert Account().with_seen(0, events=0).with_served(0, events=0).faults() == ()
    assert Account().with_seen(0, events=1).faults()


def test_the_balance_moves_by_the_charges_alone() -> None:
    assert list(reconcile_balance(Balance(100, 0), Balance(60, 0), 40)) == []
    assert len(list(reconcile_balance(Balance(100, 0), Balance(61, 0), 40))) == 1
    assert len(list(reconcile_balance(Balance(100, 0), Balance(60, 1), 40))) == 1


def test_many_faults_are_told_by_the_first_and_their_number() -> None:
    seen = [Seen(number=number, complete=True) for number in range(50)]
    found = reconcile(seen, [], [], PRICES)
    assert len(found.wrong) == 21
    assert found.wrong[-1] == "and 30 more"
