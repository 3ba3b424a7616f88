"""A home: the directory of one process's spool, inside that of the machine's. Its segments, its socket, its lock,
and its share of the disk.

The lock is held for life, so a home whose lock can be had belongs to a dead process, whatever has become of its id; its
segments are read by whoever is asked for what is in them, and it goes when the last of that has expired. One from
before the machine was started last is never read: what was not synced may be anything. Everything is for the owner of
the processes alone: directories 0700, files 0600.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.spool.segments import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Home", "is_dead", "others", "share", "socket_of"]

_LOCK = "lock"
_SOCKET = "socket"
_SHARE = "share"
_NEW = "new-"


class Home:
    """This process's. `close` gives it up, and takes it away if nothing is in it."""

    def __init__(self, spool: Path) -> None:
        """Make it in `spool`, which is made, too. Raises OSError."""
        spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spool = spool
        self.path = spool / f"{_boot()}{os.getpid()}-{secrets.token_hex(4)}"
        # Locked before it is a home: one that is not would be a dead process's to whoever looks at that moment.
        new = spool / f"{_NEW}{self.path.name}"
        new.mkdir(mode=0o700)
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        new.rename(self.path)

    @property
    def socket(self) -> Path:
        """Where this process is asked."""
        return self.path / _SOCKET

    def restore(self) -> bool:
        """Make it again where somebody has taken it away; True = that was so, and what was in it is gone. Raises
        OSError."""
        if (self.path / _LOCK).exists():
            return False
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.path / f"{_NEW}{_LOCK}"
        lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(self.path / _LOCK)
        os.close(self._lock)
        self._lock = lock
        self.socket.unlink(missing_ok=True)
        return True

    def close(self) -> None:
        """From now on it is a dead one's."""
        with suppress(OSError):
            self.socket.unlink(missing_ok=True)
            if not any(self.path.glob(f"*{SUFFIX}")):
                shutil.rmtree(self.path)
        os.close(self._lock)


def others(home: Home) -> list[Path]:
    """The homes of all other processes since the machine was started, dead or alive."""
    return [path for path in _homes(home) if path.name.startswith(_boot())]


def _homes(home: Home) -> list[Path]:
    with suppress(OSError):
        found = [path for path in sorted(home.spool.iterdir()) if path != home.path and (path / _LOCK).exists()]
        return [path for path in found if not path.name.startswith(_NEW)]
    return []


@cache
def _boot() -> str:
    """What homes since the machine was started begin with; the same for all of them where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8] + "-"
    except OSError:
        return "0-"


def socket_of(path: Path) -> Path:
    """Where the process of a home is asked."""
    return path / _SOCKET


def is_dead(path: Path) -> bool:
    """Its process is."""
    try:
        descriptor = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def share(home: Home, *, older_than_s: float, bytes_max: int, sharers: int, in_use: int | None) -> int:
    """What this process may have on disk from now on, in bytes, so that all processes together never have more than
    `bytes_max`; what dead processes have left is taken away: homes that nothing was written to since that time (wall
    clock), and the oldest files where the living need the room.

    Each says in its home what it may have, and one at a time reckons. `sharers` are expected to live, and a part is
    left for those that start. `in_use`: what this one has on disk until it has done as it is told; None = it starts,
    and leaves as much as it takes to the next one. Raises OSError.
    """
    with _alone(home.spool):
        there = _homes(home)
        dead = [path for path in there if is_dead(path)]
        living = [path for path in there if path not in dead]
        _clear(home, dead, older_than_s)
        free = bytes_max - sum(map(_declared, living))
        fair = (bytes_max - bytes_max // limits.SPOOL_SPARE) // max(sharers, 1 + len(living))
        mine = max(0, min(fair, free // 2 if in_use is None else free))
        left = _cut(dead, free - mine)
        mine = min(mine, max(0, free - left))
        _declare(home.path, max(mine, in_use or 0))
        return mine


@contextmanager
def _alone(spool: Path) -> Iterator[None]:
    descriptor = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _declare(path: Path, size: int) -> None:
    descriptor = os.open(path / _SHARE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"%d" % size)
    finally:
        os.close(descriptor)


def _declared(path: Path) -> int:
    """What a living process may have, or if it does not say, has."""
    try:
        return int((path / _SHARE).read_bytes())
    except (OSError, ValueError):
        return sum(size for _, size, _ in _files(path))


def _clear(home: Home, dead: list[Path], older_than_s: float) -> None:
    for path in home.spool.glob(f"{_NEW}*"):
        with suppress(OSError):
            if path.stat().st_mtime < older_than_s:
                shutil.rmtree(path)
    for path in dead:
        before = not path.name.startswith(_boot())
        if before or all(changed_s < older_than_s for changed_s, _, _ in _files(path)):
            shutil.rmtree(path, ignore_errors=True)


def _cut(dead: list[Path], bytes_max: int) -> int:
    """Take away the oldest files of the dead beyond this; what is left of them."""
    files = sorted(each for path in dead for each in _files(path))
    total = sum(size for _, size, _ in files)
    for _, size, file in files:
        if total <= bytes_max:
            break
        with suppress(OSError):
            file.unlink()
            total -= size
    return total


def _files(path: Path) -> Iterator[tuple[float, int, Path]]:
    """When each segment was changed, and its size."""
    for file in path.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            status = file.stat()
            yield status.st_mtime, status.st_size, file
