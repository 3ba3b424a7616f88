"""Database: the one store of a world, its faults, and the door through which one process reaches it.

The store is the product's own `MemoryStore`: atomic, and durable whatever happens to a process. Faults stand in front
of it: a lock that someone holds, a server that is away, a node that is cut off, a commit whose answer is lost (applied
or not). A door can also be the place where its process dies: right before a commit, or right after it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import Hold, Resolution
from hoptrio.ledger.operations import Release
from hoptrio.ledger.store import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from bench.world.books import Books
    from hoptrio.ledger.operations import Operation

#: How often a commit meets another process's and is tried again a moment later, so that it takes time as a disk does.
_BUSY = 0.2
#: How often the answer of a commit is lost on a good day.
_LOST = 0.003
#: What a crash at the door is named for, by what is committed there.
_MOMENTS = {Hold: "hold", Resolution: "capture", Release: "sweep"}


class Link:
    """One machine's way to the database."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.cut = False
        #: When it was cut off last, ends included; inf while it is, -inf if it never was.
        self.cut_until = -inf

    def cut_off(self) -> None:
        self.cut, self.cut_until = True, inf

    def heal(self) -> None:
        self.cut, self.cut_until = False, self._now()


class Database:
    """The store, and what is wrong with it for everyone."""

    def __init__(self, rng: Random, now: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self.store = MemoryStore(now_ms)
        self._rng = rng
        self._now = now
        #: Someone holds the lock for writing; reading goes on.
        self.locked = False
        #: Nobody reaches it.
        self.down = False
        #: Chance that a commit's answer is lost.
        self.lost = _LOST
        #: Since when nothing is wrong with it for everyone; inf while something is.
        self.well_since = 0.0

    @property
    def ill(self) -> bool:
        return self.well_since == inf

    def fall_ill(self, *, locked: bool = False, down: bool = False, lost: float = _LOST) -> None:
        self.locked, self.down, self.lost = locked, down, lost
        self.well_since = inf

    def recover(self) -> None:
        self.locked, self.down, self.lost = False, False, _LOST
        self.well_since = self._now()

    def calm(self) -> None:
        """From now on no answer is lost."""
        self.recover()
        self.lost = 0.0

    def connected_since(self, link: Link) -> float:
        """Since when a machine with this link has reached it undisturbed; inf = it does not."""
        return max(self.well_since, link.cut_until)

    def answer_lost(self, on_the_way: float) -> bool | None:
        """Of the commit at hand: None = the answer arrives; else it does not, and it was applied (True) or not."""
        if self._rng.random() >= self.lost + on_the_way:
            return None
        return self._rng.random() < 0.5

    def busy(self) -> bool:
        """Another process commits at this moment."""
        return self._rng.random() < _BUSY


class Door:
    """One process's way to the store; see `hoptrio.ledger.store.Store`."""

    inline = True
    reads_inline = True

    def __init__(
        self,
        database: Database,
        link: Link,
        books: Books,
        *,
        broken: Callable[[str], None],
        at: Callable[[str], None] = lambda _: None,
        failed: Callable[[Sequence[Operation]], None] = lambda _: None,
        lossy: float = 0.0,
    ) -> None:
        """`at` is told of each commit, before and after it, and may `close_for_good`; `failed` of each that got no good
        answer, short waits for a lock apart. `lossy` is the chance that an answer is lost on this way alone."""
        self._database = database
        self._link = link
        self._books = books
        self._broken = broken
        self._at = at
        self._failed = failed
        self._lossy = lossy
        self._dead = False

    @property
    def ill(self) -> bool:
        """Not everything is answered as on a quiet day."""
        return self._dead or self._link.cut or self._database.ill

    def close_for_good(self) -> None:
        """The process died: nothing of it arrives any more."""
        self._dead = True

    def apply(self, operations: Sequence[Operation]) -> list[Any]:
        self._reach()
        if self._database.locked or self._database.busy():
            raise StoreUnavailable("locked", busy=True)
        moments = dict.fromkeys(_MOMENTS[type(each)] for each in operations if type(each) in _MOMENTS)
        self._pass("before", moments)
        applied = self._database.answer_lost(self._lossy)
        if applied is False:
            self._failed(operations)
            raise StoreUnavailable("the answer was lost", uncertain=True)
        answers = self._commit(operations)
        self._pass("after", moments)
        if applied:
            self._failed(operations)
            raise StoreUnavailable("the answer was lost", uncertain=True)
        return answers

    def _commit(self, operations: Sequence[Operation]) -> list[Any]:
        try:
            answers = self._database.store.apply(operations)
        except Exception as bug:
            # The batcher would try them one by one, and the world would never hear of it.
            self._broken(f"the store fails: {bug!r}")
            raise
        self._books.applied(operations, answers)
        return answers

    def _pass(self, side: str, moments: dict[str, None]) -> None:
        for moment in moments:
            self._at(f"{side} {moment}")
        if self._dead:
            raise StoreUnavailable("the process is dead", uncertain=True)

    def _reach(self) -> None:
        if self._dead or self._link.cut or self._database.down:
            raise StoreUnavailable("not to be reached")

    def __getattr__(self, name: str) -> Any:
        """Everything that only reads."""
        method = getattr(self._database.store, name)

        def read(*args: Any) -> Any:
            if name != "close":
                self._reach()
            return method(*args)

        return read
