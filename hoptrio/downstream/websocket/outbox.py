"""Outbox: the messages that wait for one client, in order, of all who write to it.

Writing never waits. Each writer has a share with the bound of a stream's backlog (`backlog.backlog_bytes_max`), all of
them count to the process total, and who exceeds either has a client that left: the connection is one, so it goes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from typing import Protocol as Interface

import trio

from hoptrio import limits
from hoptrio.downstream.backlog import backlog_bytes_max

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.downstream.backlog import BacklogTotal

__all__ = ["Outbox", "Owner", "Share"]


class Owner(Interface):
    """Whose client it is."""

    @property
    def blocked_since(self) -> float | None:
        """trio time since when the client has been waited for; None = it is not."""

    def leave(self) -> None:
        """The client lags too far: it has left."""


class Outbox:
    """Filled by shares, emptied by the connection's one sender."""

    def __init__(self, owner: Owner, backlogs: BacklogTotal) -> None:
        self._owner = owner
        self._backlogs = backlogs
        self._waiting: deque[tuple[Share, bytes]] = deque()
        self._filled = trio.Event()
        #: Nothing is taken any more.
        self.closed = False

    @property
    def blocked(self) -> bool:
        """The client is waited for: what is put now waits behind that."""
        return self._owner.blocked_since is not None

    def share(self) -> Share:
        """A place for one writer."""
        return Share(self)

    def put(self, share: Share, messages: Sequence[bytes]) -> None:
        """Queue messages of one share; its own bound has been judged."""
        size = sum(map(len, messages))
        self._waiting.extend((share, message) for message in messages)
        self._filled.set()
        self._backlogs.add(self._owner, size)

    async def take(self) -> tuple[Share, bytes]:
        """The next message; `Share.sent` when it is out."""
        while not self._waiting:
            self._filled = trio.Event()
            await self._filled.wait()
        return self._waiting.popleft()

    def sent(self, size: int) -> None:
        """So many bytes are out."""
        if not self.closed:
            self._backlogs.remove(self._owner, size)

    def lag(self) -> None:
        """A share is over its bound."""
        self._owner.leave()

    def close(self, unsent: Share | None = None) -> None:
        """Drop what waits; nobody waits for it any more. `unsent`: whose message was taken and not sent."""
        if self.closed:
            return
        self.closed = True
        shares = {share for share, _ in self._waiting} | ({unsent} if unsent else set())
        self._backlogs.remove(self._owner, sum(share.waiting_bytes for share in shares))
        # Which knows this: without a cycle both are freed at once, and not by the collector.
        del self._owner
        self._waiting.clear()
        for share in shares:
            share.drop()


class Share:
    """One writer's messages."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._bytes_max = 0
        self._emptied = trio.Event()
        #: Bytes that were put and are not out.
        self.waiting_bytes = 0

    def put(self, messages: Sequence[bytes]) -> None:
        """Queue whole messages, all or none: a client that lags beyond the bound has left."""
        if self._outbox.closed:
            return
        size = sum(map(len, messages))
        if not self._lags():
            self._bytes_max = backlog_bytes_max(self.waiting_bytes + size)
        elif self.waiting_bytes + size > self._bytes_max:
            self._outbox.lag()
            return
        self.waiting_bytes += size
        self._outbox.put(self, messages)

    def _lags(self) -> bool:
        """Whether something waits that has had its turn to go."""
        waiting = self.waiting_bytes
        return waiting > 0 and (waiting > limits.READ_BYTES_MAX or self._outbox.blocked)

    def sent(self, size: int) -> None:
        """A message is out."""
        self._outbox.sent(size)
        self.waiting_bytes -= size
        if self.waiting_bytes <= 0:
            self.drop()

    def drop(self) -> None:
        """Nothing waits any more, for whatever reason."""
        self.waiting_bytes = 0
        self._emptied.set()

    async def delivered(self) -> None:
        """Wait until everything is out, or the client is gone."""
        while self.waiting_bytes and not self._outbox.closed:
            self._emptied = trio.Event()
            await self._emptied.wait()
