"""hoptrio: ``hoptrio serve``, a ledger in a file, a channel for each protocol, prices that make every ceil show."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

import hoptrio
from bench.books import Books
from bench.contestants.contestant import Contestant, Limits
from bench.counters import tree
from bench.dialogs import DIALOGS
from bench.process import module, running
from hoptrio.ledger.ledger import open_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.contestants.contestant import Place

__all__ = ["DEPOSIT_NANOS", "INPUT_NANOS", "OUTPUT_NANOS", "Hoptrio", "catalogue", "make_key"]

#: Billionths per million tokens: no multiple of a million, so that each charge is rounded up.
INPUT_NANOS = 1_234_567_891
OUTPUT_NANOS = 9_876_543_217
DEPOSIT_NANOS = 10**17
_STREAMS_MAX = 40_000
_LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")


def config(folder: Path, provider_port: int) -> str:
    """What the gateway is measured with."""
    return (
        f'[server]\nlisten = "127.0.0.1:0"\nmax_streams = {_STREAMS_MAX}\n\n'
        f'[ledger]\nurl = "sqlite:///{folder}/hoptrio.db"\n\n'
    ) + catalogue(provider_port)


def catalogue(provider_port: int, *, stall_s: float = 120.0) -> str:
    """One model for each protocol, only on the channel of that protocol: the others' clients are converted."""
    tables: list[str] = []
    for protocol in DIALOGS:
        version = "/v1" if protocol in ("chat", "responses") else ""
        tables += [
            f'[models.bench-{protocol}]\ninput = "{_price(INPUT_NANOS)}"\noutput = "{_price(OUTPUT_NANOS)}"\n'
            f"max_input_tokens = 100000\nmax_output_tokens = 100000\nstall_seconds = {stall_s}\n",
            f"[channels.{protocol}]\nprotocols = {json.dumps([protocol])}\n"
            f'base_url = "http://127.0.0.1:{provider_port}{version}"\napi_key = "sk-bench"\n'
            f'models = ["bench-{protocol}"]\nmax_streams = {_STREAMS_MAX}\n',
        ]
    return "\n".join(tables)


def _price(nanos: int) -> str:
    return f"{nanos // 10**9}.{nanos % 10**9:09d}"


class Hoptrio:
    """The gateway of this repository."""

    name = "hoptrio"
    limits = Limits()
    protocols = frozenset(DIALOGS)

    def version(self) -> str:
        return hoptrio.__version__

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        cores = place.cores.gateway if place.workers == 1 else place.cores.workers
        text = config(place.folder, place.provider_port)
        with self.serving(text, place.folder, cores, f"sqlite:///{place.folder}/hoptrio.db", place.workers) as it:
            yield it._replace(books=Books(place.folder / "hoptrio.db", DEPOSIT_NANOS, INPUT_NANOS, OUTPUT_NANOS))

    @contextmanager
    def serving(
        self, text: str, folder: Path, cores: frozenset[int], url: str, workers: int = 1
    ) -> Iterator[Contestant]:
        """Run it with a config, whose ledger is at `url`, until the block ends."""
        path = folder / "hoptrio.toml"
        path.write_text(text)
        key = trio.run(make_key, url)
        argv = module("hoptrio", "serve", "--config", str(path), "--workers", str(workers))
        with running(self.name, argv, cores=cores, folder=folder) as process:
            port = int(process.await_line(_port))
            yield Contestant(self.name, "127.0.0.1", port, key=key, pids=tree(process.pid))


def _port(line: str) -> str:
    found = _LISTENS.search(line)
    return found[1] if found else ""


async def make_key(url: str) -> str:
    """The secret of a key, of an account with `DEPOSIT_NANOS`."""
    async with open_ledger(url) as ledger:
        await ledger.create_account("bench", DEPOSIT_NANOS)
        _, secret = await ledger.create_key("bench")
    return secret
