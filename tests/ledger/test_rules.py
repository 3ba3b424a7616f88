"""The pure rules, where the contract suite does not reach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.ledger.model import (
    Account,
    ApiKey,
    EntryKind,
    HoldRefusal,
    HoldRefused,
    HoldRow,
    HoldState,
    Placed,
)
from hoptrio.ledger.rules import KeyUse, budget_period, decide, judge


def hold_row(amount_nanos=100, state=HoldState.OPEN, reason=None, late=False, share=0, charge=0):
    return HoldRow(
        id="hold_1", request_id="req_1", account_id="a", key_id="k", amount_nanos=amount_nanos, prices="", owner="o",
        supplier="", revenue_share_nanos=share, state=state, reason=reason, charge_nanos=charge, late=late,
        created_at_ms=0, resolved_at_ms=None,
    )  # fmt: skip


amounts = st.integers(0, 10**15)


@given(amounts, st.none() | amounts, amounts, st.integers(0, 10**9), st.sampled_from([None, "orphaned"]))
def test_nothing_is_made_or_lost(amount, capture, available, share, reason):
    state = HoldState.OPEN if reason is None else HoldState.RELEASED
    effect = decide(hold_row(amount, state, reason, share=share), capture, available)
    assert 0 <= effect.share_nanos <= effect.charge_nanos <= amount
    if state is HoldState.OPEN:
        assert effect.charge_nanos + effect.returned_nanos == effect.unheld_nanos == amount
    elif capture is not None:
        assert effect.unheld_nanos == 0
        assert effect.charge_nanos <= available
        assert effect.charge_nanos + effect.uncollected_nanos == min(capture, amount)


@pytest.mark.parametrize("reason", ["orphaned", "operator"])
def test_late_evidence_counts_for_releases_made_without_the_gateway(reason):
    effect = decide(hold_row(state=HoldState.RELEASED, reason=reason), 60, 1000)
    assert (effect.kind, effect.charge_nanos) == (EntryKind.LATE_CAPTURE, 60)


@pytest.mark.parametrize("reason", ["deadline", "not_dispatched", None])
def test_and_for_no_others(reason):
    assert decide(hold_row(state=HoldState.RELEASED, reason=reason), 60, 1000).kind is None


def test_periods_are_days_and_months_in_utc():
    assert budget_period("day", 1_796_083_199_999) == "2026-11-30"
    assert budget_period("day", 1_796_083_200_000) == "2026-12-01"
    assert budget_period("month", 1_796_083_199_999) == "2026-11"


@given(st.lists(st.integers(0, 40_000), max_size=12), st.integers(1, 4))
def test_no_window_of_a_minute_has_more_requests_than_the_rate(gaps_ms, rpm):
    """A key that keeps coming, against a store of one list; whoever waits as told is served."""
    account = Account(id="a", name="a", balance_nanos=10**9, held_nanos=0, created_at_ms=0)
    key = ApiKey(id="k", account=account, rpm=rpm, created_at_ms=0)
    placed, now_ms = [], 0

    def ask():
        recent = [at_ms for at_ms in placed if at_ms > now_ms - 60_000]
        leaves_first = recent[-rpm] if len(recent) >= rpm else None
        return judge(key, KeyUse(recent=len(recent), leaves_first_ms=leaves_first), 1, now_ms)

    for gap_ms in gaps_ms:
        now_ms += gap_ms
        answer = ask()
        if isinstance(answer, HoldRefused):
            assert answer.why is HoldRefusal.RATE
            assert 0 < answer.wait_ms <= 60_000
            now_ms += answer.wait_ms
            answer = ask()
        assert isinstance(answer, Placed)
        placed.append(now_ms)
    assert all(sum(at <= each < at + 60_000 for each in placed) <= rpm for at in placed)
