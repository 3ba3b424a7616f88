"""The board that the processes of a machine share (`admission.board`): a small file beside the config, mapped by all.

The supervisor opens it and its workers inherit it, like the sockets; a single process does the same alone. Each holds a
lock on the file's second byte for as long as it lives, so that the next server knows whether what it finds is of
anybody, and `hoptrio route` whether there is a server to be told by. Where no file can be made, the memory has no
name: the workers share it all the same, and the command knows nothing.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import TYPE_CHECKING

import structlog

from hoptrio.admission.board import BOARD_BYTES, Board

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SharedBoard", "board_path"]

log = structlog.get_logger("hoptrio.service")

#: `admission.board` locks the first byte.
_ALIVE = 1


def board_path(config_path: Path) -> Path:
    """Where the board of a config is: one config, one database, one view of its channels."""
    return config_path.with_suffix(".health")


class SharedBoard:
    """The mapped file; `board` is what is in it. It lives as long as the process."""

    def __init__(self, fd: int) -> None:
        """Takes `fd` over. Raises OSError."""
        #: For workers to inherit.
        self.fd = fd
        self._memory = mmap.mmap(fd, BOARD_BYTES)
        self.board = Board(self._memory, fd)

    @classmethod
    def create(cls, path: Path) -> SharedBoard:
        """The board at `path`; empty, unless another server uses it. Raises OSError if there is no memory at all."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            log.warning("no file for the health of channels: `hoptrio route` cannot see it", error=str(error))
            fd = os.memfd_create("hoptrio-health")
        alone = _take(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, BOARD_BYTES)
        shared = cls(fd)
        if alone:
            shared.board.wipe()
        _take(fd, fcntl.LOCK_SH)
        return shared

    @classmethod
    def inherit(cls, fd: int) -> SharedBoard:
        """The board that the process was started with; none that it starts gets it. Raises OSError."""
        os.set_inheritable(fd, False)
        _take(fd, fcntl.LOCK_SH)
        return cls(fd)

    @classmethod
    def of_a_running_server(cls, path: Path) -> SharedBoard | None:
        """The board at `path` if a server of this machine uses it now."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        used = not _take(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if used and os.fstat(fd).st_size >= BOARD_BYTES:
            return cls(fd)
        os.close(fd)
        return None


def _take(fd: int, how: int) -> bool:
    try:
        fcntl.lockf(fd, how, 1, _ALIVE)
    except BlockingIOError:
        return False
    return True
