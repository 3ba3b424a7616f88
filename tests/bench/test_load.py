"""``python -m bench load``: real streams to a provider of the harness, within its bounds, and a report."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from bench.load import REQUESTS_MAX, load
from bench.process import module, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_CORES = frozenset(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running("the provider", module("bench.provider"), cores=ALL_CORES) as process:
        yield f"http://127.0.0.1:{process.await_line(str.strip)}/v1"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(load, ["--key", "sk-secret", *arguments])


def figures(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_load_says_what_its_clients_saw(url: str, tmp_path: Path) -> None:
    report = tmp_path / "load.md"
    arguments = ("--rate", "40", "--seconds", "0.5", "--stamped", "--events", "5", "--pace", "0.01")
    result = call("--url", url, *arguments, "--json", "--out", str(report))
    found = figures(result)
    assert result.exit_code == 0
    assert (found["streams"], found["complete"], found["events"], found["errors"]) == (20, 20, 100, {})
    assert found["event_delay_ms"]["p50"] <= found["event_delay_ms"]["max"]
    # 17 + 13 x (number mod 8), and 5 + 11 x (number mod 8)
    assert found["input_tokens"] == 20 * 17 + 13 * (2 * 28 + 6)
    assert found["output_tokens"] == 20 * 5 + 11 * (2 * 28 + 6)
    assert "| complete | 20 |" in report.read_text()
    assert "sk-secret" not in report.read_text() + result.output


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages", "gemini"])
def test_events_of_any_provider_are_counted(url: str, protocol: str) -> None:
    found = figures(call("--url", url, "--protocol", protocol, "--rate", "10", "--seconds", "0.2", "--json"))
    assert (found["streams"], found["complete"]) == (2, 2)
    assert found["events"] >= 2 * 3
    assert 0 <= found["jitter_ms"] <= found["event_gap_ms"]["max"]


def test_no_more_streams_are_open_than_allowed_and_none_begins_when_the_time_is_up(url: str) -> None:
    slow = ("--stamped", "--events", "2", "--pace", "0.3")
    found = figures(call("--url", url, "--rate", "100", "--seconds", "0.4", "--streams", "2", *slow, "--json"))
    assert 2 <= found["streams"] <= 4
    assert found["complete"] == found["streams"]


def test_streams_that_outlive_the_grace_are_given_up_and_that_is_a_failure(url: str) -> None:
    slow = ("--stamped", "--events", "2", "--pace", "30")
    result = call("--url", url, "--rate", "10", "--seconds", "0.2", "--grace", "0.2", *slow, "--json")
    assert figures(result)["errors"] == {"out of time": 2}
    assert result.exit_code == 1


def test_a_gateway_that_is_not_there_is_a_failure() -> None:
    result = call("--url", "http://127.0.0.1:9", "--rate", "10", "--seconds", "0.1", "--json")
    assert figures(result)["errors"] == {"Connection refused": 1}
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--url", "http://127.0.0.1:9", "--streams", "100000"), "is not in the range"),
        (("--url", "http://127.0.0.1:9", "--seconds", "86400"), "is not in the range"),
        (("--url", "http://127.0.0.1:9", "--rate", "500", "--seconds", "900"), f"at most {REQUESTS_MAX:,}"),
        (("--url", "http://192.0.2.1", "--rate", "5", "--seconds", "10"), "up to 50 requests to 192.0.2.1; say --yes"),
        (("--url", "127.0.0.1:9"), "is not a URL"),
    ],
    ids=["streams", "seconds", "requests", "another machine", "no URL"],
)
def test_bounds_are_said_before_anything_is_sent(arguments: tuple[str, ...], complaint: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())


def test_an_interrupted_load_reports_what_there_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    def interrupt(done: int) -> None:
        told.append(done)
        if len(told) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("bench.load.bar", lambda console, what, total: nullcontext(interrupt))
    short = ("--stamped", "--events", "2", "--pace", "0.01")
    found = figures(call("--url", url, "--rate", "50", "--seconds", "60", *short, "--json"))
    assert found["stopped"] == "interrupted"
    assert found["complete"] >= told[0] > 0
    assert found["seconds"] < 30
