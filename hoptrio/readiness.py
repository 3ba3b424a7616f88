"""Readiness: the plain sockets of all streams in one epoll set, and one task that calls whoever may read.

What a pump or a watch does with what it reads needs no waiting, so it is called, and no task wakes for it. A task that
waits for its socket costs trio a registration with the kernel, a reschedule and the way down through every coroutine
above the wait, for each read; here a registration lasts as long as the reading, and one wait serves all that is ready.
A paced event of 200 streams costs 0.83 of the CPU (docs/performance/notes.md).

There is one set for each trio run, made when it is first asked for. Its task belongs to the event loop as trio's own
do, and to no stream: a system task. Where the system has no epoll there is no set, and readers wait instead.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import structlog
import trio

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Readiness", "readiness"]

log = structlog.get_logger("hoptrio.readiness")

#: Calls between two turns of the event loop: some milliseconds of work at most.
_BATCH = 64


class Readiness:
    """Who is to be called when a descriptor can be read: one caller each, until it is removed."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, call: Callable[[], None]) -> None:
        """Call `call` whenever `fd` has bytes, an end or an error, for as long as it has and is not removed."""
        self._calls[fd] = call
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Call nobody any more; nothing happens if nobody is called anyway."""
        if self._calls.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def closing(self, fd: int) -> None:
        """`fd` is about to be closed: remove it, and call a last time, since whoever reads it must be told."""
        call = self._calls.get(fd)
        if call is not None:
            self.remove(fd)
            call()

    async def each(self, fd: int, read: Callable[[], bool]) -> None:
        """Call `read` whenever `fd` can be read, until it returns True. What it raises is raised here."""
        task = trio.lowlevel.current_task()
        failed: list[Exception] = []

        def call() -> None:
            try:
                if not read():
                    return
            except Exception as error:
                failed.append(error)
            self.remove(fd)
            trio.lowlevel.reschedule(task)

        def abort(_: object) -> trio.lowlevel.Abort:
            self.remove(fd)
            return trio.lowlevel.Abort.SUCCEEDED

        self.add(fd, call)
        await trio.lowlevel.wait_task_rescheduled(abort)
        if failed:
            # Taken out: its traceback has this frame in it, and would be a cycle with the list.
            raise failed.pop()

    async def run(self) -> None:
        """Call until cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for fd, _ in self._epoll.poll(0, _BATCH):
                    # An earlier call of this turn may have removed it.
                    call = self._calls.get(fd)
                    if call is not None:
                        self._call(fd, call)
        finally:
            self._epoll.close()

    def _call(self, fd: int, call: Callable[[], None]) -> None:
        """A bug in one is not another's."""
        try:
            call()
        except Exception as bug:
            self.remove(fd)
            log.error("reading failed", error=type(bug).__name__, exc_info=bug)


_CURRENT: trio.lowlevel.RunVar[Readiness] = trio.lowlevel.RunVar("readiness")


def readiness() -> Readiness | None:
    """The set of this trio run; None where the system has no epoll."""
    if not hasattr(select, "epoll"):
        return None
    try:
        return _CURRENT.get()
    except LookupError:
        made = Readiness()
        _CURRENT.set(made)
        trio.lowlevel.spawn_system_task(made.run, name="hoptrio readiness")
        return made
