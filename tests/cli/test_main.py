from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import psutil
import pytest
import trio

from hoptrio import __version__
from hoptrio.cli import main as cli
from hoptrio.cli.options import AMOUNT, DATE, SIGNED_AMOUNT, Failed, Invocation, command
from hoptrio.errors import LedgerUnavailable

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = "[server]\nworkers = 0\n"


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose config has one mistake, in line 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOPTRIO_CONFIG", raising=False)
    path = tmp_path / "hoptrio.toml"
    path.write_text(BROKEN)
    return path


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``hoptrio check`` fail with `error`."""

    @command("check")
    def fails() -> None:
        raise error

    monkeypatch.setattr("hoptrio.cli.check.check", fails)


def test_help_lists_every_command_without_importing_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


def test_starting_up_imports_neither_trio_nor_pydantic_nor_rich() -> None:
    code = "import sys, hoptrio.cli.main; print(sorted({'trio', 'pydantic', 'rich', 'msgspec'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_module_runs_like_the_console_script() -> None:
    found = subprocess.run([sys.executable, "-m", "hoptrio", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"hoptrio {__version__}\n"


@pytest.mark.parametrize("args", [["nope"], ["--nope"], ["check", "--nope"], ["check", "extra"], ["--config"]])
def test_wrong_usage_is_one_line_and_status_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(args) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("hoptrio: ")


def test_wrong_usage_is_an_object_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--nope", "--json"]) == 2
    assert "--nope" in json.loads(capsys.readouterr().err)["error"]["message"]


def test_no_command_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["--config", "FILE", "--json", "check"],
        ["check", "--json", "--config", "FILE"],
        ["--json", "check", "--config=FILE"],
    ],
)
def test_config_and_json_stand_before_or_after_the_command(
    args: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.toml"
    path.write_text(BROKEN)
    assert cli.run([each.replace("FILE", str(path)) for each in args]) == 2
    assert json.loads(capsys.readouterr().out)["problems"][0]["file"] == str(path)


def test_the_config_is_the_option_else_the_variable_else_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    invocation = Invocation()
    monkeypatch.delenv("HOPTRIO_CONFIG", raising=False)
    assert str(invocation.path) == "hoptrio.toml"
    monkeypatch.setenv("HOPTRIO_CONFIG", "from-env.toml")
    assert str(invocation.path) == "from-env.toml"


@pytest.mark.parametrize(
    "args", [["--json", "init"], ["--config", "x", "init"], ["init", "--json"], ["init", "--config", "x"]]
)
def test_commands_without_a_config_take_neither_option(
    args: list[str], broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(args) == 2
    assert "--" in capsys.readouterr().err
    assert broken.read_text() == BROKEN


def test_an_expected_failure_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(Failed("no such account", name="acme"), monkeypatch)
    assert cli.run(["check"]) == 1
    assert capsys.readouterr().err == "hoptrio: no such account\n"
    assert cli.run(["check", "--json"]) == 1
    assert json.loads(capsys.readouterr().err) == {"error": {"message": "no such account", "name": "acme"}}


def test_a_failure_inside_a_nursery_is_told_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = LedgerUnavailable("the ledger is locked")
    failing(ExceptionGroup("nursery", [ExceptionGroup("nursery", [error])]), monkeypatch)
    assert cli.run(["check"]) == 1
    assert capsys.readouterr().err == "hoptrio: the ledger is locked\n"


def test_a_port_in_use_is_an_expected_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(OSError(98, "Address already in use"), monkeypatch)
    assert cli.run(["check"]) == 1
    assert "Address already in use" in capsys.readouterr().err


def test_an_interrupt_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(KeyboardInterrupt(), monkeypatch)
    assert cli.run(["check"]) == 1
    assert "".join(capsys.readouterr()).strip() == ""


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(RuntimeError("a bug"), monkeypatch)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.run(["check"])


def test_any_command_tells_the_mistakes_of_the_config(
    broken: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @command("serve")
    @click.pass_obj
    def serve(invocation: Invocation) -> None:
        invocation.config()

    monkeypatch.setitem(cli.COMMANDS, "check", cli.Lazy("check", ""))
    monkeypatch.setattr("hoptrio.cli.check.check", serve)
    assert cli.run(["check"]) == 2
    assert capsys.readouterr().err.startswith("hoptrio: hoptrio.toml:2: server.workers: ")
    assert cli.run(["check", "--json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["problems"][0]["line"] == 2


def test_commands_run_on_trio() -> None:
    async def work(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return number + 1

    assert Invocation().run(work, 1) == 2


def test_rows_are_an_array_for_programs_and_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    invocation = Invocation()
    rows = [{"name": "[red]a", "balance": "1.5", "keys": ["x", "y"], "note": None}]
    invocation.emit_rows(rows, ["name", "balance", "keys", "note"])
    text = capsys.readouterr().out
    assert all(each in text for each in ("[red]a", "1.5", "x, y", "-"))
    invocation.json = True
    invocation.emit_rows(rows, ["name"])
    assert json.loads(capsys.readouterr().out) == rows


def test_one_value_is_an_object_for_programs_and_its_members_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    invocation = Invocation()
    invocation.emit({"name": "a", "held": "0"})
    assert "held  0" in capsys.readouterr().out
    invocation.emit({"secret": "s"}, "the secret is s")
    assert capsys.readouterr().out == "the secret is s\n"


def test_amounts_and_dates_are_converted() -> None:
    assert AMOUNT("0.128") == 128_000_000
    assert SIGNED_AMOUNT("-1") == -1_000_000_000
    assert DATE("2027-01-31") == DATE("2027-01-31T01:00:00+01:00") == 1_801_353_600_000
    for kind, text in ((AMOUNT, "-1"), (AMOUNT, "1e3"), (DATE, "tomorrow")):
        with pytest.raises(click.BadParameter):
            kind(text)


_SLOW_TO_START = """
import time
from hoptrio.cli import main as cli
cli.run = lambda args: print("up", flush=True) or time.sleep(60)
cli.main([])
"""


def may_be_the_first_process() -> bool:
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


def test_the_first_process_of_a_container_can_be_stopped_while_it_starts() -> None:
    if not may_be_the_first_process():
        pytest.skip("a process namespace of one's own needs rights")
    argv = ["unshare", "--pid", "--fork", sys.executable, "-c", _SLOW_TO_START]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        [first] = psutil.Process(process.pid).children()
        first.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("columns", "shown", "hidden"),
    [("50", ["id"], "a b, c"), ("60", ["id", "a b"], "c"), ("200", ["id", "a b", "c"], "")],
)
def test_a_value_that_may_be_copied_is_never_folded(
    columns: str, shown: list[str], hidden: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    rows = [{"id": "req_" + "0" * 36, "a_b": "x" * 9, "c": "y" * 60}]
    Invocation().emit_whole(rows, ["id", "a_b", "c"])
    out = capsys.readouterr().out
    assert out.splitlines()[1].replace("┃", " ").split() == " ".join(shown).split()
    assert rows[0]["id"] in out
    said = out.rpartition("┘\n")[2]
    assert " ".join(said.split()) == (f"on a wider terminal, and with --json: {hidden}" if hidden else "")
