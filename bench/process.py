"""Contestants as processes of their own, pinned to a core, and what they cost: nanoseconds of CPU, bytes of memory."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Contestant", "start"]


class Contestant:
    """A running gateway (or relay): its port, its key, its cost so far."""

    def __init__(self, name: str, process: subprocess.Popen[str], port: int, key: str) -> None:
        self.name = name
        self.process = process
        self.port = port
        self.key = key

    def cpu_ns(self) -> int:
        """CPU time of all its threads, from the scheduler's nanosecond counter (proc(5), schedstat)."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())

    def rss_bytes(self) -> int:
        """Resident memory."""
        return psutil.Process(self.process.pid).memory_info().rss


@contextmanager
def start(name: str, *arguments: str, core: int, key: str = "none") -> Iterator[Contestant]:
    """Run ``python -m ARGUMENTS`` on one core; the first word of its output that ends in a port is where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    try:
        os.sched_setaffinity(process.pid, {core})
        yield Contestant(name, process, _port(process), key)
    finally:
        process.terminate()
        process.wait(20)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        word = line.split()[-1].rsplit(":", 1)[-1].strip("/") if line.split() else ""
        if word.isdigit():
            return int(word)
    raise RuntimeError("the contestant ended before it listened")
