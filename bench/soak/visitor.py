"""Visitor: a visit carried out over a real connection with TLS; what its client saw is a `Seen`, as in every run."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, HandshakeError, wrap_client_stream

from bench.answer import Answer
from bench.asked import line
from bench.dialogs import DIALOGS, request
from bench.job import Seen
from bench.soak.visit import MODEL

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from bench.soak.visit import Visit

__all__ = ["AGAIN", "BROKEN", "ENDED", "Door", "Visitor"]

#: What the caller's id of a visit's second request begins with.
AGAIN = "again"

#: A visit that takes longer is given up.
VISIT_S = 180.0
_CONNECT_S = 20.0
_READ_BYTES = 64 * 1024
#: A slow reader's socket holds little, so that it is the sender who waits.
_SLOW_BYTES = 16 * 1024
_SLOW_S = 0.1
#: Of `Seen.error`: the connection broke; one that had been kept was found closed.
BROKEN = "the connection broke"
ENDED = "the kept connection had ended"
_WRONG_KEY = "sk-nobody"


class Door(NamedTuple):
    """Where the gateway is."""

    host: str
    port: int
    tls: ssl.SSLContext
    key: str
    run: int

    async def connect(self, *, slow: bool = False) -> trio.SSLStream[trio.SocketStream]:
        """A new connection. Raises OSError, BrokenResourceError, TooSlowError."""
        with trio.fail_after(_CONNECT_S):
            plain = await trio.open_tcp_stream(self.host, self.port)
            if slow:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BYTES)
            stream = trio.SSLStream(plain, self.tls, server_hostname=self.host, https_compatible=True)
            try:
                await stream.do_handshake()
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
        return stream

    async def get(self, path: str) -> bytes:
        """The body of a GET on a connection of its own. Raises what `connect` raises."""
        stream = await self.connect()
        async with stream:
            head = f"GET {path} HTTP/1.1\r\nhost: {self.host}\r\nauthorization: Bearer {self.key}\r\n"
            await stream.send_all(f"{head}connection: close\r\n\r\n".encode())
            found = b""
            with trio.fail_after(_CONNECT_S):
                while data := await stream.receive_some(_READ_BYTES):
                    found += data
        return found.partition(b"\r\n\r\n")[2]


class Visitor:
    """Performs visits. `heard` is told each event: the ns since the request if it is the first of its answer, else
    None."""

    def __init__(self, door: Door, heard: Callable[[int | None], None]) -> None:
        self._door = door
        self._heard = heard
        self._idle: list[trio.SSLStream[trio.SocketStream]] = []

    async def visit(self, visit: Visit) -> Seen:
        """One call, to its end."""
        call = _Call(self._door, visit, self._heard)
        try:
            with trio.fail_after(VISIT_S):
                await self._perform(call)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError, ConnectionClosed, HandshakeError) as error:
            call.error = call.error or _named(error)
        except trio.TooSlowError:
            call.error = "it took too long"
        except ValueError:
            call.error = "broken framing"
        return call.seen()

    async def close(self) -> None:
        """Nothing is kept any more."""
        while self._idle:
            await trio.aclose_forcefully(self._idle.pop())

    async def _perform(self, call: _Call) -> None:
        match call.visit.kind:
            case "websocket":
                await call.turn()
            case "returning":
                await call.leave_and_return()
            case "retrying":
                await call.ask_again()
            case "kept":
                await self._kept(call)
            case _:
                await call.once()

    async def _kept(self, call: _Call) -> None:
        """On a connection that another visit has left open, if there is one."""
        used = bool(self._idle)
        stream = self._idle.pop() if used else await self._door.connect()
        try:
            await call.converse(stream, call.request(keep=True))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.aclose_forcefully(stream)
            if used and not call.answer.status:
                call.error = ENDED
            raise
        if used and not call.answer.status:
            call.error = ENDED
        if call.answer.finished:
            self._idle.append(stream)
        else:
            await trio.aclose_forcefully(stream)


class _Call:
    """One visit under way."""

    def __init__(self, door: Door, visit: Visit, heard: Callable[[int | None], None]) -> None:
        self.visit = visit
        self.error = ""
        self._door = door
        self._heard = heard
        self._began_ns = time.monotonic_ns()
        self._first = True
        self._dialog = DIALOGS[visit.protocol]
        self.answer = Answer(self._dialog, self._event)
        #: What the client keeps, where it comes back.
        self._body = bytearray()

    def request(self, *, keep: bool = False, again: bool = False, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
        """The whole request; the caller's id of it says which visit it is, or that it is one's second request."""
        visit = self.visit
        return request(
            visit.protocol,
            base="",
            host=f"{self._door.host}:{self._door.port}",
            key=_WRONG_KEY if visit.kind == "refused" else self._door.key,
            model=MODEL + visit.channel,
            prompt=line(visit.asked),
            call=f"{AGAIN if again else 'bench'}-{visit.asked.run}-{visit.number}",
            usage_asked=True,
            stream=visit.streams,
            headers=headers,
            keep=keep,
        )

    async def once(self) -> None:
        """A connection of its own; it may be left early, or read slowly."""
        stream = await self._door.connect(slow=self.visit.reading_bytes_s > 0)
        try:
            await self.converse(stream, self.request())
        finally:
            await trio.aclose_forcefully(stream)

    async def leave_and_return(self) -> None:
        """Leave in the midst, and ask for the rest by the number of what is there."""
        await self.once()
        if self._gone():
            return
        whole = bytes(self._body[: self._body.rfind(b"\n\n") + 2])
        after = sum(block.startswith((b"data:", b"event:")) for block in whole.split(b"\n\n"))
        path = f"/v1/requests/{self.answer.request_id}/events?after={after}"
        head = f"GET {path} HTTP/1.1\r\nhost: {self._door.host}\r\nauthorization: Bearer {self._door.key}\r\n"
        await self._return(f"{head}connection: close\r\n\r\n".encode(), whole)

    async def ask_again(self) -> None:
        """Leave in the midst, and make the same request again: it is told from its beginning."""
        headers = (("idempotency-key", f"{self.visit.asked.run}-{self.visit.number}"),)
        stream = await self._door.connect()
        try:
            await self.converse(stream, self.request(headers=headers))
        finally:
            await trio.aclose_forcefully(stream)
        if not self._gone():
            await self._return(self.request(headers=headers, again=True), b"")

    def _gone(self) -> bool:
        """The first part did not come to the moment at which the client meant to leave."""
        if self.answer.events >= self.visit.leaves_after:
            return False
        self.error = self._ending()
        return True

    async def _return(self, sent: bytes, whole: bytes) -> None:
        """The rest, as one answer with what was there."""
        first, body = self.answer, bytearray(whole)
        await trio.sleep(self.visit.returns_s)
        self.answer = Answer(self._dialog, self._event)
        stream = await self._door.connect()
        try:
            await stream.send_all(sent)
            while not self.answer.finished and (data := await stream.receive_some(_READ_BYTES)):
                body += self.answer.feed(bytes(data), time.monotonic_ns())
        finally:
            await trio.aclose_forcefully(stream)
        self.error = self._ending() and f"{self._ending()}, on the return"
        # Counted together, and not told again.
        both = Answer(self._dialog, _nothing)
        both.body(bytes(body), 0)
        # It is the first one's, unless that came to nothing.
        told = self.visit.kind == "retrying" and self.answer.status == 200
        both.status, both.request_id = first.status, self.answer.request_id if told else first.request_id
        self.answer = both

    async def turn(self) -> None:
        """One turn of the Responses WebSocket mode."""
        visit, door = self.visit, self._door
        stream = await door.connect()
        headers = {
            "authorization": f"Bearer {door.key}",
            "x-client-request-id": f"bench-{visit.asked.run}-{visit.number}",
        }
        extra = [(name.encode(), value.encode()) for name, value in headers.items()]
        create = {"type": "response.create", "model": MODEL + visit.channel, "input": line(visit.asked)}
        try:
            async with trio.open_nursery() as nursery:
                connection = await wrap_client_stream(nursery, stream, door.host, "/v1/responses", extra_headers=extra)
                self.answer.status = 200
                await connection.send_message(json.dumps(create))
                while not self.answer.terminal:
                    message = await connection.get_message()
                    data = message.encode() if isinstance(message, str) else message
                    self.answer.body(data + b"\n", time.monotonic_ns())
                    if b'"type":"error"' in data or b'"response.failed"' in data:
                        self.error = "an error event"
                        break
                await connection.aclose()
        except* ConnectionRejected as refusals:
            self.error = ", ".join(f"HTTP {each.status_code}" for each in _each(refusals))
        except* (ConnectionClosed, HandshakeError, trio.BrokenResourceError, OSError):
            self.error = BROKEN
        finally:
            await trio.aclose_forcefully(stream)

    async def converse(self, stream: trio.SSLStream[trio.SocketStream], sent: bytes) -> None:
        """Ask, and read to the end or until it is time to leave."""
        visit, answer = self.visit, self.answer
        await stream.send_all(sent)
        step = int(visit.reading_bytes_s * _SLOW_S) or _READ_BYTES
        while not answer.finished:
            data = await stream.receive_some(step)
            if not data:
                break
            body = answer.feed(bytes(data), time.monotonic_ns())
            if visit.returns_s:
                self._body += body
            if 0 < visit.leaves_after <= answer.events:
                return
            if visit.reading_bytes_s:
                await trio.sleep(_SLOW_S)
        self.error = self._ending()

    def _ending(self) -> str:
        """What is wrong with the end; "" if nothing is."""
        answer = self.answer
        if answer.status != 200:
            return f"HTTP {answer.status}" if answer.status else "no answer"
        if not answer.finished or (self.visit.streams and not answer.terminal):
            return "truncated"
        return ""

    def _event(self, delay_ns: int | None, now_ns: int) -> None:
        first, self._first = self._first, False
        self._heard(now_ns - self._began_ns if first else None)

    def seen(self) -> Seen:
        """What this client saw."""
        visit, answer = self.visit, self.answer
        left = visit.kind == "leaving" and not self.error
        return Seen(
            number=visit.number,
            request_id=answer.request_id,
            status=answer.status,
            events=answer.events if visit.streams else 0,
            complete=not self.error and not left,
            left=left,
            input=answer.input,
            output=answer.output,
            error=self.error,
        )


def _nothing(delay_ns: int | None, now_ns: int) -> None:
    """It was told already."""


def _each(group: BaseExceptionGroup[ConnectionRejected]) -> Iterator[ConnectionRejected]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _each(error)
        else:
            yield error


def _named(error: Exception) -> str:
    refused = isinstance(error, ConnectionRefusedError) or isinstance(error.__cause__, ConnectionRefusedError)
    return "the connection was refused" if refused else BROKEN
