"""``hoptrio simulate``."""

from __future__ import annotations

import json
import urllib.request

import pytest
from click.testing import CliRunner

from hoptrio.cli.simulate import simulate
from tests.support.running import simulator


def invoke(*arguments):
    return CliRunner().invoke(simulate, arguments)


def test_the_help_teaches_the_language():
    answer = invoke("--help")
    assert answer.exit_code == 0
    assert "\n  in the stream: error[:CODE]" in answer.output or "    in the stream: error[:CODE]" in answer.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "8080"], "is not HOST:PORT"),
        (["--listen", "host:99999"], "is not HOST:PORT"),
        (["--script", "evnts=3"], "is not a key of the sim line"),
        (["--replay", "/no/such/place"], "does not exist"),
    ],
)
def test_wrong_usage_is_status_2(arguments, message):
    answer = invoke(*arguments)
    assert answer.exit_code == 2
    assert message in answer.output


def test_a_directory_without_recordings_is_wrong_usage(tmp_path):
    assert "no .sse file" in invoke("--replay", str(tmp_path)).output


def test_it_serves_and_tells_what_it_saw(tmp_path):
    (tmp_path / "recorded.sse").write_bytes(b"data: [DONE]\n\n")
    with simulator("--replay", str(tmp_path), "--script", "text=yes events=1 pace=0") as base_url:

        def post(model):
            body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hello"}]}).encode()
            with urllib.request.urlopen(base_url + "/v1/chat/completions", data=body) as answer:
                return answer.read()

        assert json.loads(post("any"))["choices"][0]["message"]["content"] == "yes"
        assert post("recorded") == b"data: [DONE]\n\n"
        with urllib.request.urlopen(base_url + "/_sim/requests") as answer:
            assert json.load(answer)["count"] == 2


def test_a_port_in_use_is_said():
    with simulator() as base_url:
        answer = invoke("--listen", base_url.removeprefix("http://"))
    assert answer.exit_code == 1
    assert "cannot listen on" in answer.output
