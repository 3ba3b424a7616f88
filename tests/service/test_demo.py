"""The demo as a stranger meets it: what it prints works as printed, and it leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from hoptrio.cli.demo import demo as demo_command

CURL = shutil.which("curl")
#: What the last event of each protocol's stream holds, in the order in which the lines are printed.
TERMINALS = ["[DONE]", "response.completed", "message_stop", '"finishReason":"STOP"']


@contextmanager
def demo(*arguments):
    """Run it; yields the process and the lines it printed, up to the last one."""
    argv = [sys.executable, "-m", "hoptrio", "demo", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            printed = []
            while process.stdout and printed[-1:] != ["Ctrl-C stops it."]:
                line = process.stdout.readline()
                assert line, f"it ended: {printed}"
                printed.append(line.rstrip("\n"))
            yield process, printed
        finally:
            process.kill()


def run(line):
    """A printed line, in a shell."""
    done = subprocess.run(["sh", "-c", f"{line} -s -m 20"], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


@pytest.mark.skipif(CURL is None, reason="the lines are curl's")
def test_the_printed_lines_work_as_printed_and_ctrl_c_leaves_nothing_behind():
    with demo() as (process, printed):
        *streams, account = [line for line in printed if line.startswith("curl ")]
        for line, terminal in zip(streams, TERMINALS, strict=True):
            assert terminal in run(line)
        books = json.loads(run(account))
        assert (books["name"], books["held"], books["currency"]) == ("demo", "0", "USD")
        assert 99 < float(books["balance"]) < 100
        [page] = [line.split()[1] for line in printed if line.split()[:1] == ["open"]]
        assert "API reference" in run(f"curl {page}api/ -H 'authorization: Bearer demo'")
        directory = next(Path(line.split()[1]) for line in printed if line.split()[:1] == ["database"])
        assert directory.is_dir()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert not directory.exists()


def test_a_directory_of_ones_own_keeps_its_books(tmp_path):
    balances = []
    for _ in range(2):
        with demo("--dir", str(tmp_path)) as (process, printed):
            if CURL is not None:
                streams = [line for line in printed if line.startswith("curl ")]
                run(streams[0])
                balances.append(float(json.loads(run(streams[-1]))["balance"]))
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
    assert (tmp_path / "hoptrio.db").is_file()
    assert balances == sorted(balances, reverse=True)


def test_an_address_that_is_taken_is_one_clear_line():
    with demo() as (_, printed):
        address = printed[0].split("http://")[1]
        argv = [sys.executable, "-m", "hoptrio", "demo", "--listen", address]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("hoptrio: ")
    assert address in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--listen", "--control"])
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80", ":80"])
def test_it_listens_on_loopback_and_nowhere_else(option, address):
    refused = CliRunner().invoke(demo_command, [option, address])
    assert refused.exit_code == 2
    assert "loopback" in refused.output
