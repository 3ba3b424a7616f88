"""Disk: where the journals of one machine are; it outlives every process, and the machine's power.

The product's own `MemoryShelf`, watched: each settlement that it has synced is a promise the world remembers, and each
write is a moment at which its process may die. Of a process that is dead nothing arrives any more, and what it held is
free: its own file, maybe with a torn frame at its end, and the files that it was adopting.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from hoptrio.ledger import journal
from hoptrio.ledger.operations import Release
from hoptrio.ledger.shelf_memory import MemoryFile, MemoryLeft, MemoryShelf

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from bench.world.machine import Worker
    from hoptrio.ledger.journal import Contents

_FRAME = journal.as_record(Release("torn", "torn"))


class Disk(MemoryShelf):
    """`here` is the process that calls."""

    def __init__(self, here: Callable[[], Worker], rng: Random) -> None:
        super().__init__()
        self._here = here
        self._rng = rng

    def open(self, owner: str) -> MemoryFile:
        name = super().open(owner)._name
        return _File(self, name, owner, self._here())

    def die(self, owner: str) -> None:
        """A process was killed, perhaps while it wrote."""
        torn = _FRAME[: self._rng.randrange(len(_FRAME))] if self._rng.random() < 0.5 else b""
        for name in [name for name, holder in self._locks.items() if holder == owner]:
            self.unlock(name)
            if name.startswith(f"{owner}-"):
                self.files[name] += torn

    def left(self) -> tuple[list[_Left], frozenset[str]]:  # type: ignore[override]
        worker = self._here()
        if worker.crashed:
            return [], frozenset()
        found, owners = super().left()
        self._locks |= {each.name: worker.owner for each in found}
        return [_Left(self, each.name, worker) for each in found], owners


class _File(MemoryFile):
    def __init__(self, disk: Disk, name: str, owner: str, worker: Worker) -> None:
        super().__init__(disk, name, owner)
        self._worker = worker

    def append(self, records: bytes) -> None:
        self._worker.at("before journal")
        super().append(records)
        self._worker.journalled(journal.read(journal.header(self._owner) + records).settlements)
        self._worker.at("after journal")


class _Left(MemoryLeft):
    def __init__(self, disk: Disk, name: str, worker: Worker) -> None:
        super().__init__(disk, name)
        self._worker = worker

    def read(self) -> Contents:
        if self._worker.crashed:
            raise OSError(errno.EIO, "the process is dead")
        return super().read()

    def remove(self) -> None:
        self._worker.at("adoption")
        if not self._worker.crashed:
            super().remove()

    def set_aside(self) -> None:
        if not self._worker.crashed:
            super().set_aside()

    def leave(self) -> None:
        if not self._worker.crashed:
            super().leave()
