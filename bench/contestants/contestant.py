"""Contestant: what stands between the client and the provider, and how the others of its kind come to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from typing import Protocol as Interface

from msgspec.structs import replace

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bench.books import Books
    from bench.cores import Cores
    from bench.job import Shape

__all__ = ["Absent", "Contestant", "Kind", "Limits", "Place"]


class Limits(NamedTuple):
    """The most that is asked of a contestant; others are unbounded."""

    streams: int = 10**6
    events: int = 10**9
    rounds: int = 10**3
    #: Families of scenarios; () = all.
    families: tuple[str, ...] = ()

    def fit(self, shape: Shape) -> Shape | None:
        """The load cut to what it can be asked to carry: fewer streams one after another, or fewer events. None: too
        many streams at once."""
        if (shape.at_once or shape.streams) > self.streams:
            return None
        if shape.streams * shape.events <= self.events:
            return shape
        if shape.at_once:
            return replace(shape, streams=max(shape.at_once, self.events // (shape.events * 10)))
        return replace(shape, events=max(2, self.events // shape.streams))


class Place(NamedTuple):
    """Where a contestant is started."""

    folder: Path
    provider_port: int
    cores: Cores
    workers: int = 1


class Contestant(NamedTuple):
    """One that runs. `pids`: what it costs is theirs; () = it has no cost, or its processes are not known."""

    name: str
    host: str
    port: int
    key: str = "none"
    tls: bool = False
    base: str = ""
    pids: tuple[int, ...] = ()
    #: The one model it has; None = a model for each protocol of a channel, as the harness names them.
    model: str | None = None
    #: The ledger, of those that have one which the harness can read.
    books: Books | None = None


class Absent(Exception):
    """A contestant that cannot run here; the message says why."""


class Kind(Interface):
    """How to start contestants of a kind."""

    name: str
    limits: Limits
    #: The protocols that it can be asked in.
    protocols: frozenset[str]

    def version(self) -> str:
        """Of what would run. Raises Absent."""

    def start(self, place: Place) -> AbstractContextManager[Contestant]:
        """Run it until the block ends. Raises Absent."""
