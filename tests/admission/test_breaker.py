"""The breakers of all channels: which trouble is whose, who may try, and what processes see of each other."""

from __future__ import annotations

import pytest
import structlog

from hoptrio import limits
from hoptrio.admission.board import Board
from hoptrio.admission.breaker import Breakers
from hoptrio.admission.health import FAULTS, Fault, Standing


class Clock:
    now_s = 1_000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def two(clock):
    """Two processes of a machine."""
    board = Board()
    return Breakers(board, now=clock), Breakers(board, now=clock)


def standing(breakers, channel="a", model="m"):
    return breakers.condition(channel, model).standing


@pytest.mark.parametrize("fault", Fault)
def test_trouble_is_the_models_or_the_whole_channels(fault, two):
    for _ in range(FAULTS[fault].closes_at):
        two[0].failed("a", "m", fault)
    assert standing(two[1]) is Standing.COOLING
    assert (standing(two[1], model="other") is Standing.COOLING) == FAULTS[fault].whole_channel
    assert standing(two[1], "b") is Standing.GOOD


def test_a_condition_says_why_and_for_how_long(two, clock):
    two[0].failed("a", "m", Fault.RATE_LIMITED, 42)
    clock.now_s += 2
    condition = two[1].condition("a", "m")
    assert (condition.fault, condition.wait_s, condition.askable) == (Fault.RATE_LIMITED, 40, False)


def test_one_stream_of_all_processes_tries_a_channel_after_its_cool_down(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.RATE_LIMITED)
    assert not theirs.claim("a", "m")
    clock.now_s += limits.COOLDOWN_MIN_S
    assert standing(theirs) is Standing.DUE
    assert theirs.claim("a", "m")
    assert not ours.claim("a", "m")
    assert standing(ours) is Standing.TRIED
    theirs.succeeded("a", "m")
    assert ours.claim("a", "m")
    assert ours.claim("a", "m")


def test_a_trial_that_fails_doubles_the_cool_down(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.RATE_LIMITED)
    clock.now_s += limits.COOLDOWN_MIN_S
    assert ours.claim("a", "m")
    ours.failed("a", "m", Fault.CUT)
    assert theirs.condition("a", "m").wait_s == 2 * limits.COOLDOWN_MIN_S


def test_a_trial_that_proves_nothing_is_the_next_ones(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.CREDENTIALS)
    clock.now_s += limits.COOLDOWN_MIN_S
    assert ours.claim("a", "m")
    assert not theirs.claim("a", "other")
    ours.unclaim("a", "m")
    assert theirs.claim("a", "other")


def test_a_trial_of_the_channel_that_fails_for_its_model_leaves_the_channel_to_another_model(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.CREDENTIALS)
    clock.now_s += limits.COOLDOWN_MIN_S
    assert ours.claim("a", "m")
    ours.failed("a", "m", Fault.CUT)
    assert theirs.claim("a", "other")


def test_a_process_that_dies_while_it_tries_keeps_nobody_out_for_long(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.RATE_LIMITED)
    clock.now_s += limits.COOLDOWN_MIN_S
    assert ours.claim("a", "m")
    clock.now_s += limits.TRIAL_S
    assert theirs.claim("a", "m")


def test_any_models_success_clears_the_channel(two, clock):
    ours, theirs = two
    ours.failed("a", "m", Fault.CREDENTIALS)
    clock.now_s += limits.COOLDOWN_MIN_S
    assert ours.claim("a", "other")
    ours.succeeded("a", "other")
    assert standing(theirs) is Standing.GOOD


def test_a_success_on_a_good_channel_writes_nothing(two):
    board = Board()
    breakers = Breakers(board)
    for complete in (False, True):
        breakers.succeeded("a", "m", complete=complete)
    breakers.unclaim("a", "m")
    assert board.clean


def test_forgetting_is_for_all(two):
    two[0].failed("a", "m", Fault.CREDENTIALS)
    two[1].forget()
    assert standing(two[0]) is Standing.GOOD


def test_operators_read_when_a_channel_cools_down_and_when_it_is_back(two, clock):
    ours, _ = two
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            ours.failed("a", "m", Fault.STALLED)
        clock.now_s += limits.COOLDOWN_MIN_S
        ours.claim("a", "m")
        ours.succeeded("a", "m", complete=True)
    assert [(each["event"], each["channel"], each["model"]) for each in logs] == [
        ("channel cools down", "a", "m"),
        ("channel is back", "a", "m"),
    ]
    assert (logs[0]["why"], logs[0]["for_s"]) == ("made no progress for too long", 5)
