"""Every line of the report can be red: each is made so by the one thing it is about."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from bench.reconcile import Reconciled
from bench.soak.command import write
from bench.soak.report import markdown
from bench.soak.result import Audit, End, Results, Unexpected
from bench.soak.sampled import Mark, Process, Sample
from bench.soak.verdicts import judged

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024
SECONDS = 900
SUPERVISOR, OLD, YOUNG = 1, 2, 3


def process(pid: int, *, rss_mib: float = 80.0, descriptors: int = 30) -> Process:
    role = "supervisor" if pid == SUPERVISOR else "worker"
    return Process(pid=pid, role=role, rss_bytes=int(rss_mib * MIB), descriptors=descriptors, threads=6)


@cache
def samples(*, leaking: int = 0, losing: int = 0) -> tuple[Sample, ...]:
    """A sample a second of a supervisor and two workers; the process `leaking` grows by 40 MiB an hour, `losing` loses
    180 descriptors an hour."""
    found = []
    for second in range(SECONDS):
        busy = second % 30
        processes = tuple(
            process(
                pid,
                rss_mib=80 + busy / 10 + (40 * second / 3600 if pid == leaking else 0),
                descriptors=30 + busy + (second // 20 if pid == losing else 0),
            )
            for pid in (SUPERVISOR, OLD, YOUNG)
        )
        holds = {"10": busy, "60": 3, "300": 1}
        found.append(
            Sample(at_s=float(second), processes=processes, clients=20, events=50, first_ms=(9.0,), streams=20,
                   holds=holds, tasks=60 + busy, entries=second, spool_bytes=MIB)
        )  # fmt: skip
    return tuple(found)


def last(**changes: Any) -> tuple[Sample, ...]:
    """The last of the samples is another."""
    plain = samples()
    return (*plain[:-1], msgspec.structs.replace(plain[-1], **changes))


def end(**changes: Any) -> End:
    idle = (process(SUPERVISOR, descriptors=13), process(OLD, descriptors=25))
    whole: dict[str, Any] = {
        "before": idle,
        "after": idle,
        "exit_status": 0,
        "audit": Audit(True, (), 0, 90, 10),
        "reconciled": Reconciled(100, 90, 10, 5),
        "logged": {"worker crashed": 1},
    }
    return End(**whole | changes)


def results(*, ending: End | None = None, measured: tuple[Sample, ...] | None = None, **changes: Any) -> Results:
    whole: dict[str, Any] = {
        "command": "python -m bench soak",
        "began": "2026-01-01 00:00 UTC",
        "took_s": 1600.0,
        "machine": {"cores": "2"},
        "database": "PostgreSQL",
        "interrupted": False,
        "judged_s": 300.0,
        "judged_until_s": float(SECONDS),
        "end": ending or end(),
        "marks": (
            Mark(at_s=100.0, name="kill", what="a worker", took_s=3.0),
            Mark(at_s=200.0, name="database", what="killed", took_s=4.0),
        ),
        "kinds": {"paced": 60, "short": 40},
        "causes": {"truncated: its worker was killed": 3},
        "unexpected": (),
        "events": 50 * SECONDS,
        "samples": samples() if measured is None else measured,
    }
    return judged(Results(**whole | changes))


def red(found: Results) -> set[str]:
    return {each.what for each in found.verdicts if each.holds is False}


def test_a_run_in_which_nothing_is_wrong_holds() -> None:
    assert red(results()) == set()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"audit": Audit(False, ("hold 7",), 0, 90, 10)}, "the ledger's audit is clean"),
        ({"audit": Audit(True, (), 1, 90, 9)}, "no hold is left"),
        ({"reconciled": Reconciled(100, 90, 10, 5, ("stream 3",))}, "clients, provider and ledger agree"),
        ({"exit_status": 1}, "it ends with status 0"),
        ({"exit_status": None}, "it ends with status 0"),
        ({"logged": {"worker crashed": 2}}, "nothing was logged as an error"),
        ({"logged": {"worker crashed": 1, "traceback": 1}}, "nothing was logged as an error"),
        ({"after": (process(SUPERVISOR, descriptors=14),)}, "descriptors are back"),
        ({"after": (process(OLD, descriptors=40),)}, "descriptors are back"),
    ],
    ids=str,
)
def test_an_end_that_is_wrong_is_told(changes: dict[str, Any], what: str) -> None:
    (found,) = red(results(ending=end(**changes)))
    assert found.startswith(what)


@pytest.mark.parametrize(
    ("measured", "what"),
    [
        (samples(leaking=SUPERVISOR), "memory is flat: supervisor"),
        (samples(leaking=YOUNG), "memory is flat: worker"),
        (samples(losing=OLD), "descriptors are flat"),
        (last(holds={"600": 1}), "no hold was open for longer"),
        (last(spool_bytes=65 * MIB), "answers kept for returning clients"),
    ],
    ids=["supervisor", "worker", "descriptors", "hold", "spool"],
)
def test_what_grows_is_told(measured: tuple[Sample, ...], what: str) -> None:
    (found,) = red(results(measured=measured))
    assert found.startswith(what)


def test_tasks_that_are_left_are_told() -> None:
    grown = tuple(msgspec.structs.replace(each, tasks=60 + int(each.at_s) // 20) for each in samples())
    assert red(results(measured=grown)) == {"tasks are flat"}


def test_an_error_that_nothing_explains_and_a_disturbance_that_was_not_overcome_are_told() -> None:
    strange = Unexpected(3.0, 7, "short", "chat", "truncated", "req_7")
    found = results(unexpected=(strange,))
    assert red(found) == {"no client saw an error that nothing explains"}
    assert "short in chat: truncated (req_7)" in markdown(found)
    never = Mark(at_s=10.0, name="reload", what="", took_s=90.0, wrong="not well after 90 s")
    found = results(marks=(*results().marks, never))
    assert red(found) == {"all was well again after everything that was done"}
    assert "reload: not well after 90 s" in markdown(found)


def test_too_short_a_time_tells_nothing_of_what_grows() -> None:
    short = results(judged_s=SECONDS - 400.0)
    assert "**It holds, as far as so short a run can tell.**" in markdown(short)
    assert not red(short)
    assert {each.what for each in short.verdicts if each.holds is None} == {
        "memory is flat: supervisor",
        "memory is flat: worker",
        "descriptors are flat: every process",
        "tasks are flat",
    }


def test_the_report_is_written_with_its_plots_and_fewer_samples(tmp_path: Path) -> None:
    found = results()
    write(found, tmp_path)
    names = {each.name for each in tmp_path.iterdir()}
    pictures = {
        f"{name}.{kind}" for name in ("memory", "descriptors", "streams", "first-event") for kind in ("png", "svg")
    }
    assert names == {"report.md", "results.json", *pictures}
    report = (tmp_path / "report.md").read_text()
    assert "**It holds.**" in report
    assert "| kill | 1 | 3.0 / 3.0 |" in report
    kept = msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=Results)
    assert len(kept.samples) == SECONDS // 10
    assert kept.verdicts == found.verdicts
