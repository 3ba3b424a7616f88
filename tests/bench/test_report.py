"""The report judges itself: targets reached, missed and not measured, who was not there, and what did not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

from bench.compare import compare, report
from bench.job import Mark, Outcome, Sample, Seen
from bench.reconcile import Reconciled
from bench.report import markdown
from bench.result import Entrant, Results, Run, ScenarioResults, run_of
from bench.spread import spread
from bench.summary import summarise
from bench.targets import judge

if TYPE_CHECKING:
    from pathlib import Path

MS = 10**6


def run(contestant: str, number: int = 0, **changes: Any) -> Run:
    plain = Run(
        contestant=contestant,
        round=number,
        streams=10,
        complete=10,
        left=0,
        errors={},
        events=1000,
        wall_s=2.0,
        bytes=10**6,
        cpu_ns=None if contestant == "direct" else 50 * MS,
        steady_cpu_ns=None if contestant == "direct" else 20 * MS,
        steady_events=500,
        rss_bytes_per_stream=20 * 1024.0,
        first_ns=spread([MS]),
        delay_ns=spread([MS // 10]),
        jitter_ns=1000.0,
    )
    return msgspec.structs.replace(plain, **changes)


def scenario(
    name: str, *runs: Run, family: str = "", per: str = "event", streams: int = 10, **more: Any
) -> ScenarioResults:
    return ScenarioResults(
        name=name, family=family or name, title=f"the {name} one", per=per, streams=streams, runs=runs, **more
    )


def results(*scenarios: ScenarioResults, entrants: tuple[Entrant, ...] = ()) -> Results:
    return Results(
        command="python -m bench",
        began="2026-01-01 00:00 UTC",
        took_s=60.0,
        machine={"cores": "2"},
        entrants=entrants,
        scenarios=scenarios,
    )


def verdict(found: Results, begins: str) -> tuple[str, str]:
    (judged,) = [each for each in judge(found) if each.name.startswith(begins)]
    return judged.measured, judged.verdict


def ours(**changes: Any) -> Run:
    return run("hoptrio", **changes)


RELAY, DIRECT = run("relay"), run("direct")


@pytest.mark.parametrize(
    ("found", "begins", "expected"),
    [
        (scenario("paced-20", RELAY, ours(), family="paced"), "paced, CPU", ("1.00 x", "reached")),
        (scenario("paced-20", RELAY, ours(cpu_ns=51 * MS), family="paced"), "paced, CPU", ("1.02 x", "missed")),
        (scenario("burst", RELAY, ours(cpu_ns=150 * MS)), "burst", ("3.00 x", "reached")),
        (scenario("burst", RELAY, ours(cpu_ns=152 * MS)), "burst", ("3.04 x", "missed")),
        (scenario("short", RELAY, ours(cpu_ns=130 * MS), per="stream"), "short", ("2.60 x", "missed")),
        (
            scenario("first-event", DIRECT, ours(first_ns=spread([2 * MS])), per="stream"),
            "added time to first event, 20 paced streams, p50",
            ("1.00 ms", "reached"),
        ),
        (
            scenario("first-event", DIRECT, ours(first_ns=spread([7 * MS])), per="stream"),
            "added time to first event, 20 paced streams, p99",
            ("6.00 ms", "missed"),
        ),
        (scenario("idle-1000", ours(), family="idle"), "RSS", ("20.00 KiB", "reached")),
        (scenario("idle-1000", ours(rss_bytes_per_stream=26 * 1024.0), family="idle"), "RSS", ("26.00 KiB", "missed")),
        (scenario("idle-9000", ours(complete=9), family="idle"), "9,000 open streams in one", ("90.00 %", "missed")),
        (scenario("burst", ours(reconciled=Reconciled(10, 10, 0, 5))), "the ledger", ("0.00 wrong", "reached")),
        (scenario("burst", ours(reconciled=Reconciled(10, 10, 0, 5, ("x",)))), "the ledger", ("1.00 wrong", "missed")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_target_is_judged_by_what_was_measured(
    found: ScenarioResults, begins: str, expected: tuple[str, str]
) -> None:
    assert verdict(results(found), begins) == expected


def test_targets_over_two_scenarios() -> None:
    many = scenario("idle-9000", ours(steady_cpu_ns=26 * MS), family="idle")
    few = scenario("paced-50", ours(), family="paced")
    assert verdict(results(many, few), "9,000 open streams, CPU") == ("1.30 x", "missed")
    workers = [scenario(f"workers-{count}", ours(cpu_ns=cpu * MS)) for count, cpu in ((1, 50), (2, 55))]
    assert verdict(results(*workers), "2 workers") == ("1.82 x", "reached")
    native = scenario("converted-chat-chat", ours(), family="converted")
    converted = scenario("converted-messages-chat", ours(cpu_ns=101 * MS), family="converted")
    assert verdict(results(native, converted), "conversion") == ("2.02 x", "missed")


def test_what_was_not_run_is_not_judged() -> None:
    assert {each.verdict for each in judge(results())} == {"not measured"}


def test_ratios_are_the_medians_of_the_rounds_in_pairs() -> None:
    rounds = [(50, 100), (100, 300), (10, 10)]
    runs = [
        run(name, number, cpu_ns=cpu * MS)
        for number, pair in enumerate(rounds)
        for name, cpu in zip(("relay", "hoptrio"), pair, strict=True)
    ]
    summary = summarise(scenario("paced-20", *runs), "hoptrio")
    assert summary.ratio == 2.0
    assert summary.cpu_per_event_us == 100.0


def test_what_has_no_cost_has_no_ratio() -> None:
    summary = summarise(scenario("paced-20", DIRECT, RELAY), "direct")
    assert (summary.ratio, summary.steady_ratio, summary.cpu_per_event_us) == (None, None, None)


def test_the_cost_of_a_run_is_between_its_marks() -> None:
    marks = [
        Mark("begin", 0, 0, Sample(1_000, 4096)),
        Mark("open", 10, 5, Sample(2_000, 4096 + 2 * 2048)),
        Mark("closing", 20, 15, Sample(2_500, 9999)),
        Mark("end", 30, 16, Sample(3_000, 0)),
    ]
    streams = (Seen(number=0, complete=True), Seen(number=1, error="truncated"))
    outcome = Outcome(
        run=1,
        wall_ns=30,
        events=16,
        bytes=0,
        marks=tuple(marks),
        first=spread([]),
        delay=spread([]),
        jitter_ns=0.0,
        streams=streams,
    )
    found = run_of("hoptrio", 0, outcome, Sample(4_000, 0), None)
    assert (found.cpu_ns, found.steady_cpu_ns, found.steady_events) == (3_000, 500, 10)
    assert found.rss_bytes_per_stream == 2048
    assert (found.complete, found.errors) == (1, {"truncated": 1})
    assert run_of("direct", 0, outcome, None, None).cpu_ns is None
    silent = msgspec.structs.replace(outcome, marks=(*marks, Mark("going", 15, 6, Sample(2_400, 0))))
    found = run_of("hoptrio", 0, silent, Sample(4_000, 0), None)
    assert (found.steady_cpu_ns, found.steady_events) == (100, 9)


def everything() -> Results:
    wrong = Reconciled(10, 9, 1, 5, ("stream 3: charged 1, due 2",))
    relays = RELAY, run("relay", 1)
    return results(
        scenario("paced-20", DIRECT, *relays, ours(reconciled=wrong), family="paced", absent={"nginx": "it failed"}),
        scenario("first-event", DIRECT, RELAY, ours(), per="stream"),
        scenario("idle-1000", RELAY, ours(), family="idle", streams=1000),
        scenario("converted-chat-chat", ours(), family="converted"),
        scenario("converted-messages-chat", ours(), family="converted"),
        entrants=(Entrant("hoptrio", "1"), Entrant("litellm", "", "it is not installed")),
    )


def test_the_report_says_what_is_absent_and_what_is_wrong() -> None:
    page = markdown(everything(), ["ratios"])
    for said in (
        "| hoptrio | 1 | yes |",
        "litellm is absent: it is not installed.",
        "* nginx: it failed.",
        "**hoptrio, round 1: stream 3: charged 1, due 2**",
        "1 WRONG of 10",
        "| messages | chat | 1.00 |",
        "![ratios](ratios.svg)",
        "* relay: 10 streams a round.",
    ):
        assert said in page


def test_results_are_read_again_as_they_were_written() -> None:
    assert msgspec.json.decode(msgspec.json.encode(everything()), type=Results) == everything()


def test_report_and_plots_are_made_again_from_the_results(tmp_path: Path) -> None:
    """Those that the results have figures for; the other plots are drawn in the same way."""
    found = results(scenario("idle-1000", RELAY, ours(), family="idle", streams=1000))
    (tmp_path / "results.json").write_bytes(msgspec.json.encode(found))
    assert CliRunner().invoke(report, [str(tmp_path)]).exit_code == 0
    drawn = {path.name for path in tmp_path.iterdir()} - {"results.json", "report.md"}
    assert drawn == {"ratios.png", "ratios.svg", "memory.png", "memory.svg"}
    assert "![memory](memory.svg)" in (tmp_path / "report.md").read_text()


def test_scenarios_are_listed_and_unknown_ones_refused() -> None:
    listed = CliRunner().invoke(compare, ["--list", "--scenario", "idle"])
    assert listed.output.splitlines()[0].startswith("idle-1000")
    assert CliRunner().invoke(compare, ["--scenario", "nonsense"]).exit_code == 2
    assert CliRunner().invoke(compare, ["--url", "nonsense"]).exit_code == 2
