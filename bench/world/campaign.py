"""Campaign: many streams as independent worlds of a few thousand, over processes.

What a campaign is depends on its seed and its number of streams alone, not on the processes: each world's seed is
derived from its place, and results are taken in that order. A single world has the campaign's own seed, so the command
that a failure prints meets that world again, alone.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.world.checks import Broken
from bench.world.world import Summary, run

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["WORLD_STREAMS", "Failure", "Part", "live", "parts", "total"]

#: Streams of one world: enough for every fault, few enough that a failing one is met again within seconds.
WORLD_STREAMS = 2_000


@dataclass(frozen=True)
class Part:
    """One world of a campaign."""

    seed: int
    streams: int


@dataclass(frozen=True)
class Failure:
    """A world in which an invariant broke; `text` has the stream's trace and the command that meets it again."""

    part: Part
    text: str


def parts(seed: int, streams: int) -> list[Part]:
    """The worlds of a campaign."""
    if streams <= WORLD_STREAMS:
        return [Part(seed, streams)]
    counts = [min(WORLD_STREAMS, streams - at) for at in range(0, streams, WORLD_STREAMS)]
    return [Part(_derived(seed, number), count) for number, count in enumerate(counts)]


def _derived(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4])


def live(worlds: list[Part], jobs: int) -> Iterator[Summary | Failure]:
    """Live every world, `jobs` at a time; what became of each, in order."""
    if jobs == 1 or len(worlds) == 1:
        yield from map(_live_one, worlds)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from pool.map(_live_one, worlds)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _live_one(part: Part) -> Summary | Failure:
    try:
        return run(part.seed, part.streams)
    except Broken as broken:
        return Failure(part, str(broken))


def total(summaries: list[Summary]) -> Summary:
    """All of them as one."""
    digest = hashlib.sha256("".join(each.digest for each in summaries).encode())
    added = Summary(digest=digest.hexdigest() if len(summaries) != 1 else summaries[0].digest)
    for each in summaries:
        added.streams += each.streams
        added.virtual_s += each.virtual_s
        added.ends += each.ends
        added.settlements += each.settlements
        added.faults += each.faults
        added.checks += each.checks
    return added
