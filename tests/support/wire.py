"""A wire between two programs that a test can cut: bytes are passed on as they come, by a thread of its own."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Wire", "wire"]

_READY_S = 10.0


class Wire:
    """`url` is where it begins, `target` the URL that it leads to."""

    def __init__(self) -> None:
        self.target = ""
        self._ready = threading.Event()
        self._over = trio.Event()
        self._open: set[trio.CancelScope] = set()
        self._down = False
        self._token: trio.lowlevel.TrioToken | None = None
        self.url = ""

    def cut(self) -> None:
        """Break every connection, and close each new one at once, until it is mended."""
        self._do(self._cut)

    def mend(self) -> None:
        """Let new connections through again."""
        self._do(self._mend)

    def _do(self, what: Callable[[], None]) -> None:
        trio.from_thread.run_sync(what, trio_token=self._token)

    def _cut(self) -> None:
        self._down = True
        for scope in self._open:
            scope.cancel()

    def _mend(self) -> None:
        self._down = False

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self._carry, 0, host="127.0.0.1"))
            self.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            self._ready.set()
            await self._over.wait()
            nursery.cancel_scope.cancel()

    async def _carry(self, near: trio.SocketStream) -> None:
        if self._down:
            return
        host, _, port = urlsplit(self.target).netloc.partition(":")
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                far = await trio.open_tcp_stream(host, int(port))
                async with far, trio.open_nursery() as nursery:
                    nursery.start_soon(_pass_on, near, far, scope)
                    nursery.start_soon(_pass_on, far, near, scope)
            finally:
                self._open.discard(scope)


async def _pass_on(source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Until one end is over, which ends both: no client here half-closes."""
    try:
        async for data in source:
            await sink.send_all(data)
    except trio.BrokenResourceError:
        pass
    scope.cancel()


@contextmanager
def wire() -> Iterator[Wire]:
    """A wire until the block ends."""
    new = Wire()
    thread = threading.Thread(target=trio.run, args=(new._run,), daemon=True)
    thread.start()
    assert new._ready.wait(_READY_S)
    try:
        yield new
    finally:
        new._do(new._over.set)
        thread.join(_READY_S)
