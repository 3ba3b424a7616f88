"""WebSocket clients of the gateway: the real library's, and one that writes its own frames, right or wrong."""

from __future__ import annotations

import json
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio
import trio.testing
from trio_websocket import wrap_client_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio_websocket import WebSocketConnection

    from tests.support.client import Client
    from tests.support.harness import Harness

__all__ = ["ENDS", "UPGRADE", "Frames", "Talk", "frame", "knock", "raw_frames", "talk"]

#: The last event of a turn.
ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")
UPGRADE = {
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@dataclass
class Talk:
    """One connection of the library's client."""

    socket: WebSocketConnection
    stream: trio.abc.Stream

    async def say(self, kind: str, **members: Any) -> None:
        """One event to the server."""
        await self.socket.send_message(json.dumps({"type": kind, **members}))

    async def create(self, **body: Any) -> None:
        """Ask for one turn."""
        await self.say("response.create", **({"model": "m", "input": "hi"} | body))

    async def next(self) -> dict[str, Any]:
        """The next event, whosever it is."""
        message = await self.socket.get_message()
        assert isinstance(message, str)
        found = json.loads(message)
        assert isinstance(found, dict)
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """The events of one turn, to its end."""
        events = [await self.next()]
        while events[-1]["type"] not in ENDS:
            events.append(await self.next())
        return events

    async def turn(self, **body: Any) -> list[dict[str, Any]]:
        """One turn, whole."""
        await self.create(**body)
        return await self.rest()


@asynccontextmanager
async def talk(
    world: Harness, *, secret: str | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[Talk]:
    """A connection that is open while the block runs, and is cut at its end."""
    ours, theirs = trio.testing.memory_stream_pair()
    world.attach(ours, theirs)
    given = {"authorization": f"Bearer {secret or world.secret}"} | (headers or {})
    async with trio.open_nursery() as nursery:
        extra = [(name.encode(), value.encode()) for name, value in given.items()]
        socket = await wrap_client_stream(nursery, ours, "x", "/v1/responses", extra_headers=extra)
        yield Talk(socket, ours)
        nursery.cancel_scope.cancel()
    await trio.aclose_forcefully(ours)


def knock(secret: str, **changes: str) -> bytes:
    """A handshake's head."""
    lines = {"host": "x", "authorization": f"Bearer {secret}", **UPGRADE, **changes}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"GET /v1/responses HTTP/1.1\r\n{head}\r\n".encode()


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True, rsv: int = 0) -> bytes:
    """One frame of a client (RFC 6455 section 5.2), as wrong as it is asked for."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    mask = 0x80 if masked else 0
    if size < 126:
        head = struct.pack("!BB", first, mask | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, mask | 126, size)
    else:
        head = struct.pack("!BBQ", first, mask | 127, size)
    if not masked:
        return head + payload
    key = b"\x01\x02\x03\x04"
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


@dataclass
class Frames:
    """Frames of the server, read one by one."""

    client: Client
    buffer: bytearray

    async def next(self) -> tuple[int, bytes] | None:
        """The opcode and payload of the next frame; None at the end of the stream."""
        while (found := self._take()) is None:
            data = await self._some()
            if not data:
                return None
            self.buffer += data
        return found

    async def _some(self) -> bytes:
        try:
            return bytes(await self.client.stream.receive_some())
        except trio.BrokenResourceError:
            return b""

    def _take(self) -> tuple[int, bytes] | None:
        if len(self.buffer) < 2:
            return None
        size, at = self.buffer[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(self.buffer) < 2 + width:
                return None
            size, at = int.from_bytes(self.buffer[2 : 2 + width], "big"), 2 + width
        if len(self.buffer) < at + size:
            return None
        opcode, payload = self.buffer[0] & 0xF, bytes(self.buffer[at : at + size])
        del self.buffer[: at + size]
        return opcode, payload

    async def close_code(self) -> int | None:
        """Read to the end; the code of the close frame, None if there was none."""
        code = None
        while (found := await self.next()) is not None:
            if found[0] == 8:
                code = int.from_bytes(found[1][:2], "big")
        return code


async def raw_frames(client: Client, secret: str, early: bytes = b"") -> Frames:
    """Shake hands by hand, with bytes sent right behind it."""
    await client.send(knock(secret) + early)
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        data = bytes(await client.stream.receive_some())
        assert data, received
        received += data
    assert received.startswith(b"HTTP/1.1 101 "), received
    return Frames(client, bytearray(received[end + 4 :]))
