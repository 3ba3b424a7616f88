"""Tiny runs with the real processes: provider, client, relay and a gateway, and the ledger against what both saw."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import pytest

from bench.arena import Arena, Told, arena
from bench.books import Books, Line
from bench.contestants.contestant import Absent, Contestant, Limits
from bench.contestants.direct import Direct
from bench.contestants.hoptrio import Hoptrio
from bench.contestants.nginx import Nginx
from bench.contestants.relay import Relay
from bench.cores import cores_of_this_machine
from bench.counters import tree
from bench.job import Shape
from bench.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

MIXED = Shape(streams=30, events=6, pace_s=0.005, spread_s=0.05, leaving=0.3, failing=0.2)


@pytest.fixture(scope="module")
def place() -> Iterator[Arena]:
    with arena(cores_of_this_machine(), Told(lambda what, streams: None, lambda done: None)) as running:
        yield running


def scenario(shape: Shape, *, protocol: str = "chat") -> Scenario:
    return Scenario("tiny", "tiny", "a tiny one", shape, protocol=protocol, rounds=1)


class Tampered(Books):
    """A ledger in whose file somebody charges one stream a unit more, before it is read."""

    def lines(self, run: int) -> list[Line]:
        query = (
            "UPDATE requests SET charge_nanos = charge_nanos + 1 WHERE id = (SELECT id FROM requests"
            f" WHERE state = 'captured' AND client_request_id LIKE 'bench-{run}-%' LIMIT 1)"
        )
        with closing(sqlite3.connect(self.path)) as database:
            assert database.execute(query).rowcount == 1
            database.commit()
        return super().lines(run)


class Broken:
    """A contestant that cannot be started here."""

    name = "broken"
    limits = Limits()
    protocols = frozenset({"chat"})

    def version(self) -> str:
        return ""

    @contextmanager
    def start(self, place: object) -> Iterator[Contestant]:
        raise Absent("it is broken")
        yield


def test_a_relay_is_measured_next_to_direct_and_who_is_not_there_is_named(place: Arena) -> None:
    shape = Shape(streams=6, events=8, pace_s=0.005, spread_s=0.02)
    (found,) = place.play([scenario(shape)], [Direct(), Relay(), Broken()])
    direct, relay = found.runs
    assert found.contestants == ["direct", "relay"]
    assert found.absent == {"broken": "it is broken"}
    for run in found.runs:
        assert (run.streams, run.complete, run.events, run.errors) == (6, 6, 48, {})
        assert 0 < run.delay_ns.p50 < run.delay_ns.max < 5e9
        assert run.first_ns.count == 6
    assert direct.cpu_ns is None
    assert relay.cpu_ns is not None
    assert 0 < relay.cpu_ns < 5e9
    assert relay.steady_events <= relay.events


def test_scenarios_of_a_group_are_played_in_turn(place: Arena) -> None:
    pair = [scenario(Shape(streams=2, events=2))._replace(name=name, rounds=2) for name in ("one", "other")]
    began: list[str] = []
    told = place.told
    place.told = Told(lambda what, streams: began.append(what), told.streams)
    found = place.play(pair, [Direct()])
    place.told = told
    assert began[-4:] == ["one: direct", "other: direct"] * 2
    assert [[run.round for run in each.runs] for each in found] == [[0, 1], [0, 1]]


def test_a_contestant_is_not_asked_for_what_it_cannot_carry(place: Arena) -> None:
    few = Direct()
    few.limits = Limits(streams=1)  # type: ignore[misc]
    (found,) = place.play([scenario(MIXED)], [few])
    assert found.absent == {"direct": "more than 1 streams at once are not asked of it"}
    assert not found.runs


def test_a_load_is_cut_to_a_contestant_s_measure() -> None:
    limits = Limits(streams=50, events=1000)
    assert limits.fit(Shape(streams=20, events=50)) == Shape(streams=20, events=50)
    assert limits.fit(Shape(streams=20, events=500)) == Shape(streams=20, events=50)
    assert limits.fit(Shape(streams=2000, at_once=16, events=1)) == Shape(streams=100, at_once=16, events=1)
    assert limits.fit(Shape(streams=51, events=1)) is None


def test_every_cent_of_mixed_streams_is_accounted_for_and_a_wrong_one_is_found(place: Arena) -> None:
    with place.started(Hoptrio()) as contestant:
        run = place.run(scenario(MIXED), contestant)
        assert run.reconciled is not None
        assert run.reconciled.wrong == ()
        assert run.reconciled.streams == 30
        assert run.left
        assert run.errors
        # Those that left are paid as those that stayed are.
        assert run.reconciled.captured > run.complete
        assert run.reconciled.captured + run.reconciled.released == 30
        assert contestant.books is not None
        converted = place.run(scenario(Shape(streams=3, events=4), protocol="messages"), contestant)
        assert converted.reconciled is not None
        assert (converted.complete, converted.reconciled.wrong) == (3, ())
        wrong = place.run(scenario(MIXED), contestant._replace(books=Tampered(*contestant.books)))
        assert wrong.reconciled is not None
        assert len(wrong.reconciled.wrong) == 2
        stream, balance = wrong.reconciled.wrong
        assert re.fullmatch(r"stream \d+: charged \d+, due \d+", stream)
        assert balance.startswith("the balance moved by")


def test_nginx_is_absent_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(Absent, match="no nginx"):
        Nginx().version()


@pytest.mark.skipif(which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") is None, reason="no nginx")
def test_of_nginx_the_process_that_serves_is_measured_however_late_it_is_forked(
    place: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, ...]] = [(1,)]

    def at_first_without_its_worker(pid: int) -> tuple[int, ...]:
        return told.pop() if told else tree(pid)

    monkeypatch.setattr("bench.contestants.nginx.tree", at_first_without_its_worker)
    with place.started(Nginx()) as contestant:
        assert [Path(f"/proc/{pid}/cmdline").read_bytes().split(b":")[1][:7] for pid in contestant.pids] == [
            b" master",
            b" worker",
        ]
