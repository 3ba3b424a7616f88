"""The gate counts the same again, and five in a hundred calls more do not pass it."""

from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING

import pytest

from bench import lockstep
from bench.check import MARGINS, judge, limits_for, written
from bench.lockstep import Counts, Measured
from hoptrio.downstream.writer import ResponseWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNTS = Counts(150.0, 26.0, 4000.0, 160.0, 350.0, 35_000.0, 0.01)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def measured(counts: Counts = COUNTS) -> Measured:
    return Measured(counts, relay_calls_per_event=135.0, cpu_over_relay=1.1)


def limits(tmp_path: Path, counts: Counts = COUNTS) -> dict[str, float]:
    path = tmp_path / "limits.toml"
    path.write_text(written(counts, "3.11", path))
    return limits_for("3.11", path)


def nothing() -> None:
    """A call more."""


async def test_five_in_a_hundred_calls_more_an_event_do_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with lockstep.direct() as world:
        own = await lockstep.paced(world)
    async with lockstep.gateway() as world:
        before = await lockstep.least(lockstep.paced, world) - own
    more = math.ceil(0.05 * before)
    write = ResponseWriter.write

    @functools.wraps(write)
    def slower(self: ResponseWriter, data: bytes) -> None:
        # The wrapper is one of them.
        for _ in range(more - 1):
            nothing()
        write(self, data)

    monkeypatch.setattr(ResponseWriter, "write", slower)
    async with lockstep.gateway() as world:
        after = await lockstep.least(lockstep.paced, world) - own
    assert after - before == pytest.approx(more, abs=1)
    committed = limits(tmp_path, COUNTS._replace(calls_per_paced_event=before))
    assert exceeded(measured(COUNTS._replace(calls_per_paced_event=before)), committed) == []
    assert exceeded(measured(COUNTS._replace(calls_per_paced_event=after)), committed) == ["calls_per_paced_event"]


def exceeded(found: Measured, committed: dict[str, float]) -> list[str]:
    return [each.name for each in judge(found, committed) if not each.passed]


@pytest.mark.parametrize("name", [name for name in Counts._fields if not name.startswith("blocks_kept")])
def test_every_figure_has_a_limit_less_than_five_in_a_hundred_above_it(name: str, tmp_path: Path) -> None:
    more: Callable[[float], Counts] = lambda factor: COUNTS._replace(**{name: getattr(COUNTS, name) * factor})  # noqa: E731
    assert exceeded(measured(more(1.01)), limits(tmp_path)) == []
    assert name in exceeded(measured(more(1.05)), limits(tmp_path))
    assert max(MARGINS) < 0.05


def test_a_block_that_every_event_leaves_behind_does_not_pass(tmp_path: Path) -> None:
    assert exceeded(measured(COUNTS._replace(blocks_kept_per_event=1.0)), limits(tmp_path)) == ["blocks_kept_per_event"]


def test_without_limits_of_a_version_the_ratios_to_the_relay_are_judged() -> None:
    assert exceeded(measured(), {}) == []
    assert exceeded(measured(COUNTS._replace(calls_per_paced_event=135.0 * 1.6)), {}) == [
        "calls_per_paced_event_over_relay"
    ]
    assert exceeded(measured()._replace(cpu_over_relay=3.1), {}) == ["cpu_per_paced_event_over_relay"]


def test_limits_of_other_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(written(COUNTS, "3.11", path))
    before = limits_for("3.11", path)
    path.write_text(written(COUNTS._replace(calls_per_stream=3000.0), "3.14", path))
    assert limits_for("3.11", path) == before
    assert limits_for("3.14", path)["calls_per_stream"] == pytest.approx(3060.0)


def test_the_committed_file_has_a_limit_for_every_figure() -> None:
    assert limits_for("3.11").keys() == set(Counts._fields)
