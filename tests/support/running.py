"""Runs hoptrio's servers as subprocesses, for tests whose clients are not trio's (the official SDKs, curl, node)."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command", "process", "simulator"]

_READY_S = 20.0
_SIMULATE = "from hoptrio.cli.simulate import simulate; simulate()"


@contextmanager
def command(argv: list[str], ready: str) -> Iterator[re.Match[str]]:
    """Run `argv` until the block ends; yields the match of `ready` in its output as soon as there is one."""
    with process(argv, ready) as (_, match):
        yield match


@contextmanager
def process(argv: list[str], ready: str) -> Iterator[tuple[int, re.Match[str]]]:
    """`command` with the process id beside the match.

    Raises RuntimeError with what it printed if it ends, or 20 s pass, before there is one.
    """
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    alarm = threading.Timer(_READY_S, running.kill)
    alarm.start()
    # A server that logs must never wait for us to read.
    drain = threading.Thread(target=deque, args=(running.stdout, 0), daemon=True)
    try:
        match = _await_line(running.stdout, ready)
        alarm.cancel()
        drain.start()
        yield running.pid, match
    finally:
        alarm.cancel()
        running.terminate()
        running.wait(10)
        if drain.ident is not None:
            drain.join(10)
        running.stdout.close()


def _await_line(output: Iterator[str], ready: str) -> re.Match[str]:
    printed = ""
    for line in output:
        printed += line
        match = re.search(ready, printed)
        if match is not None:
            return match
    raise RuntimeError("it did not get ready:\n" + printed)


@contextmanager
def simulator(*arguments: str) -> Iterator[str]:
    """Run ``hoptrio simulate`` on a free port; yields its base URL."""
    argv = [sys.executable, "-c", _SIMULATE, "--listen", "127.0.0.1:0", *arguments]
    with command(argv, r"http://\S+") as match:
        yield match[0]
