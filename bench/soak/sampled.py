"""Sampled: what is measured of a run, once a second, and what was done to it: the values of its JSON lines."""

from __future__ import annotations

import msgspec

__all__ = ["Mark", "Process", "Sample"]


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the gateway's; `role` is supervisor or worker."""

    pid: int
    role: str
    rss_bytes: int
    #: Its private pages; 0 = not looked at this time.
    uss_bytes: int = 0
    descriptors: int = 0
    threads: int = 0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One moment. What is None was not asked for then, or not answered."""

    at_s: float
    processes: tuple[Process, ...]
    #: Clients that are there, events they were given since the last sample, and their times to the first one.
    clients: int
    events: int
    first_ms: tuple[float, ...] = ()
    ended: int = 0
    errors: int = 0
    #: What the control plane says of all workers.
    streams: int | None = None
    holds: dict[str, int] | None = None
    #: trio's, of the worker that was asked.
    tasks: int | None = None
    entries: int | None = None
    spool_bytes: int | None = None


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A disturbance: when, what was done, how long until all was well again, and what was wrong if it never was."""

    at_s: float
    name: str
    what: str
    took_s: float
    wrong: str = ""
