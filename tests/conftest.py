"""What holds for every test."""

from __future__ import annotations

import gc
import inspect

import pytest
from hypothesis import settings

# A test says the same on every run and on every machine, however loaded.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


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
