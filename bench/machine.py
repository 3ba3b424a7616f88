"""What this machine is, in the words that a reader of figures asks for. No name of it, no path on it."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path

__all__ = ["described"]


def described(cores: str) -> dict[str, str]:
    """Processor, kernel, Python, limits and who ran on which core."""
    load, _, _ = os.getloadavg()
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "pinned": cores,
        "kernel": platform.release(),
        "Python": platform.python_version(),
        "open files allowed": str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "load average at the beginning": f"{load:.2f}",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
