"""Cores: who runs where. The gateway has one to itself, wherever there are two."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Cores", "cores_of_this_machine"]


class Cores(NamedTuple):
    """Sets of cores, as numbers."""

    gateway: frozenset[int]
    provider: frozenset[int]
    client: frozenset[int]
    #: For a gateway of several workers.
    workers: frozenset[int]

    def __str__(self) -> str:
        def named(cores: frozenset[int]) -> str:
            return ", ".join(map(str, sorted(cores)))

        return (
            f"gateway on core {named(self.gateway)} (with workers: {named(self.workers)}), "
            f"provider on {named(self.provider)}, client on {named(self.client)}"
        )


def cores_of_this_machine() -> Cores:
    """Of those that this process may use: the first is the gateway's, the last two the provider's and the client's (one
    of two, if there are only two), and those between are for further workers. Where none are, the workers are on all,
    since two that take turns on one core find more to do in each turn, which makes them cheaper than they are."""
    each = sorted(os.sched_getaffinity(0))
    gateway, client = frozenset(each[:1]), frozenset(each[-1:])
    provider = frozenset(each[-2:-1]) if len(each) > 2 else client
    workers = frozenset(each[:-2] if len(each) > 3 else each)
    return Cores(gateway, provider, client, workers)
