"""SIGHUP while a gateway starts: it is kept until somebody listens for it, and does not end the process.

It asks for a reload, and whoever renews a certificate sends it without knowing what the gateway is at. Threads that
begin in between never get it; processes are started only after it is heard.
"""

from __future__ import annotations

import signal

__all__ = ["hear_hangups", "keep_hangups"]

_HANGUPS = (signal.SIGHUP,)


def keep_hangups() -> None:
    """From now on the kernel keeps one for us."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANGUPS)


def hear_hangups() -> None:
    """There is a handler: it gets what was kept."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANGUPS)
