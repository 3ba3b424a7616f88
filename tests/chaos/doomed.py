"""A gateway that is to die: ``python -m tests.chaos.doomed serve`` is ``hoptrio serve``, killed by its own streams.

What it does is told in the environment (`Doom`, as JSON in ``HOPTRIO_DOOM``). Whichever process first comes to the
point for the given time makes the mark and kills the victim with SIGKILL; after that nobody is doomed any more, so what
is started again lives. Nothing of this is in the product: the functions of a stream's life are wrapped from outside.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import psutil

from tests.support.hasty import start_workers_as

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["POINTS", "VICTIMS", "Doom", "main"]

VARIABLE = "HOPTRIO_DOOM"
#: The moments of a stream's life, in their order; the sweep is the ledger's own.
POINTS = ("held", "dispatched", "midstream", "terminal", "settling", "committing", "settled", "sweeping")
#: The process that comes to the point, the one above it, both and all beside them, or the database.
VICTIMS = ("worker", "supervisor", "node", "database")


class Doom(msgspec.Struct, frozen=True):
    """Who dies, where and when."""

    point: str
    victim: str
    #: How many times the point is passed before.
    passages: int
    #: The kill comes this long after, from a thread beside: the process goes on meanwhile. 0 = at once.
    delay_s: float
    #: A file that is made just before the kill.
    mark: str
    #: The first process of the database.
    database: int = 0

    @property
    def fulfilled(self) -> bool:
        """It has come to that, or will in a moment."""
        return os.path.exists(self.mark)

    def claim(self) -> bool:
        """Make the mark. False: it is there, and what it says is somebody else's to do."""
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True

    def environment(self) -> dict[str, str]:
        """What `main` reads."""
        return {VARIABLE: msgspec.json.encode(self).decode()}


class _Executioner:
    def __init__(self, doom: Doom) -> None:
        self._doom = doom
        self._left = doom.passages
        self._lock = threading.Lock()

    def passed(self) -> None:
        """The point was come to."""
        with self._lock:
            self._left -= 1
            if self._left != -1 or not self._doom.claim():
                return
        if self._doom.delay_s:
            threading.Thread(target=self._later, daemon=True).start()
        else:
            self._kill()

    def _later(self) -> None:
        time.sleep(self._doom.delay_s)
        self._kill()

    def _kill(self) -> None:
        victim = self._doom.victim
        if victim == "node":
            os.killpg(os.getpgrp(), signal.SIGKILL)
        elif victim == "database":
            _kill_all(self._doom.database)
        else:
            os.kill(os.getppid() if victim == "supervisor" else os.getpid(), signal.SIGKILL)


def _kill_all(pid: int) -> None:
    """A server and its children; these are in sessions of their own."""
    first = psutil.Process(pid)
    for process in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _install(doom: Doom) -> None:
    """Wrap what a stream passes at the point."""
    from hoptrio.exchange.desk import Desk
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.recover import Sweep
    from hoptrio.stream.stream import Stream

    passed = _Executioner(doom).passed
    match doom.point:
        case "held":
            _wrap(Desk, "place", after=lambda refusal: passed() if refusal is None else None)
        case "dispatched":
            _wrap(Stream, "_dispatched", after=lambda _: passed())
        case "midstream":
            _wrap(Stream, "_emit", after=lambda _: passed())
        case "terminal":
            _wrap(Stream, "_outcome", after=lambda _: passed())
        case "settling":
            _wrap(Ledger, "settle", before=passed)
        case "committing":
            _wrap_commits(passed)
        case "settled":
            _wrap(Stream, "_tell", before=passed)
        case "sweeping":
            _wrap(Sweep, "_release", before=passed)
        case unknown:
            raise ValueError(f"no point {unknown!r}")


def _wrap_commits(passed: Callable[[], None]) -> None:
    """Everything of a batch is decided, on SQLite also written, and the commit has not begun."""
    from hoptrio.ledger.changes import Changes
    from hoptrio.ledger.sqlite_changes import Changes as SqliteChanges

    def after(answers: list[Any]) -> None:
        # A renewed lease or a ping answers nothing.
        if any(answer is not None for answer in answers):
            passed()

    for changes in (Changes, SqliteChanges):
        _wrap(changes, "apply", after=after)


def _wrap(
    owner: type, name: str, *, before: Callable[[], None] | None = None, after: Callable[[Any], None] | None = None
) -> None:
    function = getattr(owner, name)
    is_async = function.__code__.co_flags & 0x80

    def called(answer: Any) -> Any:
        if after is not None:
            after(answer)
        return answer

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before()
        return called(function(*args, **kwargs))

    @functools.wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before()
        return called(await function(*args, **kwargs))

    setattr(owner, name, awaited if is_async else plain)


def main() -> None:
    """Be `hoptrio`, doomed if the environment says so and the mark is not made yet."""
    text = os.environ.get(VARIABLE)
    doom = msgspec.convert(json.loads(text), Doom) if text else None
    if doom is not None and not doom.fulfilled:
        start_workers_as(__spec__.name)
        _install(doom)

    from hoptrio.cli.main import main as hoptrio

    hoptrio()


if __name__ == "__main__":
    main()
