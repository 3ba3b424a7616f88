"""A leak is told from a load's ups and downs, from odd points, and from what has reached its size."""

from __future__ import annotations

import random

import pytest

from bench.soak.slope import minima, theil_sen, trend

MIB = 1024.0 * 1024.0
MINUTES = 20


def memory(*, leak_mib_per_hour: float, seed: int = 1) -> list[tuple[float, float]]:
    """A sample a second: a base, streams that come and go, a leak, and now and then a moment with much more."""
    draw = random.Random(seed)
    points, streams = [], 15
    for second in range(MINUTES * 60):
        streams = min(max(streams + draw.choice((-1, 0, 1)), 5), 30)
        odd = 40 * MIB if draw.random() < 0.005 else 0.0
        size = 80 * MIB + streams * 0.06 * MIB + draw.uniform(0, 0.3 * MIB) + odd
        points.append((float(second), size + leak_mib_per_hour * MIB * second / 3600))
    return points


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_is_found_and_a_load_is_none(seed: int) -> None:
    leaks = trend(memory(leak_mib_per_hour=16, seed=seed), 30.0)
    plain = trend(memory(leak_mib_per_hour=0, seed=seed), 30.0)
    assert leaks is not None
    assert plain is not None
    assert not leaks.flat(per_hour=8 * MIB, noise=2 * MIB)
    assert plain.flat(per_hour=8 * MIB, noise=2 * MIB)
    assert abs(leaks.per_hour / MIB - 16) < 4


def test_what_has_reached_its_size_is_flat_and_what_still_grows_is_not() -> None:
    full = [(float(second), min(second, 300) * MIB / 30) for second in range(MINUTES * 60)]
    late = trend([point for point in full if point[0] >= 300], 30.0)
    whole = trend([(at_s, at_s * MIB / 30) for at_s, _ in full], 30.0)
    assert late is not None
    assert late.per_hour == 0
    assert whole is not None
    assert whole.per_hour == pytest.approx(120 * MIB)


def test_a_stair_of_small_steps_is_a_leak() -> None:
    steps = trend([(float(second), second // 120 * MIB) for second in range(MINUTES * 60)], 30.0)
    assert steps is not None
    assert steps.per_hour / MIB == pytest.approx(30, rel=0.05)


def test_growth_within_the_noise_is_none_however_short_the_time() -> None:
    short = trend([(float(second), second * MIB / 60) for second in range(60)], 5.0)
    assert short is not None
    assert short.per_hour / MIB == pytest.approx(60)
    assert short.flat(per_hour=8 * MIB, noise=2 * MIB)
    assert not short.flat(per_hour=8 * MIB, noise=0.5 * MIB)


def test_the_least_of_each_window_is_looked_at() -> None:
    assert minima([(0.0, 5.0), (1.0, 3.0), (9.9, 4.0), (10.0, 8.0), (31.0, 1.0)], 10.0) == [
        (1.0, 3.0),
        (10.0, 8.0),
        (31.0, 1.0),
    ]


def test_one_odd_point_does_not_move_the_slope() -> None:
    points = [(float(each), 2.0 * each) for each in range(50)]
    points[25] = (25.0, 10_000.0)
    assert theil_sen(points) == 2.0


def test_too_few_points_say_nothing() -> None:
    assert theil_sen([(0.0, 1.0), (1.0, 2.0)]) is None
    assert theil_sen([(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)]) is None
    assert trend([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 30.0) is None


def test_a_long_series_is_thinned_and_keeps_its_slope() -> None:
    assert theil_sen([(float(each), 3.0 * each) for each in range(5_000)]) == pytest.approx(3.0)
