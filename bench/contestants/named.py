"""A gateway that the user names: it runs already, and its one channel is the harness's provider.

What it costs is known if its process is named, too, and runs on this machine.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.contestants.contestant import Contestant, Limits
from bench.counters import tree
from bench.dialogs import DIALOGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contestants.contestant import Place

__all__ = ["Address", "Named"]


class Address:
    """A base URL, taken apart. Raises ValueError for anything else."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8080")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.base = parts.path.rstrip("/").removesuffix("/v1")


class Named:
    """Under the name `name`; its model is `model`."""

    limits = Limits(streams=2_000)
    protocols = frozenset(DIALOGS)

    def __init__(self, name: str, url: str, *, key: str, model: str, pid: int | None) -> None:
        self.name = name
        self._address = Address(url)
        self._key = key
        self._model = model
        self._pid = pid

    def version(self) -> str:
        return f"at {self._address.host}:{self._address.port}"

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        address = self._address
        yield Contestant(
            self.name,
            address.host,
            address.port,
            key=self._key,
            tls=address.tls,
            base=address.base,
            pids=() if self._pid is None else tree(self._pid),
            model=self._model,
        )
