"""What a reload leaves for the next start: keys that were changed and are not taken over. Pure but for the telling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from hoptrio.config import Config

__all__ = ["tell_waiting", "waiting_alone", "waiting_of_workers"]

log = structlog.get_logger("hoptrio.service")

_TABLES = ("server", "control", "ledger", "certification")
_REATTACH = frozenset({"server.reattach_minutes", "server.reattach_bytes_max"})
#: Of these tables, what one process takes over (`run`, `tls`, and what reads the config of its `Office`).
_TAKEN_ALONE = _REATTACH | {
    "control.gateway_url",
    "control.tls_certificate",
    "control.tls_key",
    "control.token",
    "server.contract",
    "server.cors_origins",
    "server.max_streams",
    "server.released_output_limit",
    "server.tls_certificate",
    "server.tls_key",
    "server.trusted_proxies",
    "server.websocket",
}
#: Sockets are opened once.
_LISTENING = frozenset({"control.listen", "server.listen"})


def waiting_alone(started: Config, now: Config) -> list[str]:
    """The keys in which `now` differs from what a process without workers started with, and that wait for a restart."""
    taken = _TAKEN_ALONE if started.server.keeps_streams else _TAKEN_ALONE - _REATTACH
    return sorted((_changed(started, now) - taken) | _switched(started, now))


def waiting_of_workers(started: Config, now: Config) -> list[str]:
    """The same of a supervisor, whose new workers read the whole config."""
    return sorted((_changed(started, now) & _LISTENING) | _switched(started, now))


def tell_waiting(keys: list[str]) -> None:
    """One line of the log, if there are any. Names only: values may be secrets."""
    if keys:
        log.warning("changed keys wait for a restart", keys=keys)


def _changed(started: Config, now: Config) -> set[str]:
    return {
        f"{table}.{name}"
        for table in _TABLES
        for name, value in getattr(started, table)
        if value != getattr(getattr(now, table), name)
    }


def _switched(started: Config, now: Config) -> set[str]:
    """The control plane is served from the start or not at all."""
    return {"control.token"} if bool(started.control.token) != bool(now.control.token) else set()
