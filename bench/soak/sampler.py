"""Sampler: looks at the gateway's processes, its control plane, its ledger and the crowd, once a second."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import trio

from bench.counters import descriptors, rss_bytes, threads, uss_bytes
from bench.soak.sampled import Process, Sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.books import Books
    from bench.soak.crowd import Crowd
    from bench.soak.gateway import Gateway

__all__ = ["Sampler", "figures", "measured"]

SAMPLE_S = 1.0
#: What costs more than a look at /proc is asked for so much more rarely.
_SELDOM = 5
_FIGURE = re.compile(r'^(hoptrio_streams_open|hoptrio_holds_open)\{(?:.*age="([^"]*)")?.*\} ([0-9.e+]+)$', re.MULTILINE)
_ENTRIES = "SELECT count(*) FROM entries"


class Sampler:
    """Keeps its samples, and writes each as a line of JSON."""

    def __init__(
        self, gateway: Gateway, crowd: Crowd, books: Books, path: Path, told: Callable[[Sample], None]
    ) -> None:
        self.samples: list[Sample] = []
        self._gateway = gateway
        self._crowd = crowd
        self._books = books
        self._path = path
        self._told = told

    async def run(self, began_s: float) -> None:
        """Until it is cancelled."""
        with self._path.open("ab") as file:
            turn = 0
            while True:
                await trio.sleep_until(began_s + turn * SAMPLE_S)
                sample = await self._sample(trio.current_time() - began_s, seldom=turn % _SELDOM == 0)
                self.samples.append(sample)
                file.write(msgspec.json.encode(sample) + b"\n")
                file.flush()
                self._told(sample)
                turn = max(turn + 1, int((trio.current_time() - began_s) / SAMPLE_S))

    async def _sample(self, at_s: float, *, seldom: bool) -> Sample:
        heard = self._crowd.heard()
        sample = Sample(
            at_s=round(at_s, 3),
            processes=measured(self._gateway, private=seldom),
            clients=self._crowd.open.total(),
            events=heard.events,
            first_ms=tuple(round(each / 1e6, 2) for each in heard.firsts_ns),
            ended=heard.over,
            errors=heard.errors,
        )
        return msgspec.structs.replace(sample, **await self._seldom()) if seldom else sample

    async def _seldom(self) -> dict[str, Any]:
        """What may not be there while the database is away."""
        found: dict[str, Any] = {"spool_bytes": _bytes_below(self._gateway.spool)}
        with trio.move_on_after(3.0):
            text = await trio.to_thread.run_sync(self._gateway.metrics, abandon_on_cancel=True)
            found |= figures(text)
            found["tasks"] = await self._gateway.tasks()
            found["entries"] = await trio.to_thread.run_sync(self._entries, abandon_on_cancel=True)
        return found

    def _entries(self) -> int | None:
        try:
            return int(self._books.rows(_ENTRIES)[0][0])
        except (sqlite3.Error, psycopg.Error):
            return None


def measured(gateway: Gateway, *, private: bool) -> tuple[Process, ...]:
    """Every process of the gateway's that lives."""
    return tuple(
        Process(
            pid=pid,
            role="supervisor" if pid == gateway.pid else "worker",
            rss_bytes=rss_bytes(pid),
            uss_bytes=uss_bytes(pid) if private else 0,
            descriptors=descriptors(pid),
            threads=threads(pid),
        )
        for pid in (gateway.pid, *gateway.workers)
    )


def figures(text: str) -> dict[str, Any]:
    """Of the control plane's metrics: streams that run, and open holds by age, which are not told while the database is
    away."""
    if not text:
        return {}
    streams, holds = 0, dict[str, int]()
    for name, age, value in _FIGURE.findall(text):
        if name == "hoptrio_streams_open":
            streams += int(float(value))
        else:
            holds[age] = int(float(value))
    return {"streams": streams, "holds": holds or None}


def _bytes_below(folder: Path) -> int:
    found = 0
    for file in folder.rglob("*"):
        try:
            found += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return found
