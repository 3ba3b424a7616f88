"""The board: where the processes of a machine keep what they know of channels in trouble, in memory that they share.

A fixed table of slots, found by a hash of the channel's and the model's name, so that processes with different configs
(a rolling restart, a reload) agree without talking: what a config no longer names is forgotten by age, and its slot is
used again. A bucket that is full of trouble loses what ends first. Names are stored as hashes, and no secret is there.

Changes are made under a lock of the operating system, which dies with its process; one that was stopped with it is
waited for briefly, then the change is dropped: health is advice, and nothing may hang for it. Reading takes no lock: a
slot is read until it reads the same twice.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.admission.health import Fault, Trouble

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

__all__ = ["BOARD_BYTES", "Board"]

#: Changes since the last wipe: 0 = nobody is in trouble, and nobody has to look.
_CHANGES = struct.Struct("<Q")
_HEADER_BYTES = 64
#: Within it, and no part of the trouble: a random mark that says whether what an operator has switched is news.
_MARK = struct.Struct("<Q")
_MARK_AT = 8
#: Key (0 = empty), fault, failures, cool-downs, until, trial until, asked until.
_SLOT = struct.Struct("<QBxHHxxddd")
_BUCKET_BYTES = limits.HEALTH_BUCKET_SLOTS * _SLOT.size
_COUNT_MAX = 0xFFFF

BOARD_BYTES = _HEADER_BYTES + limits.HEALTH_BUCKETS * _BUCKET_BYTES


class Board:
    """`memory` has `BOARD_BYTES`; `lock_fd` is the file behind it, whose first byte is locked, or None if nobody
    shares it."""

    def __init__(self, memory: mmap.mmap | bytearray | None = None, lock_fd: int | None = None) -> None:
        self._memory = bytearray(BOARD_BYTES) if memory is None else memory
        self._lock_fd = lock_fd
        self._keys: dict[tuple[str, str], int] = {}

    @property
    def clean(self) -> bool:
        """Nothing was written since the last wipe."""
        changes: int = _CHANGES.unpack_from(self._memory, 0)[0]
        return changes == 0

    @property
    def mark(self) -> int:
        """Another one than before: something was switched."""
        mark: int = _MARK.unpack_from(self._memory, _MARK_AT)[0]
        return mark

    def set_mark(self) -> None:
        """Something was switched. Needs no lock: two marks set at once are one as good as the other."""
        self._memory[_MARK_AT : _MARK_AT + _MARK.size] = os.urandom(_MARK.size)

    def get(self, channel: str, model: str) -> Trouble | None:
        """What is remembered of a channel's model; "" = of the channel."""
        key = self._key(channel, model)
        for offset in _slots(key):
            found, fault, failures, cooldowns, *times = self._read(offset)
            if found == key:
                return Trouble(Fault(fault), failures, cooldowns, *times)
        return None

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Alone with the board while the block runs; False = that could not be had, and nothing may be changed."""
        if self._lock_fd is None:
            yield True
            return
        held = self._lock(self._lock_fd)
        try:
            yield held
        finally:
            if held:
                fcntl.lockf(self._lock_fd, fcntl.LOCK_UN, 1, 0)

    def put(self, channel: str, model: str, trouble: Trouble | None, now_s: float) -> None:
        """Remember, or forget. Only under `locked`."""
        key = self._key(channel, model)
        offset = self._place(key, now_s)
        if offset is None:
            if trouble is None:
                return
            offset = self._least(key)
        if trouble is None:
            _SLOT.pack_into(self._memory, offset, 0, 0, 0, 0, 0.0, 0.0, 0.0)
        else:
            _SLOT.pack_into(
                self._memory,
                offset,
                key,
                trouble.fault,
                min(trouble.failures, _COUNT_MAX),
                min(trouble.cooldowns, _COUNT_MAX),
                trouble.until_s,
                trouble.trial_until_s,
                trouble.asked_until_s,
            )
        _CHANGES.pack_into(self._memory, 0, _CHANGES.unpack_from(self._memory, 0)[0] + 1)

    def wipe(self) -> None:
        """Forget all trouble. Only under `locked`."""
        mark_end = _MARK_AT + _MARK.size
        self._memory[:_MARK_AT] = bytes(_MARK_AT)
        self._memory[mark_end:] = bytes(BOARD_BYTES - mark_end)

    def _key(self, channel: str, model: str) -> int:
        key = self._keys.get((channel, model))
        if key is None:
            digest = blake2b(f"{channel}\0{model}".encode(), digest_size=8).digest()
            key = self._keys[channel, model] = int.from_bytes(digest, "little") or 1
        return key

    def _read(self, offset: int) -> tuple[int, int, int, int, float, float, float]:
        """A slot as one writer left it: half of one change and half of another never read the same twice in a row."""
        before = b""
        for _ in range(64):
            now = bytes(self._memory[offset : offset + _SLOT.size])
            if now == before:
                break
            before = now
        return _SLOT.unpack(now)

    def _place(self, key: int, now_s: float) -> int | None:
        """The key's slot, else one that is free or whose trouble is forgotten."""
        free = None
        for offset in _slots(key):
            found, _, _, _, until_s, trial_until_s, _ = _SLOT.unpack_from(self._memory, offset)
            if found == key:
                return offset
            if free is None and (not found or now_s >= max(until_s, trial_until_s) + limits.TROUBLE_KEPT_S):
                free = offset
        return free

    def _least(self, key: int) -> int:
        return min(_slots(key), key=lambda offset: float(_SLOT.unpack_from(self._memory, offset)[4]))

    def _lock(self, lock_fd: int) -> bool:
        deadline = time.monotonic() + limits.HEALTH_LOCK_S
        while True:
            try:
                fcntl.lockf(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                os.sched_yield()
            except OSError:
                return False
            else:
                return True


def _slots(key: int) -> range:
    """The offsets of the bucket of `key`."""
    start = _HEADER_BYTES + key % limits.HEALTH_BUCKETS * _BUCKET_BYTES
    return range(start, start + _BUCKET_BYTES, _SLOT.size)
