"""The world's clients: each fate of a `Plan` as a coroutine over one connection.

A client notes what it sees in its request's history; what it means is judged in `invariants`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from tests.support.client import Client, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.world.history import History

#: What a client notices of an end that the contract wants settled first.
TERMINALS = {
    "chat": (b"data: [DONE]",),
    "responses": (b'"type":"response.completed"', b'"type":"response.incomplete"'),
    "messages": (b'"type":"message_stop"',),
    "gemini": (),
}
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)
#: Nobody waits longer than any stream may take.
_ENOUGH_S = 1500.0


class Resettable(trio.abc.HalfCloseableStream):
    """The server's end of a memory connection that its client may reset: then reading it is an error, not an end.

    Its process may `die`: then the client's connection ends at once, whatever tasks of that process still hold it.
    """

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream
        self.was_reset = False
        self._dead = False

    def die(self) -> None:
        """Close both directions, from outside, in this step."""
        self._dead = True
        self._stream.send_stream.close()
        self._stream.receive_stream.close()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.ClosedResourceError:
            if self._dead:
                raise trio.BrokenResourceError from None
            raise
        if not data and self.was_reset:
            raise trio.BrokenResourceError
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._dead:
            await trio.lowlevel.checkpoint()
            raise trio.BrokenResourceError
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class WorldClient(Client):
    """A client that reads at its own pace and shows each piece to `seen`."""

    def __init__(self, stream: trio.abc.Stream, server: Resettable) -> None:
        super().__init__(stream)
        self._server = server
        self.pause_s = 0.0
        #: The response that is being read.
        self.current: Response | None = None
        self.seen: Callable[[Response], None] = lambda _: None

    async def send(self, data: bytes) -> None:
        try:
            await super().send(data)
        except _GONE:
            self._eof = True

    async def _more(self) -> bool:
        if self.pause_s:
            await trio.sleep(self.pause_s)
        try:
            return await super()._more()
        except trio.ClosedResourceError:
            return False

    def _take(self, response: Response, data: bytes) -> None:
        super()._take(response, data)
        self.current = response
        self.seen(response)

    async def reset(self) -> None:
        """Close so that the server's reads fail."""
        self._server.was_reset = True
        await self.leave()

    async def half_close(self) -> None:
        assert isinstance(self.stream, trio.abc.HalfCloseableStream)
        with suppress(*_GONE):
            await self.stream.send_eof()

    async def interim(self) -> bool:
        """Wait for ``100 Continue``; False if a final answer came instead."""
        while b"\r\n\r\n" not in self._buffer:
            if not await self._more():
                return False
        return self._buffer.startswith(b"HTTP/1.1 100")


def connection(slow: bool) -> tuple[WorldClient, Resettable]:
    """A client and the server's end; `slow` = what is not read blocks the writer."""
    pair = trio.testing.lockstep_stream_pair() if slow else trio.testing.memory_stream_pair()
    ours, theirs = pair
    server = Resettable(theirs)
    return WorldClient(ours, server), server


def request(history: History, secret: str, *, expect: bool = False) -> tuple[bytes, bytes]:
    """Head and body of a plan's request, which is about to be sent."""
    plan = history.plan
    history.sent = True
    lines = {
        "host": "x",
        "authorization": f"Bearer {secret}",
        "x-client-request-id": f"w{plan.number}",
        "content-length": str(len(plan.body)),
        **plan.headers,
    }
    if expect:
        lines["expect"] = "100-continue"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {plan.path} HTTP/1.1\r\n{head}\r\n".encode(), plan.body


async def visit(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    """Make the requests of `histories` on one connection, as the first one's fate has it."""
    fate = histories[0].plan.fate
    with suppress(*_GONE), trio.move_on_after(_ENOUGH_S * len(histories)):
        await _FATES.get(fate, _patient)(client, histories, secret)
    if fate == "resetter":
        await client.reset()
    else:
        await client.leave()


async def _read(client: WorldClient, history: History, *, all_of_it: bool) -> Response:
    """One response, noted; it stays noted if reading is cut short."""
    client.current = None
    try:
        response = await client.read()
    except BaseException:
        if client.current is not None:
            history.responses.append(client.current)
        raise
    history.responses.append(response)
    history.read_all = all_of_it
    return response


async def _patient(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    for history in histories:
        head, body = request(history, secret(history))
        client.seen = history.saw
        await client.send(head + body)
        response = await _read(client, history, all_of_it=True)
        if not response.clean or response.headers.get("connection") == "close":
            return
        await trio.sleep(history.plan.patience_s)


async def _slow(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    history = histories[0]
    head, body = request(history, secret(history))
    client.seen = history.saw
    await client.send(head + body)
    client.pause_s = history.plan.patience_s
    await _read(client, history, all_of_it=False)


async def _stuck(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    head, body = request(histories[0], secret(histories[0]))
    await client.send(head + body)
    await trio.sleep(_ENOUGH_S)


async def _leaver(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    history = histories[0]
    head, body = request(history, secret(history))
    client.seen = history.saw
    with trio.move_on_after(history.plan.patience_s):
        await client.send(head + body)
        await _read(client, history, all_of_it=False)


async def _half_closer(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    history = histories[0]
    head, body = request(history, secret(history))
    client.seen = history.saw
    await client.send(head + body)
    await trio.sleep(history.plan.patience_s / 10)
    await client.half_close()
    await _read(client, history, all_of_it=False)


async def _pipeliner(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    await client.send(b"".join(b"".join(request(history, secret(history))) for history in histories))
    for history in histories:
        client.seen = history.saw
        response = await _read(client, history, all_of_it=True)
        if not response.clean or response.headers.get("connection") == "close":
            return


async def _expecter(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    history = histories[0]
    head, body = request(history, secret(history), expect=True)
    client.seen = history.saw
    await client.send(head)
    if await client.interim():
        await client.send(body)
    await _read(client, history, all_of_it=True)


async def _dawdler(client: WorldClient, histories: list[History], secret: Callable[[History], str]) -> None:
    """Sends its request in pieces, some too slowly."""
    history = histories[0]
    raw = b"".join(request(history, secret(history)))
    client.seen = history.saw
    for at in range(0, len(raw), 200):
        await client.send(raw[at : at + 200])
        await trio.sleep(history.plan.patience_s / 4)
    await _read(client, history, all_of_it=False)


_FATES = {
    "slow": _slow,
    "stuck": _stuck,
    "leaver": _leaver,
    "resetter": _leaver,
    "half_closer": _half_closer,
    "pipeliner": _pipeliner,
    "expecter": _expecter,
    "dawdler": _dawdler,
}
#: Whose connection has no buffer, so that what they do not read blocks the server.
UNBUFFERED = frozenset({"slow", "stuck"})
#: How many requests a connection carries.
SEVERAL = frozenset({"patient", "pipeliner"})
