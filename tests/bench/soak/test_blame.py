"""What is done to a gateway excuses what follows from it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from bench.asked import Asked
from bench.job import Seen
from bench.soak.blame import cause
from bench.soak.crowd import Ended
from bench.soak.sampled import Mark
from bench.soak.visit import Visit
from bench.soak.visitor import BROKEN, ENDED


def ended(error: str, *, began_s: float = 90.0, ended_s: float = 110.0, kind: str = "paced", **asked: Any) -> Ended:
    visit = Visit(number=1, kind=kind, protocol="chat", channel="chat", asked=Asked(**asked))
    return Ended(visit, Seen(number=1, error=error), began_s, ended_s)


def mark(name: str, *, at_s: float = 100.0, took_s: float = 3.0) -> Mark:
    return Mark(at_s=at_s, name=name, what="", took_s=took_s)


@pytest.mark.parametrize("error", [BROKEN, "truncated", "no answer", "HTTP 409, on the return"])
def test_a_killed_worker_breaks_the_streams_that_were_open(error: str) -> None:
    assert cause(ended(error), [mark("kill")]) == "its worker was killed"
    assert cause(ended(error, ended_s=99.0), [mark("kill")]) == ""
    assert cause(ended(error, began_s=102.0), [mark("kill")]) == ""


def test_a_database_that_is_away_refuses_and_breaks_nothing() -> None:
    away = [mark("database")]
    assert cause(ended("HTTP 503", began_s=101.0), away) == "the database was away"
    assert cause(ended("HTTP 503", began_s=108.0), away) == "the database was away"
    assert cause(ended("HTTP 503", began_s=110.0), away) == ""
    assert cause(ended("truncated"), away) == ""
    assert cause(ended(BROKEN), away) == ""


@pytest.mark.parametrize("name", ["reload", "certificate"])
@pytest.mark.parametrize("error", [BROKEN, "truncated", "HTTP 503", "no answer"])
def test_a_reload_excuses_nothing(name: str, error: str) -> None:
    assert cause(ended(error), [mark(name)]) == ""


def test_what_the_visit_asked_for_is_its_cause() -> None:
    assert cause(ended("truncated", fail="cut"), []) == "the provider: cut"
    assert cause(ended("HTTP 401", kind="refused"), []) == "a wrong key"
    assert cause(ended("HTTP 500", kind="refused"), []) == ""
    assert cause(ended(ENDED, kind="kept"), []) == "a kept connection had been closed meanwhile"
