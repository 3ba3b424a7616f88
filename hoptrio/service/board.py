"""The board that the processes of a machine share (`admission.board`): a small file beside the config, mapped by all;
beside the ledger where the config's directory cannot be written.

The supervisor opens it and its workers inherit it, like the sockets; a single process does the same alone. Each holds a
lock on the file's second byte for as long as it lives, so that the next server knows whether what it finds is of
anybody, and `hoptrio route` whether there is a server to be told by. Where no file can be made, the memory has no
name: the workers share it all the same, and the command knows nothing.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from hoptrio.admission.board import BOARD_BYTES, Board

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.config import LedgerSettings

__all__ = ["SharedBoard", "board_paths"]

log = structlog.get_logger("hoptrio.service")

#: `admission.board` locks the first byte.
_ALIVE = 1


def board_paths(config_path: Path, ledger: LedgerSettings) -> Sequence[Path]:
    """Where the board of a config may be, the first that can be made: one config, one database, one view of its
    channels."""
    beside = config_path.absolute().with_suffix(".health")
    # A server writes there whatever else is read-only: the database's directory, or the one that has the journal in it.
    written = Path(ledger.journal or ledger.url.removeprefix("sqlite:///")).parent
    return tuple(dict.fromkeys([beside, written / beside.name]))


class SharedBoard:
    """The mapped file; `board` is what is in it. It lives as long as the process."""

    def __init__(self, fd: int) -> None:
        """Takes `fd` over. Raises OSError."""
        #: For workers to inherit.
        self.fd = fd
        self._memory = mmap.mmap(fd, BOARD_BYTES)
        self.board = Board(self._memory, fd)

    @classmethod
    def create(cls, paths: Sequence[Path]) -> SharedBoard:
        """The board at the first of `paths` where it can be; empty, unless another server uses it. Raises OSError if
        there is no memory at all."""
        fd = _opened(paths)
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
    def of_a_running_server(cls, paths: Sequence[Path]) -> SharedBoard | None:
        """The board at the first of `paths` where a server of this machine uses one now."""
        return next(filter(None, map(cls._in_use, paths)), None)

    @classmethod
    def _in_use(cls, path: Path) -> SharedBoard | None:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        used = not _take(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if used and os.fstat(fd).st_size >= BOARD_BYTES:
            return cls(fd)
        os.close(fd)
        return None


def _opened(paths: Sequence[Path]) -> int:
    """The file, or memory without a name."""
    errors = []
    for path in paths:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            errors.append(str(error))
    log.warning("no file for the health of channels: `hoptrio route` cannot see it", error="; ".join(errors))
    return os.memfd_create("hoptrio-health")


def _take(fd: int, how: int) -> bool:
    try:
        fcntl.lockf(fd, how, 1, _ALIVE)
    except BlockingIOError:
        return False
    return True
