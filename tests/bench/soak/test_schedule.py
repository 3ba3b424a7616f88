"""What is done when: everything in turn while workers are young, and then only to the database."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from bench.soak.schedule import DISTURBANCES, plan


def test_an_hour_has_everything_several_times_and_half_an_hour_in_which_workers_grow_old() -> None:
    hour = plan(3600)
    young = Counter(turn.name for turn in hour.turns if turn.at_s < hour.old_s)
    assert hour.old_s == 1800
    assert hour.judged_s == 2400
    assert set(young) == set(DISTURBANCES)
    assert min(young.values()) >= 2
    assert {turn.name for turn in hour.turns if turn.at_s >= hour.old_s} == {"database"}


@pytest.mark.parametrize("minutes", [0.1, 0.5, 3, 10, 60, 600])
def test_turns_are_apart_and_within_the_run(minutes: float) -> None:
    found = plan(minutes * 60)
    times = [turn.at_s for turn in found.turns]
    assert times == sorted(times)
    assert all(later - earlier >= 12 for earlier, later in pairwise(times))
    assert all(0 < at_s < found.lasts_s for at_s in times)
    assert found.old_s <= found.judged_s < found.lasts_s


def test_the_first_turns_are_each_kind_in_its_order() -> None:
    assert tuple(turn.name for turn in plan(3600).turns[:4]) == DISTURBANCES
