"""The heap of a long-lived process: large buffers go back to the system, and nobody looks for cycles all the time.

glibc raises its mmap threshold to the largest block it ever freed (up to 32 MiB), and from then on bodies and backlogs
of megabytes live in the heap, where one small block above them pins them; so the threshold is fixed. That alone is not
enough: a body kept as a list of reads lies in the heap in pieces below any threshold, so bodies are gathered in one
block that grows (`stream.pump.BodyPump`). Measured over 5,000 streams with every failure and bodies up to 64 MiB,
resident memory before and after: 86 to 195 MiB with neither, 68 to 116 at worst with the first, 59 to 72 at worst of
five seeds with both; 69 to 70 over 15,000 streams. Elsewhere than on glibc the threshold is left alone.

The cyclic collector looks at the young after every 700 objects that are new. A stream makes more than that, nearly all
of which die without it, so it looks less often, and never at what was there before the first stream (modules, the
config): a short stream then costs 0.87 of the CPU.
"""

from __future__ import annotations

import ctypes
import gc

from hoptrio import limits

__all__ = ["steady_heap"]

#: mallopt(3): malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
#: The event loop's and the ledger writer's.
_ARENAS = 2


#: New objects before the young are looked at, and how often until the older are, too; Python's own is 700, 10 and 10.
_COLLECT_AFTER = (20_000, 20, 20)


def steady_heap() -> bool:
    """Fix the thresholds for this process, once, before it serves. False where the C library has none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = (
        (_M_MMAP_THRESHOLD, limits.HEAP_BLOCK_BYTES_MAX),
        (_M_TRIM_THRESHOLD, limits.HEAP_BLOCK_BYTES_MAX),
        (_M_ARENA_MAX, _ARENAS),
    )
    return all(mallopt(option, value) == 1 for option, value in options)
