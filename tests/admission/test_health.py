"""The breaker's machine, walked alone: every standing, every event, and the numbers between them."""

from __future__ import annotations

import itertools

import pytest

from hoptrio import limits
from hoptrio.admission.health import FAULTS, NEXT, Event, Fault, Standing, Trouble, happened, standing

NOW = 1_000.0
SOFT = Fault.FAILED
#: What is remembered in each standing, at `NOW`.
REMEMBERED = {
    Standing.GOOD: None,
    Standing.DOUBTED: Trouble(SOFT, 1, 0, NOW + 3),
    Standing.COOLING: Trouble(SOFT, 3, 1, NOW + 3),
    Standing.DUE: Trouble(SOFT, 3, 1, NOW - 3),
    Standing.TRIED: Trouble(SOFT, 3, 1, NOW - 3, NOW + 3),
}


def fail(trouble, now_s=NOW, *, fault=SOFT, retry_after_s=0.0):
    return happened(trouble, Event.FAILURE, now_s, fault=fault, retry_after_s=retry_after_s)


@pytest.mark.parametrize("now", Standing)
def test_what_is_remembered_says_where_it_stands(now):
    assert standing(REMEMBERED[now], NOW) is now


@pytest.mark.parametrize(("now", "event"), list(itertools.product(Standing, Event)))
def test_every_move_is_the_tables_and_everything_else_stays(now, event):
    """A failure below the number that closes is FAILURE, one at it STRIKE; the function counts."""
    fault = Fault.RATE_LIMITED if event is Event.STRIKE else SOFT
    before = REMEMBERED[now]
    asked = Event.FAILURE if event is Event.STRIKE else event
    after = happened(before, asked, NOW, fault=fault)
    assert standing(after, NOW) is NEXT.get((now, event), now)
    if (now, event) not in NEXT:
        assert after == before


def test_a_third_failure_in_a_row_closes_the_channel():
    trouble = None
    for expected in (Standing.DOUBTED, Standing.DOUBTED, Standing.COOLING):
        trouble = fail(trouble)
        assert standing(trouble, NOW) is expected


def test_failures_in_a_row_may_lie_minutes_apart():
    trouble = fail(fail(None, NOW - 200), NOW - 100)
    assert standing(trouble, NOW) is Standing.GOOD
    assert standing(fail(trouble), NOW) is Standing.COOLING


def test_a_success_between_them_begins_the_count_again():
    trouble = fail(happened(fail(fail(None)), Event.BEGUN, NOW))
    assert standing(trouble, NOW) is Standing.DOUBTED


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_closes_at_its_number(fault):
    trouble = None
    for _ in range(FAULTS[fault].closes_at - 1):
        trouble = fail(trouble, fault=fault)
        assert standing(trouble, NOW) is Standing.DOUBTED
    assert standing(fail(trouble, fault=fault), NOW) is Standing.COOLING


def test_what_the_provider_says_of_itself_closes_at_once():
    assert {fault for fault in Fault if FAULTS[fault].closes_at == 1} == {Fault.RATE_LIMITED, Fault.CREDENTIALS}


def test_only_a_failed_trial_makes_the_next_cool_down_longer_and_never_beyond_the_limit():
    trouble, now_s, waits = None, NOW, []
    for _ in range(10):
        trouble = fail(trouble, now_s, fault=Fault.RATE_LIMITED)
        waits.append(trouble.until_s - now_s)
        # Streams that were under way when it closed fail, too.
        assert fail(trouble, now_s + 1, fault=Fault.RATE_LIMITED) == trouble
        now_s = trouble.until_s
        trouble = happened(trouble, Event.TRIAL, now_s)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]
    assert standing(happened(trouble, Event.BEGUN, now_s), now_s) is Standing.GOOD
    assert fail(None, now_s, fault=Fault.RATE_LIMITED).until_s - now_s == 5


def test_a_trial_that_fails_in_any_way_is_one_failure_too_many():
    """Without this, a channel that was closed by a rate limit would take three broken streams to be closed again."""
    trouble = happened(Trouble(Fault.RATE_LIMITED, 1, 1, NOW - 1), Event.TRIAL, NOW)
    again = fail(trouble, fault=SOFT)
    assert (standing(again, NOW), again.until_s - NOW) == (Standing.COOLING, 10)


@pytest.mark.parametrize(("asked_s", "wait_s"), [(0, 5), (3, 5), (42, 42), (10**6, limits.COOLDOWN_ASKED_MAX_S)])
def test_retry_after_is_honoured_within_reason(asked_s, wait_s):
    assert fail(None, fault=Fault.RATE_LIMITED, retry_after_s=asked_s).until_s - NOW == wait_s


def test_a_longer_retry_after_prolongs_a_cool_down_that_runs():
    trouble = fail(None, fault=Fault.RATE_LIMITED, retry_after_s=10)
    assert fail(trouble, NOW + 1, fault=Fault.RATE_LIMITED, retry_after_s=60).until_s == NOW + 61
    assert fail(trouble, NOW + 1, fault=Fault.RATE_LIMITED, retry_after_s=2) == trouble


def test_a_success_of_a_stream_from_before_does_not_end_a_cool_down():
    trouble = fail(None, fault=Fault.RATE_LIMITED, retry_after_s=60)
    assert happened(trouble, Event.COMPLETE, NOW + 1) == trouble


def test_a_channel_that_stalled_is_good_again_when_an_answer_is_complete_and_not_when_it_begins():
    trouble = None
    for _ in range(2):
        trouble = fail(happened(trouble, Event.BEGUN, NOW), fault=Fault.STALLED)
    assert happened(trouble, Event.COMPLETE, NOW) is None
    trouble = fail(happened(trouble, Event.BEGUN, NOW), fault=Fault.STALLED)
    assert standing(trouble, NOW) is Standing.COOLING


def test_a_trial_that_is_not_heard_of_makes_room_for_another():
    trouble = happened(Trouble(SOFT, 3, 1, NOW - 1), Event.TRIAL, NOW)
    assert standing(trouble, NOW + limits.TRIAL_S - 0.1) is Standing.TRIED
    assert standing(trouble, NOW + limits.TRIAL_S) is Standing.DUE


def test_trouble_that_nobody_touches_is_forgotten():
    trouble = Trouble(SOFT, 3, 6, NOW)
    late = NOW + limits.TROUBLE_KEPT_S
    assert standing(trouble, late - 1) is Standing.DUE
    assert standing(trouble, late) is Standing.GOOD
    assert fail(trouble, late) == fail(None, late)
