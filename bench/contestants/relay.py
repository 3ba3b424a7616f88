"""relay: the naive byte relay on trio (`bench.contestants.naive`), the base line of every ratio."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from bench.contestants.contestant import Contestant, Limits
from bench.dialogs import DIALOGS
from bench.process import module, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contestants.contestant import Place

__all__ = ["Relay"]


class Relay:
    """It parses nothing, meters nothing, keeps no ledger and bounds nothing."""

    name = "relay"
    limits = Limits()
    protocols = frozenset(DIALOGS)

    def version(self) -> str:
        return f"trio {trio.__version__}"

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        argv = module("bench.contestants.naive", f"127.0.0.1:{place.provider_port}")
        with running(self.name, argv, cores=place.cores.gateway) as process:
            port = int(process.await_line(str.strip))
            yield Contestant(self.name, "127.0.0.1", port, pids=(process.pid,))
