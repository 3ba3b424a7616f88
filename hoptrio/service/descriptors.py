"""File descriptors: a stream holds two, so the limit of streams may not promise more than the process may open."""

from __future__ import annotations

import resource

import structlog

__all__ = ["fit_streams"]

log = structlog.get_logger("hoptrio.service")

#: Both sockets of a stream.
PER_STREAM = 2
#: The ledger, listeners, logs, idle connections and what the libraries open.
RESERVED = 200


def fit_streams(max_streams: int) -> int:
    """Raise the soft descriptor limit as far as it goes; return the streams that fit, with a warning if fewer."""
    wanted = max_streams * PER_STREAM + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return max_streams
    fitting = max(1, (soft - RESERVED) // PER_STREAM)
    log.warning("max_streams lowered: too few file descriptors", max_streams=fitting, descriptors=soft)
    return fitting
