"""A worker does not outlive its supervisor: when the life pipe ends it drains, briefly, and in no case stays for long.

A thread watches, so that a worker whose event loop hangs ends too. A pipe says so however the supervisor died, and also
if that was before anybody looked; its pid or a parent-death signal would not.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["watch"]

log = structlog.get_logger("hoptrio.service")


def watch(life_fd: int, shorten: Callable[[float], None]) -> None:
    """Watch from now on. At the end of the pipe `shorten` is called on the event loop with the grace that is left, then
    this process gets SIGTERM, and SIGKILL if it is still there when it should not be."""
    token = trio.lowlevel.current_trio_token()
    threading.Thread(target=_watch, args=(life_fd, shorten, token), name="hoptrio-lifeline", daemon=True).start()


def _watch(life_fd: int, shorten: Callable[[float], None], token: trio.lowlevel.TrioToken) -> None:
    while os.read(life_fd, 1):
        pass
    log.error("the supervisor is gone", pid=os.getpid(), grace_s=limits.ORPHAN_GRACE_S)
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(shorten, limits.ORPHAN_GRACE_S)
    os.kill(os.getpid(), signal.SIGTERM)
    # Nothing sets it: this is the wait.
    threading.Event().wait(limits.ORPHAN_GRACE_S + limits.WORKER_KILL_S)
    os.kill(os.getpid(), signal.SIGKILL)
