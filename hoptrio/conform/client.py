"""The client: one request on a socket of its own, everything that comes back with its time, and how it ended.

It never retries, follows nothing and believes only the framing: a body is over when its last chunk or its last byte is
there, and a connection that ends before has truncated it.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from errno import errorcode
from typing import TYPE_CHECKING

import h11
import msgspec
import trio
from trio import sleep_forever

from hoptrio.conform.wire import Ending, Wire, read
from hoptrio.limits import CONNECT_S, HEAD_BYTES_MAX, READ_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hoptrio.conform.target import Target

__all__ = ["Connection", "Manner", "Unreachable", "call", "connect"]


Connection = trio.SocketStream | trio.SSLStream[trio.SocketStream]


#: Above this a body is read in a thread, since the times of others are taken here meanwhile.
_LARGE_BYTES = 1024 * 1024


class Unreachable(Exception):
    """No connection to the gateway; the message says why."""


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How the client behaves; by default it reads to the end."""

    #: Leaves once so many ``data:`` lines came.
    leave_after_events: int | None = None
    #: Leaves as soon as the provider was asked.
    leave_once_asked: bool = False
    #: Leaves so many seconds after the head came.
    leave_after_head_s: float | None = None
    #: Reads no more once it has so many bytes, and stays until the provider is done with.
    stop_after_bytes: int | None = None


async def call(
    target: Target,
    data: bytes,
    manner: Manner = Manner(),  # noqa: B008 - frozen
    *,
    limit_s: float,
    asked: Callable[[], Awaitable[None]] = sleep_forever,
    over: Callable[[], Awaitable[None]] = sleep_forever,
) -> Wire:
    """Send `data` and watch the answer for up to `limit_s` seconds.

    `asked` and `over` wait until the provider was asked and is done with, for clients whose manners go by that. Raises
    Unreachable.
    """
    stream = await connect(target)
    try:
        return await _Answer(stream, manner, asked, over).watch(data, limit_s)
    finally:
        await trio.aclose_forcefully(stream)


async def connect(target: Target) -> Connection:
    """A connection of its own, with TLS if it has to be. Raises Unreachable."""
    try:
        with trio.fail_after(CONNECT_S):
            stream = await trio.open_tcp_stream(target.host, target.port)
            return await _secured(stream, target.host) if target.tls else stream
    except trio.TooSlowError:
        raise Unreachable(f"no connection to {target.address} within {CONNECT_S:g} s") from None
    except trio.BrokenResourceError as error:
        raise Unreachable(f"no TLS with {target.address}: {error.__cause__ or 'it broke off'}") from None
    except OSError as error:
        raise Unreachable(f"no connection to {target.address}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    """Why, in the system's words; trio says that all addresses failed, and why behind it."""
    group = error.__cause__
    first = group.exceptions[0] if isinstance(group, BaseExceptionGroup) else error
    number = first.errno if isinstance(first, OSError) else None
    return os.strerror(number) if number is not None and number in errorcode else str(error.strerror or error)


async def _secured(stream: trio.SocketStream, host: str) -> trio.SSLStream[trio.SocketStream]:
    context = ssl.create_default_context()
    secure = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await secure.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return secure


class _Answer:
    """One answer, as far as it has come."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        manner: Manner,
        asked: Callable[[], Awaitable[None]],
        over: Callable[[], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._asked = asked
        self._over = over
        self._manner = manner
        # What we send is bytes already; h11 only reads, once it knows what was asked.
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._leaving = trio.CancelScope()
        self._began = 0.0
        self._head = h11.Response(status_code=200, headers=[])
        self._status = 0
        self._head_s = 0.0
        self._interim: list[int] = []
        self._pieces: list[tuple[float, bytes]] = []
        self._bytes = self._lines = 0

    async def watch(self, data: bytes, limit_s: float) -> Wire:
        method, target, _ = data.split(b"\r\n", 1)[0].split(b" ")
        self._http.send(h11.Request(method=method, target=target, headers=[("host", "x"), ("connection", "close")]))
        self._http.send(h11.EndOfMessage())
        self._began = trio.current_time()
        ending = Ending.OPEN
        async with trio.open_nursery() as nursery:
            if self._manner.leave_once_asked:
                nursery.start_soon(self._leave_once_asked)
            with trio.move_on_after(limit_s), self._leaving:
                ending = await self._exchange(data)
            nursery.cancel_scope.cancel()
        if self._leaving.cancelled_caught:
            ending = Ending.LEFT
        return Wire(
            status=self._status,
            headers={name.decode(): value.decode("latin-1") for name, value in self._head.headers},
            interim=tuple(self._interim),
            pieces=tuple(self._pieces),
            ending=ending,
            ended_s=self._now(),
            head_s=self._head_s,
            reading=await trio.to_thread.run_sync(read, self._pieces)
            if self._bytes > _LARGE_BYTES
            else read(self._pieces),
        )

    async def _leave_once_asked(self) -> None:
        await self._asked()
        self._leaving.cancel()

    def _now(self) -> float:
        return trio.current_time() - self._began

    async def _exchange(self, data: bytes) -> Ending:
        # It may have answered before it broke.
        with suppress(trio.BrokenResourceError):
            await self._stream.send_all(data)
        try:
            while (ending := self._take()) is None:
                if self._stops():
                    await self._over()
                    return Ending.LEFT
                self._http.receive_data(bytes(await self._stream.receive_some(READ_BYTES_MAX)))
        except trio.BrokenResourceError:
            return Ending.RESET
        except h11.RemoteProtocolError:
            return Ending.TRUNCATED
        return ending

    def _stops(self) -> bool:
        most = self._manner.stop_after_bytes
        return most is not None and self._bytes >= most

    def _take(self) -> Ending | None:
        """What has come; None if more is to come."""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.InformationalResponse):
                self._interim.append(event.status_code)
            elif isinstance(event, h11.Response):
                self._head, self._status, self._head_s = event, event.status_code, self._now()
                if self._manner.leave_after_head_s is not None:
                    self._leaving.deadline = trio.current_time() + self._manner.leave_after_head_s
            elif isinstance(event, h11.Data):
                self._note(bytes(event.data))
                if self._leaves():
                    return Ending.LEFT
            else:
                return Ending.CLEAN if isinstance(event, h11.EndOfMessage) else Ending.TRUNCATED

    def _note(self, data: bytes) -> None:
        self._pieces.append((self._now(), data))
        self._bytes += len(data)
        self._lines += data.count(b"data:")

    def _leaves(self) -> bool:
        most = self._manner.leave_after_events
        return most is not None and self._lines >= most
