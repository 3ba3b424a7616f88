"""What processes cost: nanoseconds of CPU from the kernel's own sum, bytes of resident memory. Linux.

The CPU clock of a process (clock_getcpuclockid(3)) is the scheduler's `sum_exec_runtime` over all its threads, the
ended ones included, in nanoseconds; ``/proc/PID/stat`` has ticks of 10 ms, and ``schedstat`` forgets ended threads.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.job import Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["cpu_ns", "descriptors", "rss_bytes", "sample", "threads", "tree", "uss_bytes"]

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: CPUCLOCK_SCHED, for a process and not a thread (include/linux/posix-timers.h).
_PROCESS_SCHED = 2


def cpu_ns(pid: int) -> int:
    """CPU time of one process since it began; 0 if it has ended."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _PROCESS_SCHED)
    except OSError:
        return 0


def rss_bytes(pid: int) -> int:
    """Resident memory of one process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def uss_bytes(pid: int) -> int:
    """Memory that would be free if this process ended: its private pages; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def descriptors(pid: int) -> int:
    """Open files and sockets of one process; 0 if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def threads(pid: int) -> int:
    """Threads of one process; 0 if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def sample(pids: Iterable[int]) -> Sample:
    """Both, of all of them."""
    each = tuple(pids)
    return Sample(sum(map(cpu_ns, each)), sum(map(rss_bytes, each)))


def tree(pid: int) -> tuple[int, ...]:
    """A process and everything below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return tuple(found)
