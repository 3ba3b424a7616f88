"""direct: nothing stands between. What it measures is the harness itself, and what others add is counted from here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.contestants.contestant import Contestant, Limits
from bench.dialogs import DIALOGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contestants.contestant import Place

__all__ = ["Direct"]


class Direct:
    """The client asks the provider."""

    name = "direct"
    limits = Limits()
    protocols = frozenset(DIALOGS)

    def version(self) -> str:
        return ""

    @contextmanager
    def start(self, place: Place) -> Iterator[Contestant]:
        yield Contestant(self.name, "127.0.0.1", place.provider_port)
