"""A client as raw bytes over a stream: what it was sent, when, and how the body ended."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import trio


@dataclass
class Response:
    """One response as a client saw it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    #: Everything behind the heads, unframed.
    body: bytes = b""
    #: ((trio time, bytes), ...) as the pieces came, unframed.
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    #: True: by its framing. False: the connection ended first.
    clean: bool = False
    raw: bytes = b""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def blocks(self) -> list[bytes]:
        """SSE blocks, comments and events alike, in order."""
        return [block for block in self.body.split(b"\n\n") if block]

    @property
    def data(self) -> list[bytes]:
        """Payloads of the events."""
        found = []
        for block in self.blocks:
            lines = [line[6:] for line in block.split(b"\n") if line.startswith(b"data: ")]
            if lines:
                found.append(b"\n".join(lines))
        return found

    @property
    def keepalives(self) -> list[float]:
        """When keep-alive comments came."""
        return [at for at, piece in self.pieces for _ in range(piece.count(b": hopbase-keepalive\n\n"))]


class Client:
    """Speaks HTTP/1.1 on one connection; reads with its own small parser, so that it shares no code with the server."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = b""
        self._eof = False

    async def send(self, data: bytes) -> None:
        """Raw bytes to the server."""
        await self.stream.send_all(data)

    async def leave(self) -> None:
        """Close the connection."""
        await trio.aclose_forcefully(self.stream)

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some()
        except trio.BrokenResourceError:
            data = b""
        self._eof = not data
        self._buffer += data
        return bool(data)

    async def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._buffer:
            if not await self._more():
                return None
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    async def read(self, *, events: int | None = None) -> Response:
        """One whole response (an interim 100 is skipped and kept in `raw`), or a stream as far as it has so many
        events."""
        response = Response()
        while response.status in (0, 100):
            head = await self._until(b"\r\n\r\n")
            if head is None:
                return response
            response.raw += head + b"\r\n\r\n"
            line, *rest = head.split(b"\r\n")
            response.status = int(line.split(b" ")[1])
            response.headers = {
                name.decode().lower(): value.strip().decode()
                for name, _, value in (each.partition(b":") for each in rest)
            }
        if response.headers.get("transfer-encoding") == "chunked":
            await self._read_chunks(response, events)
        elif "content-length" in response.headers:
            await self._read_length(response, int(response.headers["content-length"]))
        elif response.status != 204:
            await self._read_to_eof(response)
        else:
            response.clean = True
        return response

    def _take(self, response: Response, data: bytes) -> None:
        response.body += data
        response.pieces.append((trio.current_time(), data))

    async def _read_chunks(self, response: Response, events: int | None = None) -> None:
        while events is None or len(response.data) < events:
            size = await self._until(b"\r\n")
            if size is None:
                return
            length = int(size, 16)
            while len(self._buffer) < length + 2:
                if not await self._more():
                    return
            data, self._buffer = self._buffer[:length], self._buffer[length + 2 :]
            if length == 0:
                response.clean = True
                return
            self._take(response, data)

    async def _read_length(self, response: Response, length: int) -> None:
        while len(self._buffer) < length:
            if not await self._more():
                return
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        self._take(response, data)
        response.clean = True

    async def _read_to_eof(self, response: Response) -> None:
        while await self._more():
            pass
        self._take(response, self._buffer)
        self._buffer = b""
        response.clean = True
