"""Checks: every invariant of the world by its name, how often it was looked at, and the first that did not hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.world.history import History

BALANCE = "0 <= held <= balance at every commit"
AGREES = "the store agrees with a second ledger"
ONCE = "one resolution per hold, and at most one late capture"
STREAMS = "max_streams of a key over all processes"
BUDGET = "budget of a key over all processes"
REFUSED = "a hold is refused only for what is true"
AMOUNT = "hold and charge as the provider's script has them"
LIVE = "no hold of a live owner is swept"
ORPHAN = "a dead owner's holds are resolved within 30 s"
SETTLED = "an end that a client saw was settled before"
DISPATCH = "what reaches the provider is held for"
UNDISPATCHED = "a 402, 429 or ledger's 503 never reached the provider"
ANSWER = "the answer is what the contract says"
KEPT = "what a process settled or journalled is in the ledger in the end"
QUIET = "in the end nothing is open, held, busy or waiting"


class Broken(AssertionError):
    """An invariant does not hold; the text has its seed, its stream's trace and the command that meets it again."""


class Checks:
    """Counts by name; `on_broken` hears of everything that does not hold."""

    def __init__(self, on_broken: Callable[[str, str, History | None], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._on_broken = on_broken

    def that(self, name: str, holds: bool, what: str, history: History | None = None) -> None:
        """One look at the invariant `name`; `what` is told if it does not hold."""
        self.counts[name] += 1
        if not holds:
            self._on_broken(name, what, history)

    def none(self, name: str, wrongs: Iterable[str], history: History | None = None) -> None:
        """One look that yields what is wrong."""
        self.counts[name] += 1
        for wrong in wrongs:
            self._on_broken(name, wrong, history)
