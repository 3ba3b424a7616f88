"""The shelf: the directory of one machine's journals, one file for each gateway process that runs or was killed.

A file is locked by its process for life, so a lock that can be had belongs to a dead one, whatever has become of its
process id. Whoever has that lock may apply what is left in the file and take it off the shelf. Every change of the
directory is synced, and what is damaged or cannot be applied is set aside under another name and never deleted.

The directory belongs on a local disk, and to one machine: locks are not to be trusted on a shared one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hoptrio.ledger import journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.ledger.journal import Contents
    from hoptrio.ledger.model import Resolution

__all__ = ["AnyFile", "AnyLeft", "AnyShelf", "DiskShelf"]

_SUFFIX, _NEW, _ASIDE = ".journal", ".new", ".aside"
#: Enough for the header of a file whose owner is asked for.
_HEADER_BYTES = 4096


class AnyFile(Protocol):
    """The own journal of a process, open. After a failed `append` that left bytes behind it is `suspect`."""

    @property
    def suspect(self) -> bool:
        """Only `rewrite` makes it good again."""

    def append(self, records: bytes) -> None:
        """Durable when it returns. Raises OSError; none of it counts then."""

    def rewrite(self, records: bytes) -> None:
        """Replace what is there by `records`, durably. Raises OSError, and then the old content stands."""

    def close(self, *, keep: bool) -> None:
        """Give up the lock; without `keep` the file goes too. Raises OSError."""


class AnyLeft(Protocol):
    """A journal whose process is dead, locked by this one."""

    @property
    def name(self) -> str:
        """For the log."""

    def read(self) -> Contents: ...

    def remove(self) -> None:
        """All of it is applied. Raises OSError."""

    def set_aside(self) -> None:
        """Keep it where nobody takes it for a journal. Raises OSError."""

    def leave(self) -> None:
        """Give up the lock; whoever comes next may have it."""


class AnyShelf(Protocol):
    """Disk and memory."""

    #: True: every call is quick and may be made on the event loop.
    inline: bool

    def open(self, owner: str) -> AnyFile:
        """A new journal of `owner`'s. Raises OSError."""

    def left(self) -> tuple[list[AnyLeft], frozenset[str]]:
        """The journals of dead processes, each now locked; and the owners of those that are locked by others, this
        process included."""

    def search(self, texts: Sequence[str]) -> list[Resolution]:
        """The resolutions of any process's journal that hold one of `texts`."""


class DiskShelf:
    """`AnyShelf` over a directory, which `open` makes (0700) if there is none."""

    inline = False

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory)

    def open(self, owner: str) -> DiskFile:
        if not self._directory.is_dir():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_directory(self._directory.parent)
        name = re.sub(r"[^A-Za-z0-9.-]", "_", owner)[:150]
        while True:
            path = self._directory / f"{name}-{secrets.token_hex(4)}{_SUFFIX}"
            descriptor = _open_locked(path, os.O_CREAT | os.O_EXCL)
            # None: before it was locked somebody took it for a dead process's, and off the shelf.
            if descriptor is not None:
                return DiskFile(path, descriptor, journal.header(owner))

    def left(self) -> tuple[list[AnyLeft], frozenset[str]]:
        found: list[AnyLeft] = []
        owners: set[str] = set()
        for path in self._paths():
            # Taken off the shelf by now, or not ours to open.
            with suppress(OSError):
                descriptor = _open_locked(path)
                if descriptor is not None:
                    found.append(DiskLeft(path, descriptor))
                elif (owner := _owner_of(path)) is not None:
                    owners.add(owner)
        return found, frozenset(owners)

    def search(self, texts: Sequence[str]) -> list[Resolution]:
        needles = [text.encode() for text in texts]
        found: list[Resolution] = []
        for path in self._paths():
            with suppress(OSError):
                found += journal.search(path.read_bytes(), needles)
        return found

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob(f"*{_SUFFIX}"))


class DiskFile:
    """`AnyFile` on disk."""

    def __init__(self, path: Path, descriptor: int, header: bytes) -> None:
        """Write the header into the new, locked file. Raises OSError, and then there is no file."""
        self._path = path
        self._descriptor = descriptor
        self._header = header
        self._size = 0
        self.suspect = False
        try:
            self.append(header)
            _sync_directory(path.parent)
        except OSError:
            self.close(keep=False)
            raise

    def append(self, records: bytes) -> None:
        try:
            _write(self._descriptor, records)
        except OSError:
            self._take_back()
            raise
        try:
            _sync(self._descriptor)
        except OSError:
            # The kernel takes the pages for clean from now on, whatever reached the disk.
            self.suspect = True
            raise
        self._size += len(records)

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            self.suspect = True

    def rewrite(self, records: bytes) -> None:
        if not records and not self.suspect:
            self._empty()
            return
        new = self._path.with_suffix(_NEW)
        descriptor = _open_locked(new, os.O_CREAT | os.O_TRUNC)
        if descriptor is None:
            raise OSError(errno.EBUSY, "another process has the journal")
        try:
            _write(descriptor, self._header + records)
            _sync(descriptor)
            new.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._descriptor)
        self._descriptor, self._size, self.suspect = descriptor, len(self._header) + len(records), True
        _sync_directory(self._path.parent)
        self.suspect = False

    def _empty(self) -> None:
        """Needs no room, and so works on a full disk."""
        os.ftruncate(self._descriptor, len(self._header))
        self._size, self.suspect = len(self._header), True
        _sync(self._descriptor)
        self.suspect = False

    def close(self, *, keep: bool) -> None:
        _close(self._path, self._descriptor, keep=keep)


class DiskLeft:
    """`AnyLeft` on disk."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @property
    def name(self) -> str:
        return self._path.name

    def read(self) -> Contents:
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            return journal.read(file.read())

    def remove(self) -> None:
        _close(self._path, self._descriptor, keep=False)

    def set_aside(self) -> None:
        self._path.rename(self._path.with_suffix(_ASIDE))
        _close(self._path, self._descriptor, keep=True)

    def leave(self) -> None:
        os.close(self._descriptor)


def _owner_of(path: Path) -> str | None:
    """The owner of a file that somebody has; None while its header is being written."""
    with path.open("rb") as file:
        return journal.read(file.read(_HEADER_BYTES)).owner


def _open_locked(path: Path, flags: int = 0) -> int | None:
    """Open and lock it; None if somebody has it, or if it is no longer what the path names: files are replaced and
    removed. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _close(path: Path, descriptor: int, *, keep: bool) -> None:
    """Unlocked last, so that nobody takes a file for a dead one's that is about to go."""
    try:
        if not keep:
            path.with_suffix(_NEW).unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        _sync_directory(path.parent)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


#: What has been written, and the size; macOS has fsync alone.
_sync = getattr(os, "fdatasync", os.fsync)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
