"""Plots are inside their box, and what is not known is no line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.control.dashboard.plot import HEIGHT, WIDTH, nice_step, plot


@given(st.lists(st.none() | st.floats(0, 1e12), max_size=50))
def test_every_point_is_inside_the_box(values):
    drawn = plot(values)
    points = [float(each) for each in re.findall(r"[\d.]+", drawn.curve + drawn.dots.replace("h0", ""))]
    assert all(0 <= x <= WIDTH + 1 for x in points[::2])
    assert all(0 <= y <= HEIGHT for y in points[1::2])
    assert drawn.top >= max((each for each in values if each is not None), default=0)


def test_a_gap_interrupts_the_line():
    drawn = plot([0, 1, None, 1, 0])
    assert drawn.curve == "M0.0 100.0L150.0 0.0M450.0 0.0L600.0 100.0"
    assert drawn.area == "M0.0 100L0.0 100.0L150.0 0.0L150.0 100ZM450.0 100L450.0 0.0L600.0 100.0L600.0 100Z"


def test_a_point_alone_is_seen():
    drawn = plot([None, 1, None, 2, 2])
    assert (drawn.dots, drawn.curve) == ("M150.0 50.0h0", "M450.0 0.0L600.0 0.0")


def test_nothing_is_no_line():
    assert plot([]) == plot([None]) == ("", "", "", 1.0)


@pytest.mark.parametrize(
    ("least", "step"), [(1, 1), (1.5, 2), (2, 2), (3, 5), (7, 10), (11, 20), (0.03, 0.05), (0.2, 0.2), (999, 1000)]
)
def test_steps_are_one_two_or_five_times_a_power_of_ten(least, step):
    assert nice_step(least) == pytest.approx(step)
