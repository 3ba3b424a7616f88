"""The log of several processes: one object a line, whoever else writes to the same place."""

from __future__ import annotations

import json
import os
import subprocess
import sys

LINES = 1500
WRITER = f"""
import structlog
from hoptrio.service.logs import set_up_logs
set_up_logs()
log = structlog.get_logger("test")
input()
for number in range({LINES}):
    log.info("stream", number=number, padding="x" * (number % 600))
"""


def written(write):
    """Two processes that log there at once; unbuffered, as in most containers."""
    writers = [
        subprocess.Popen([sys.executable, "-u", "-c", WRITER], stdin=subprocess.PIPE, stderr=write, text=True)
        for _ in range(2)
    ]
    os.close(write)
    for each in writers:
        each.stdin.write("go\n")
        each.stdin.close()
    return writers


def check(lines):
    assert {json.loads(line)["event"] for line in lines} == {"stream"}
    assert len(lines) == 2 * LINES


def test_every_line_of_several_processes_in_one_pipe_is_one_object():
    read, write = os.pipe()
    writers = written(write)
    with open(read, encoding="utf-8") as log:
        check(log.readlines())
    assert [each.wait(30) for each in writers] == [0, 0]


def test_every_line_of_several_processes_in_one_file_is_one_object(tmp_path):
    path = tmp_path / "log"
    writers = written(os.open(path, os.O_WRONLY | os.O_CREAT))
    assert [each.wait(30) for each in writers] == [0, 0]
    check(path.read_text().splitlines())
