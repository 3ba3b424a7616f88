"""The shelf over dictionaries: for gateways on the mock clock, whose machine tests break and whose processes they kill.
It keeps nothing beyond the process; several ledgers share one as the processes of a machine share a directory.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from hoptrio.ledger import journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.ledger.journal import Contents
    from hoptrio.ledger.model import Resolution
    from hoptrio.ledger.shelf import AnyLeft

__all__ = ["MemoryShelf"]


class MemoryShelf:
    """`shelf.AnyShelf` without a disk."""

    inline = True

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.aside: dict[str, bytearray] = {}
        #: The disk is full: nothing can be appended.
        self.full = False
        #: Name -> who has it locked.
        self._locks: dict[str, str] = {}
        self._opened = 0

    def open(self, owner: str) -> MemoryFile:
        self._opened += 1
        name = f"{owner}-{self._opened}"
        self.files[name] = bytearray()
        self._locks[name] = owner
        file = MemoryFile(self, name, owner)
        file.rewrite(b"")
        return file

    def crash(self, owner: str, torn: bytes = b"") -> None:
        """Kill a process: its locks are gone, and nothing that it still does arrives. `torn` is what it was writing."""
        for name in [name for name, holder in self._locks.items() if holder == owner]:
            del self._locks[name]
            self.files[name] += torn

    def has(self, name: str, owner: str) -> bool:
        """`owner` still has this file locked."""
        return self._locks.get(name) == owner

    def unlock(self, name: str) -> None:
        """Anybody may have it now."""
        self._locks.pop(name, None)

    def left(self) -> tuple[list[AnyLeft], frozenset[str]]:
        free = [name for name in self.files if name not in self._locks]
        owners = {journal.read(bytes(self.files[name])).owner for name in self._locks}
        self._locks |= dict.fromkeys(free, "adopted")
        return [MemoryLeft(self, name) for name in free], frozenset(owner for owner in owners if owner)

    def search(self, texts: Sequence[str]) -> list[Resolution]:
        needles = [text.encode() for text in texts]
        return [each for data in self.files.values() for each in journal.search(bytes(data), needles)]


class MemoryFile:
    """`shelf.AnyFile`."""

    suspect = False

    def __init__(self, shelf: MemoryShelf, name: str, owner: str) -> None:
        self._shelf = shelf
        self._name = name
        self._owner = owner

    def append(self, records: bytes) -> None:
        if self._shelf.full or not self._shelf.has(self._name, self._owner):
            raise OSError(errno.ENOSPC, "the disk is full, or the process dead")
        self._shelf.files[self._name] += records

    def rewrite(self, records: bytes) -> None:
        if self._shelf.has(self._name, self._owner):
            self._shelf.files[self._name][:] = journal.header(self._owner) + records

    def close(self, *, keep: bool) -> None:
        if self._shelf.has(self._name, self._owner):
            self._shelf.unlock(self._name)
            if not keep:
                del self._shelf.files[self._name]


class MemoryLeft:
    """`shelf.AnyLeft`."""

    def __init__(self, shelf: MemoryShelf, name: str) -> None:
        self._shelf = shelf
        self.name = name

    def read(self) -> Contents:
        return journal.read(bytes(self._shelf.files[self.name]))

    def remove(self) -> None:
        del self._shelf.files[self.name]
        self._shelf.unlock(self.name)

    def set_aside(self) -> None:
        self._shelf.aside[self.name] = self._shelf.files.pop(self.name)
        self._shelf.unlock(self.name)

    def leave(self) -> None:
        self._shelf.unlock(self.name)
