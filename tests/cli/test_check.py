from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hoptrio.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def initialised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in which ``hoptrio init`` has run, without the variables that its file names."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOPTRIO_CONFIG", "OPENAI_API_KEY", "HOPTRIO_CONTROL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert run(["init"]) == 0
    return tmp_path / "hoptrio.toml"


def test_what_init_writes_is_right_once_its_variables_are_set(
    initialised: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", "hush")
    assert run(["check"]) == 0
    out, err = capsys.readouterr()
    assert "gpt-5.6-sol" in out
    assert "hush" not in out + err
    assert run(["check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problems"], found["warnings"]) == (True, [], [])


def test_mistakes_are_told_with_file_line_and_key(initialised: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = initialised.read_text().splitlines()
    token = next(n for n, line in enumerate(lines, start=1) if line.startswith("token"))
    capsys.readouterr()
    assert run(["check"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"hoptrio.toml:{token}: control.token: the environment variable HOPTRIO_CONTROL_TOKEN is not set\n" in err
    assert "channels.openai.api_key: the environment variable OPENAI_API_KEY is not set\n" in err


def test_mistakes_are_one_object_for_programs(initialised: Path, capsys: pytest.CaptureFixture[str]) -> None:
    initialised.write_text("[server]\nworkers = 0\nbogus = 1\n")
    capsys.readouterr()
    assert run(["--json", "check"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert [(each["key"], each["line"]) for each in found["problems"]] == [("server.workers", 2), ("server.bogus", 3)]


def test_warnings_do_not_make_a_config_wrong(initialised: Path, capsys: pytest.CaptureFixture[str]) -> None:
    initialised.write_text("[server]\nworkers = 2\n")
    capsys.readouterr()
    assert run(["check"]) == 0
    assert "warning: hoptrio.toml:2: server.workers: " in capsys.readouterr().err
