"""A small run with the real processes: visits over TLS, a ledger that somebody locks, and an end by hand."""

from __future__ import annotations

import os
import re
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from bench.cores import cores_of_this_machine
from bench.soak.command import results_of
from bench.soak.run import Load, Told, soak
from bench.soak.sampled import Sample
from bench.soak.sampler import figures
from bench.soak.schedule import Plan, Turn

if TYPE_CHECKING:
    from pathlib import Path

#: Of its first visits none is failed by silence, which would take ten seconds.
SEED = 7
EARLY_S = 3.0


def test_a_run_that_is_ended_by_hand_is_reconciled_to_the_last_visit(tmp_path: Path) -> None:
    plan = Plan(lasts_s=60.0, old_s=30.0, judged_s=40.0, turns=(Turn(0.5, "database"),))
    load = Load(rate=15.0, at_once=30, longest_s=1.5, seed=SEED, quiet_s=0.0)
    steps: list[str] = []
    ended: list[float] = []

    def told(sample: Sample) -> None:
        if sample.at_s >= EARLY_S and not ended:
            ended.append(sample.at_s)
            os.kill(os.getpid(), signal.SIGINT)

    lived = soak(plan, load, "sqlite", cores_of_this_machine(), tmp_path, Told(steps.append, told))
    found = results_of(lived, plan, command="soak", began=datetime.now(UTC), machine={"cores": "2"}, database="SQLite")
    assert found.interrupted
    assert EARLY_S <= found.judged_until_s < EARLY_S + 3
    assert len(found.kinds) > 6
    assert found.end.reconciled.wrong == ()
    assert found.end.reconciled.captured > 20
    assert found.unexpected == ()
    (mark,) = found.marks
    assert (mark.name, mark.what, mark.wrong) == ("database", "locked for 2 s", "")
    assert found.end.audit.ok
    assert found.end.audit.open_holds == 0
    assert found.end.exit_status == 0
    assert found.end.logged == {}
    # Nobody reads the samples but a person, and whoever draws.
    lines = (tmp_path / "samples.jsonl").read_bytes().splitlines()
    written = [msgspec.json.decode(line, type=Sample) for line in lines]
    assert tuple(written) == found.samples
    assert {each.role for each in written[0].processes} == {"supervisor", "worker"}
    assert written[0].processes[0].uss_bytes
    assert any(each.streams is not None and each.holds is not None and each.entries for each in written)
    assert sum(each.events for each in written) > 50
    assert re.search(r"hoptrio listens on https://", (tmp_path / "gateway.log").read_text())


def test_figures_of_a_control_plane_that_does_not_answer_are_none() -> None:
    text = (
        '# HELP hoptrio_streams_open x\nhoptrio_streams_open{channel="a",model="m",protocol="chat"} 3.0\n'
        'hoptrio_streams_open{channel="b",model="m",protocol="chat"} 4.0\n'
        'hoptrio_holds_open{age="10"} 5.0\nhoptrio_holds_open{age="older"} 1.0\nhoptrio_events_total 9.0\n'
    )
    assert figures(text) == {"streams": 7, "holds": {"10": 5, "older": 1}}
    assert figures("") == {}
    assert figures(text[: text.index("hoptrio_holds")])["holds"] is None
