"""A provider as a list of steps: raw bytes, pauses and ways to die, over memory streams, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.upstream.answer import Origin


@dataclass(frozen=True)
class Pause:
    """Nothing for so long."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """The connection ends here, whatever the framing says."""


@dataclass(frozen=True)
class Hang:
    """Nothing, for ever."""


Step = bytes | Pause | Cut | Hang

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def sse(*events: bytes | Pause | Cut | Hang, end: bool = True) -> list[Step]:
    """A whole SSE answer, an event a chunk."""
    body: list[Step] = [chunk(event) if isinstance(event, bytes) else event for event in events]
    return [SSE_HEAD, *body, *([END] if end else [])]


def plain(status: int, body: bytes, content_type: bytes = b"application/json") -> list[Step]:
    """A whole answer with a length."""
    head = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, content_type, len(body))
    return [head + body]


@dataclass
class Seen:
    """One request as the provider got it."""

    head: bytes
    body: bytes


@dataclass
class Provider:
    """Answers the n-th request with the n-th script; the last script serves all further ones."""

    nursery: trio.Nursery
    scripts: list[list[Step]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    #: Connecting takes this long; None = it is refused.
    connect_s: float | None = 0

    async def connect(self, origin: Origin) -> trio.abc.Stream:
        """The connector given to the pool."""
        if self.connect_s is None:
            raise OSError("refused")
        await trio.sleep(self.connect_s)
        self.connections += 1
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self._serve, ours)
        return theirs

    async def _serve(self, stream: trio.abc.Stream) -> None:
        buffer = bytearray()
        try:
            while await self._one(stream, buffer):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _one(self, stream: trio.abc.Stream, buffer: bytearray) -> bool:
        seen = await _read_request(stream, buffer)
        if seen is None:
            return False
        script = self.scripts[min(len(self.seen), len(self.scripts) - 1)]
        self.seen.append(seen)
        return await _play(stream, script)


@dataclass
class Providers:
    """Several providers, told apart by the host that is connected to."""

    by_host: dict[str, Provider]

    async def connect(self, origin: Origin) -> trio.abc.Stream:
        """The connector given to the pool."""
        return await self.by_host[origin.host].connect(origin)


async def _play(stream: trio.abc.Stream, script: Iterable[Step]) -> bool:
    for step in script:
        if isinstance(step, bytes):
            await stream.send_all(step)
        elif isinstance(step, Pause):
            await trio.sleep(step.seconds)
        elif isinstance(step, Hang):
            await trio.sleep_forever()
        else:
            return False
    return True


async def _read_request(stream: trio.abc.Stream, buffer: bytearray) -> Seen | None:
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        data = await stream.receive_some()
        if not data:
            return None
        buffer += data
    head = bytes(buffer[: end + 4])
    del buffer[: end + 4]
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(buffer) < length:
        data = await stream.receive_some()
        if not data:
            return None
        buffer += data
    body = bytes(buffer[:length])
    del buffer[:length]
    return Seen(head, body)
