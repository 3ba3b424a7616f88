"""The crowd's visits are a function of the seed, of every kind, and ask for nothing that is refused by design."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from bench.dialogs import DIALOGS
from bench.scenario import CONVERSIONS
from bench.soak.visit import FAILURES, KINDS, Visit, visits


def some(count: int, *, seed: int = 1) -> list[Visit]:
    return list(islice(visits(seed, 1), count))


def test_a_seed_always_gives_the_same_visits_and_another_one_others() -> None:
    assert some(50) == some(50)
    assert some(50) != some(50, seed=2)


def test_every_kind_failure_protocol_and_direction_comes() -> None:
    crowd = some(3_000)
    kinds = Counter(visit.kind for visit in crowd)
    assert set(kinds) == set(KINDS)
    assert all(0.5 < kinds[kind] / len(crowd) * 100 / share < 2 for kind, share in KINDS.items())
    assert {visit.asked.fail for visit in crowd} == {"", *FAILURES}
    assert {visit.protocol for visit in crowd} == set(DIALOGS)
    assert {(visit.protocol, visit.channel) for visit in crowd} == set(CONVERSIONS)


def test_answers_are_as_long_as_they_may_be_and_clients_leave_before_the_end() -> None:
    for visit in some(3_000):
        assert visit.lasts_s <= 60
        assert visit.leaves_after < visit.asked.events
        assert visit.asked.fail_after < visit.asked.events
        assert bool(visit.leaves_after) == (visit.kind in ("leaving", "returning", "retrying"))
