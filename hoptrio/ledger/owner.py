"""Who owns a hold: the name of a gateway process, and what can be known of the life of the process so named.

A name is ``node:machine:pid:start``, unique to one run of one process. `machine` is the boot and the pid namespace, and
the journal if there is one: what a dead process had settled is known to those alone who share its journal. A
process that shares them can see in /proc whether the owner still runs, so a restart resolves the holds of the run that
crashed at once, and never those of a run that lives. Anywhere else only the lease tells (`recover`).
"""

from __future__ import annotations

import os
import re
import socket
from enum import Enum
from hashlib import sha256
from pathlib import Path

__all__ = ["Fate", "fate", "same_journal", "this_process"]

_NAME = re.compile(r"[^:]*:(?P<machine>[^:]+?)(?P<journal>/[0-9a-f]{8})?:(?P<pid>[0-9]+):(?P<start>[0-9]+)")


class Fate(Enum):
    """What is known of an owner without its lease."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def this_process(journal: str = "") -> str:
    """The owner name of the calling process; the same each time it is asked for. `journal` is the directory of its
    journal, "" = it has none."""
    shelf = f"/{sha256(os.path.realpath(journal).encode()).hexdigest()[:8]}" if journal else ""
    return f"{socket.gethostname()}:{_machine()}{shelf}:{os.getpid()}:{_start(os.getpid()) or 0}"


def same_journal(owner: str, other: str | None) -> bool:
    """Both have the same journal, or neither has one."""
    return _journal(owner) == _journal(other or "")


def _journal(owner: str) -> str | None:
    match = _NAME.fullmatch(owner)
    return match and match["journal"]


def fate(owner: str) -> Fate:
    """What this machine can prove about the process that is called `owner`."""
    match = _NAME.fullmatch(owner)
    if match is None or match["machine"] == "-" or match["machine"] != _machine():
        return Fate.UNKNOWN
    return Fate.ALIVE if _start(int(match["pid"])) == int(match["start"]) else Fate.DEAD


def _machine() -> str:
    """Boot id and pid namespace, "-" where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return "-"
    return f"{boot[:13]}-{re.sub(r'[^0-9]', '', namespace)}"


def _start(pid: int) -> int | None:
    """When the process started, in clock ticks since boot (proc(5), stat field 22); None = it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command may hold blanks and brackets itself; the fields begin behind the last one.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
