"""Commands run in the test's own process: what one of them sets up for its process must not outlive the test."""

from __future__ import annotations

from functools import partial

import pytest
import structlog


@pytest.fixture(autouse=True)
def _own_logs(monkeypatch):
    """A command's log goes to the stderr of its test; a logger that kept it would write to a closed file later."""
    monkeypatch.setattr(structlog, "configure", partial(_configure, structlog.configure))
    yield
    structlog.reset_defaults()


def _configure(configure, **settings):
    configure(**{**settings, "cache_logger_on_first_use": False})
