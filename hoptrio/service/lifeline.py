"""A worker does not outlive its supervisor: when the life pipe ends it drains, briefly, and in no case stays for long.

A thread watches, so that a worker whose event loop hangs ends too. A pipe says so however the supervisor died, and also
if that was before anybody looked; its pid or a parent-death signal would not.
"""

from __future__ import annotations

import os
import signal
import threading

import structlog

from hoptrio import limits

__all__ = ["HURRY", "RETIRE", "watch"]

log = structlog.get_logger("hoptrio.service")

#: How a supervisor tells a worker that another has taken its place, and that the grace is over: not by signals that a
#: terminal or a service manager sends to every process of a service beside us.
RETIRE = signal.SIGUSR1
HURRY = signal.SIGUSR2


def watch(life_fd: int) -> None:
    """Watch from now on. At the end of the pipe this process is told to stop, then to hurry, then killed."""
    threading.Thread(target=_watch, args=(life_fd,), name="hoptrio-lifeline", daemon=True).start()


def _watch(life_fd: int) -> None:
    while os.read(life_fd, 1):
        pass
    log.error("the supervisor is gone", pid=os.getpid(), grace_s=limits.ORPHAN_GRACE_S)
    # Nothing sets it: this is how a thread waits.
    never = threading.Event()
    os.kill(os.getpid(), signal.SIGTERM)
    never.wait(limits.ORPHAN_GRACE_S)
    os.kill(os.getpid(), HURRY)
    never.wait(limits.WORKER_KILL_S)
    os.kill(os.getpid(), signal.SIGKILL)
