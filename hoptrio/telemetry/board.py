"""The board of figures: memory that the processes of a machine map, a slot for each, so that any can tell of all.

A process claims a slot with a lock of the operating system on one byte of the file, which dies with it; what the dead
one before had counted is there to go on from. It writes its snapshot into one half of the slot while readers have the
other, and then turns: nobody waits for anybody, and a process that hangs or dies in between leaves what it had told
last. What has not been renewed for `limits.FIGURES_STALE_S` is a dead process's.

Live streams are told only while somebody wants them (`want_live`): that is many bytes, and seldom asked for.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

from hoptrio import limits
from hoptrio.telemetry.snapshot import Snapshot, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FiguresBoard", "Told"]

#: Until when live streams are wanted, in seconds of `time.monotonic`, which is one clock for a machine.
_WANTED = struct.Struct("<d")
#: `aside` follows.
_HEADER_BYTES = 64 + limits.SESSIONS_BYTES
#: Times written, when last, bytes, which half.
_SLOT = struct.Struct("<QdQQ")
_SLOT_HEADER_BYTES = 64
_SLOT_BYTES = _SLOT_HEADER_BYTES + 2 * limits.FIGURES_BYTES_MAX


class Told(NamedTuple):
    """What a process told of itself, and whether it lives."""

    snapshot: Snapshot
    alive: bool


class FiguresBoard:
    """`fd` is the file behind the memory, which holds the locks; None for a process alone."""

    def __init__(self, slots: int = 1, fd: int | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        """Takes `fd` over, and the number of slots from its size."""
        #: -1 = nobody shares it.
        self.fd = -1 if fd is None else fd
        self._now = now
        if fd is not None:
            slots = (os.fstat(fd).st_size - _HEADER_BYTES) // _SLOT_BYTES
        self._slots = slots
        self._memory = mmap.mmap(self.fd, _HEADER_BYTES + slots * _SLOT_BYTES)
        self._mine: int | None = None
        #: Memory beside the figures that the same processes share, all zeros at first: the sessions of people.
        self.aside = memoryview(self._memory)[64:_HEADER_BYTES]

    @classmethod
    def shared(cls, slots: int) -> FiguresBoard:
        """One that processes started from here can inherit by its `fd`. Raises OSError.

        It has no name in any file system; pages that are not written take no memory.
        """
        fd = os.memfd_create("hoptrio-figures")
        os.ftruncate(fd, _HEADER_BYTES + slots * _SLOT_BYTES)
        return cls(fd=fd)

    @classmethod
    def inherit(cls, fd: int) -> FiguresBoard:
        """The one that the process was started with; none that it starts gets it. Raises OSError."""
        os.set_inheritable(fd, False)
        return cls(fd=fd)

    # -- telling ------------------------------------------------------------------------------------------------------

    def claim(self) -> Snapshot | None:
        """Take a slot, for as long as the process lives; what the one before had counted there, if there was one.

        Raises OSError if there is no slot left.
        """
        self._mine = self._free_slot()
        return self._read(self._mine)[0]

    def tell(self, told: Snapshot) -> None:
        """Write what is true now into the slot that was claimed."""
        assert self._mine is not None, "a slot is claimed first"
        at = self._at(self._mine)
        written, _, _, half = _SLOT.unpack_from(self._memory, at)
        encoded = encode(told)
        half = 1 - half
        start = at + _SLOT_HEADER_BYTES + half * limits.FIGURES_BYTES_MAX
        self._memory[start : start + len(encoded)] = encoded
        _SLOT.pack_into(self._memory, at, written + 1, self._now(), len(encoded), half)

    def leave(self) -> None:
        """This process counts no more: what it counted stays, and nothing of it is open."""
        if self._mine is not None:
            at = self._at(self._mine)
            written, _, size, half = _SLOT.unpack_from(self._memory, at)
            _SLOT.pack_into(self._memory, at, written + 1, 0.0, size, half)

    @property
    def live_wanted(self) -> bool:
        """Does anybody look at live streams?"""
        until_s: float = _WANTED.unpack_from(self._memory, 0)[0]
        return self._now() < until_s

    # -- asking -------------------------------------------------------------------------------------------------------

    def want_live(self) -> None:
        """Somebody looks at live streams, for a while from now on."""
        _WANTED.pack_into(self._memory, 0, self._now() + limits.FIGURES_WANTED_S)

    def read(self) -> list[Told]:
        """What every process told last, dead ones included."""
        now_s, found = self._now(), []
        for slot in range(self._slots):
            told, written_at_s = self._read(slot)
            if told is not None:
                found.append(Told(told, alive=now_s - written_at_s < limits.FIGURES_STALE_S))
        return found

    def _read(self, slot: int) -> tuple[Snapshot | None, float]:
        """A slot's snapshot and when it was written: read until its header stays the same meanwhile."""
        at = self._at(slot)
        for _ in range(8):
            header = bytes(self._memory[at : at + _SLOT.size])
            written, written_at_s, size, half = _SLOT.unpack(header)
            if not written:
                return None, 0.0
            start = at + _SLOT_HEADER_BYTES + half * limits.FIGURES_BYTES_MAX
            encoded = bytes(self._memory[start : start + size])
            if header == self._memory[at : at + _SLOT.size]:
                return decode(encoded), written_at_s
        return None, 0.0

    def _free_slot(self) -> int:
        if self.fd == -1:
            return 0
        for slot in range(self._slots):
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
            except BlockingIOError:
                continue
            return slot
        raise OSError("every slot of the board of figures is taken")

    def _at(self, slot: int) -> int:
        return _HEADER_BYTES + slot * _SLOT_BYTES
