"""What holds for every test."""

from __future__ import annotations

import gc
import inspect
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.garbage import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A test says the same on every run and on every machine, however loaded.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


#: Rooms whose tests wait for processes, seconds each.
SLOW = {"chaos", "conform", "docs", "sdk", "service", "web", "world"}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each of several test processes its share of the slow tests first: xdist deals consecutive parts of the list,
    and at the end only what is quick can be shared out evenly."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1:
        return
    slow = [item for item in items if item.nodeid.split("/")[1] in SLOW]
    quick = [item for item in items if item.nodeid.split("/")[1] not in SLOW]
    begin = 0
    items.clear()
    for i in range(1, processes + 1):
        items += slow[len(slow) * (i - 1) // processes : len(slow) * i // processes]
        end = (len(slow) + len(quick)) * i // processes - len(slow) * i // processes
        items += quick[begin:end]
        begin = end


def pytest_collection_finish() -> None:
    """Take what was imported and collected out of the collector's sight: eleven thousand tests are a heap that every
    full collection would walk again, which is a fifth of what the small tests cost."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that reaches the mock clock through a fixture: pytest-trio uses a clock only if the test function
    itself names it, so such a test would run in real time and nobody would see it."""
    if not isinstance(item, pytest.Function):
        return
    named = inspect.signature(item.function).parameters
    for clock in ("autojump_clock", "mock_clock"):
        if clock in item.fixturenames and clock not in named:
            pytest.fail(f"{clock} is reached through a fixture: name it in the test function too", pytrace=False)


@pytest.fixture
def garbage() -> Iterator[Callable[..., set[str]]]:
    """See `tests.support.garbage`."""
    with uncollected() as found:
        yield found
