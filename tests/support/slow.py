"""Clients that read slowly, or not at all, over sockets of a known size, in virtual time.

A pair of Unix sockets is as synchronous as memory, so the mock clock holds; and it fills up, and reports room only once
most of it is free, as TCP does.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tests.support.client import Client
    from tests.support.harness import Harness

__all__ = ["Paced", "slow_client"]


class Paced(trio.abc.Stream):
    """A stream that is read `max_bytes` at a time, `every_s` apart."""

    def __init__(self, stream: trio.abc.Stream, every_s: float, max_bytes: int) -> None:
        self._stream = stream
        self._every_s = every_s
        self._max_bytes = max_bytes

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """A little of what is there, later."""
        await trio.sleep(self._every_s)
        return await self._stream.receive_some(self._max_bytes)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """At once."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Never."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close it."""
        await trio.aclose_forcefully(self._stream)


def slow_client(world: Harness, *, every_s: float = 0, max_bytes: int = 65536, buffer_bytes: int = 65536) -> Client:
    """A connection whose kernel buffer holds about `buffer_bytes`, read `max_bytes` every `every_s`."""
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (ours, theirs)]
    return world.attach(Paced(streams[0], every_s, max_bytes), streams[1])
