"""Watch: reads a client's side while its response runs, to learn whether it left.

A FIN is a hint (`half_closed`): a client may close its sending side and go on reading. An error is proof (`gone`), and
so is a failed write. Bytes that come early are the next, pipelined request; they are kept for the connection, up to a
bound, after which nothing is read and TCP itself holds the flood back.

A plain socket is read when it has something (`hoptrio.readiness`); any other stream takes a task that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.downstream.wire import GONE

if TYPE_CHECKING:
    from hoptrio.downstream.writer import ResponseWriter

__all__ = ["Watch"]


class Watch:
    """The watch over one response's client, from `start` to `stop`; `nursery` is the writer's."""

    __slots__ = ("_ended", "_nursery", "_scope", "_writer")

    def __init__(self, writer: ResponseWriter, nursery: trio.Nursery) -> None:
        self._writer = writer
        self._nursery = nursery
        #: Of the last task that was started.
        self._scope: trio.CancelScope | None = None
        self._ended: trio.Event | None = None

    def start(self) -> None:
        """Begin, also right behind a `stop`."""
        if self._writer.wire.call_when_readable(self._look):
            return
        before = self._ended
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        self._nursery.start_soon(self._run, self._scope, self._ended, before)

    def stop(self) -> None:
        """Read no more, which a task has understood once `ended` returns."""
        self._writer.wire.call_no_more()
        if self._scope is not None:
            self._scope.cancel()

    async def ended(self) -> None:
        """Two tasks cannot read one stream: wait here between `stop` and the next read."""
        if self._ended is not None:
            await self._ended.wait()

    @property
    def _room(self) -> int:
        return limits.PIPELINED_BYTES_MAX - len(self._writer.wire.inbox)

    def _look(self) -> None:
        """Something is there, if only an end or an error."""
        wire = self._writer.wire
        try:
            more = wire.read_now(self._room)
        except GONE:
            self._writer.leave()
            return
        if more is False:
            self._writer.half_closed = True
        if more is False or self._room <= 0:
            wire.call_no_more()

    async def _run(self, scope: trio.CancelScope, ended: trio.Event, before: trio.Event | None) -> None:
        try:
            if before is not None:
                # It was stopped, and has only to hear of it.
                with trio.CancelScope(shield=True):
                    await before.wait()
            with scope:
                await self._wait()
        finally:
            ended.set()

    async def _wait(self) -> None:
        """Until there is proof, or nothing more to learn."""
        try:
            while (room := self._room) > 0:
                if not await self._writer.wire.receive(room):
                    self._writer.half_closed = True
                    return
        except GONE:
            self._writer.leave()
