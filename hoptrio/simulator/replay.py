"""Replay: recorded streams served as they are, cut into writes as they came or in any other way.

A recording is a ``NAME.sse`` file, or a directory ``NAME`` with a ``response.sse`` and perhaps a ``meta.json`` that
holds ``chunk_sizes`` (sizes of the network chunks, in order) and ``response_headers``. Recordings of one protocol may
stand in a directory of its name, so that a name may be used once per protocol.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.simulator.steps import End, Head, Send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hoptrio.simulator.steps import Steps

__all__ = ["Recording", "Recordings", "cut_sizes"]

_CUT_BYTES_MAX = 400


class Recording(NamedTuple):
    """One recorded body."""

    name: str
    path: Path

    def steps(self, cuts: str) -> Steps:
        """Serve it: `cuts` as in the script's language."""
        body = self.path.read_bytes()
        meta = self._meta()
        headers: dict[str, str] = meta.get("response_headers") or {}
        content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
        yield Head(200, (("content-type", content_type or "text/event-stream"),))
        at = 0
        for size in cut_sizes(len(body), cuts, meta.get("chunk_sizes")):
            yield Send(body[at : at + size])
            at += size
        yield End()

    def _meta(self) -> dict[str, Any]:
        path = self.path.with_name("meta.json")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.is_file() else {}


class Recordings:
    """The recordings under one directory, read when they are asked for."""

    def __init__(self, directory: Path) -> None:
        """Raises FileNotFoundError if there is no recording under `directory`."""
        self._by_name: dict[str, Recording] = {}
        for path in sorted(directory.rglob("*.sse")):
            found = path.parent if path.name == "response.sse" else path.with_suffix("")
            name = found.relative_to(directory).as_posix()
            self._by_name[name] = Recording(name, path)
        if not self._by_name:
            raise FileNotFoundError(f"no .sse file under {directory}")

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def find(self, name: str, protocol: str) -> Recording | None:
        """By full name, or by the name within the protocol's directory."""
        return self._by_name.get(name) or self._by_name.get(f"{protocol}/{name}")


def cut_sizes(length: int, cuts: str, recorded: list[int] | None = None) -> Iterator[int]:
    """Sizes of the writes that make up `length` bytes. Without recorded sizes, "recorded" is one write.

    ``random:SEED`` gives the same sizes each time.
    """
    if cuts == "bytes":
        yield from (1 for _ in range(length))
    elif cuts.startswith("random:"):
        yield from _random_sizes(length, int(cuts.partition(":")[2]))
    elif cuts == "recorded" and recorded and sum(recorded) == length:
        yield from (size for size in recorded if size > 0)
    elif length:
        yield length


def _random_sizes(length: int, seed: int) -> Iterator[int]:
    dice = random.Random(seed)
    while length > 0:
        size = min(length, dice.randint(1, _CUT_BYTES_MAX))
        yield size
        length -= size
