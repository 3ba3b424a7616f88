"""``hoptrio conform``: its usage, and what it prints of a run."""

from __future__ import annotations

import json
import tomllib

import pytest

from bench.process import free_port
from hoptrio.cli.main import run
from hoptrio.config import build
from tests.support.conforming import hoptrio_at


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with hoptrio_at(tmp_path_factory.mktemp("conform")) as place:
        yield place


def conform(capsys, *arguments):
    """(exit status, stdout, stderr)"""
    status = run(["conform", *arguments])
    return status, *capsys.readouterr()


def at(place, *arguments):
    return ("--url", place.url, "--key", place.key, "--upstream", f"127.0.0.1:{place.port}", *arguments)


def test_a_run_prints_a_table_writes_a_page_and_is_0(place, capsys, tmp_path):
    page = tmp_path / "report.md"
    arguments = ("--case", "21", "--case", "52", "--name", "the gateway 1.0", "--report", str(page))
    status, out, err = conform(capsys, *at(place, *arguments))
    assert (status, err.split("\n")[-2]) == (0, "11 of 11")
    assert "the gateway 1.0" in out
    assert "wire: 7 pass; money: 11 pass" in out
    text = page.read_text()
    assert text.startswith("# Conformance: the gateway 1.0\n")
    right = "The connection breaks, or an error event stands before its end."
    assert f"| 21 | a truncated body that looks whole | {right} | pass | pass | pass | pass | pass |" in text
    assert "* 71 a crash that leaks a hold: needs the process to be killed" in text


def test_json_is_all_of_it_and_nothing_else(place, capsys):
    status, out, err = conform(capsys, *at(place, "--case", "45", "--protocol", "chat", "--json"))
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert (told["passed"], told["summary"]) == (True, "wire: 1 pass; money: 5 pass")
    case = next(each for each in told["cases"] if each["number"] == 45)
    assert case["rows"] == [{"protocol": "chat", "verdict": "pass", "money": "pass", "findings": []}]
    assert {each["number"] for each in told["unseen"]} == {12, 51, 62, 68, 71, 98, 100}


def test_a_fault_is_exit_status_1_and_told_in_words(place, capsys):
    """Keep-alives that are said to come every two seconds, and come every three."""
    status, out, _ = conform(capsys, *at(place, "--case", "11", "--keepalive", "2", "--protocol", "chat"))
    assert status == 1
    assert "fails: 3 s passed without a byte, and the interval is 2 s: 11 keep-alives on every route (chat)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--url is missing"),
        (["--url", "gateway:8080"], "is not a URL such as http://127.0.0.1:8080"),
        (["--url", "http://x", "--key", "sk 1"], "the key has characters that no header can carry"),
        (["--url", "http://x", "--upstream", "8090"], "is not HOST:PORT"),
        (["--url", "http://x", "--case", "3"], "there is no case 3"),
        (["--url", "http://x", "--case", "71"], "case 71 cannot be tried from outside: needs the process to be killed"),
        (["--url", "http://x", "--quick", "--deadline"], "--quick and --deadline exclude each other"),
        (["--url", f"http://127.0.0.1:{free_port()}", "--upstream", "127.0.0.1:0"], "is the gateway running"),
        (["--config", "x.toml", "--list"], "No such option"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_is_wrong(arguments, message, capsys):
    status, out, err = conform(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_a_key_that_is_refused_is_status_2_and_is_not_repeated(place, capsys):
    status, _, err = conform(capsys, *at(place, "--key", "sk-secret-word"))
    assert status == 2
    assert "the gateway refused the key with a 401" in err
    assert "sk-secret-word" not in err


def test_a_key_may_come_by_the_environment(place, capsys, monkeypatch):
    monkeypatch.setenv("HOPTRIO_CONFORM_KEY", place.key)
    arguments = ("--url", place.url, "--upstream", f"127.0.0.1:{place.port}", "--case", "20", "--protocol", "gemini")
    assert conform(capsys, *arguments)[0] == 0


def test_the_cases_can_be_listed_for_people_and_for_programs(capsys):
    assert conform(capsys, "--list")[1].count("│ 21 ") == 1
    rows = json.loads(conform(capsys, "--list", "--json")[1])
    assert {"number", "name", "fault", "right"} == rows[0].keys()


def test_the_printed_config_of_hoptrio_is_one(capsys, tmp_path):
    printed = conform(capsys, "--print-config", "hoptrio", "--upstream", "127.0.0.1:9", "--keepalive", "5")[1]
    config = build(tomllib.loads(printed), directory=tmp_path)
    assert config.warnings == ()
    assert set(config.catalogue.models) == {f"conform-{each}" for each in ("chat", "responses", "messages", "gemini")}
    assert config.contracts["conform"].keepalive_seconds == 5


@pytest.mark.parametrize(
    ("url", "listen"),
    [
        ((), ("127.0.0.1", 8080)),
        (("--url", "http://127.0.0.1:18400"), ("127.0.0.1", 18400)),
        (("--url", "http://[::1]:18400/v1"), ("::1", 18400)),
    ],
)
def test_the_printed_config_of_hoptrio_listens_where_the_gateway_is_looked_for(capsys, tmp_path, url, listen):
    printed = conform(capsys, "--print-config", "hoptrio", *url)[1]
    assert build(tomllib.loads(printed), directory=tmp_path).server.listen == listen


@pytest.mark.parametrize(("url", "port"), [((), 4000), (("--url", "http://127.0.0.1:18400"), 18400)])
def test_the_printed_config_of_litellm_says_the_port(capsys, url, port):
    printed = conform(capsys, "--print-config", "litellm", *url)[1]
    assert f"litellm --config FILE --port {port}\n" in printed


def test_the_printed_config_of_litellm_has_a_model_for_each_protocol(capsys):
    printed = conform(capsys, "--print-config", "litellm", "--upstream", "127.0.0.1:9", "--model", "m-{protocol}")[1]
    models = printed.split("  - model_name: ")[1:]
    assert [each.partition("\n")[0] for each in models] == ["m-chat", "m-responses", "m-messages", "m-gemini"]
    assert "model: anthropic/m-messages\n" in models[2]
    assert "api_base: http://127.0.0.1:9/v1\n" in models[0]


def test_a_page_that_cannot_be_written_is_told_before_the_run(place, capsys, tmp_path):
    status, out, err = conform(capsys, *at(place, "--case", "21", "--report", str(tmp_path / "none" / "x.md")))
    assert (status, out) == (2, "")
    assert "x.md cannot be written: No such file or directory" in err
