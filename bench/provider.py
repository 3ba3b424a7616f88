"""The harness's provider, a process of its own: ``python -m bench.provider [PORT]`` prints the port it listens on.

It speaks the four protocols in the words of the simulated provider (`bench.templates`), stamps each event with the
moment it is sent, and remembers what it sent to whom: ``GET /seen/RUN``. It ends when its standard input does.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import struct
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from bench.asked import Asked, find
from bench.loop import READABLE, WRITABLE, Loop
from bench.templates import Frames, template
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Served", "Server"]

_PATHS = {
    b"/chat/completions": Protocol.CHAT,
    b"/responses": Protocol.RESPONSES,
    b"/messages": Protocol.MESSAGES,
    b":streamGenerateContent": Protocol.GEMINI,
    b":generateContent": Protocol.GEMINI,
}
#: In a request that streams; Gemini says so in its path.
_STREAMS = (b'"stream":true', b'"stream": true')
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_REFUSAL = b'{"error":{"message":"simulated refusal","type":"server_error","code":null}}'
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_READ_BYTES = 64 * 1024
_ACCEPTS_A_TURN = 64
_WRITES_A_TURN = 16
_RESET = struct.pack("ii", 1, 0)
#: A step that waits for `Server.go_on`.
_SILENT = -1
#: So that paced streams which go on at the same moment do not all speak at once.
_GOLDEN = 0x9E3779B1


class Served(msgspec.Struct):
    """What became of one request; `outcome` is open, complete, gone (the gateway left), or how it was failed. An answer
    that is not streamed has no `events`."""

    number: int
    input: int
    output: int
    events: int = 0
    outcome: str = "open"


class Server:
    """Accepts; `served` is what was served, by run."""

    def __init__(self, loop: Loop, port: int) -> None:
        self.loop = loop
        self.served: dict[int, list[Served]] = {}
        #: Silent streams, by run, and the runs whose streams may go on.
        self.silent: dict[int, list[Callable[[], None]]] = {}
        self.gone_on: set[int] = set()
        self._socket = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._socket.setblocking(False)
        loop.watch(self._socket.fileno(), READABLE, self)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def ready(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Connection(self, connection)

    def serve(self, asked: Asked) -> Served:
        """Remember a request."""
        served = Served(asked.number, asked.input, asked.output)
        self.served.setdefault(asked.run, []).append(served)
        return served

    def go_on(self, run: int) -> None:
        """Nobody is silent any more."""
        self.gone_on.add(run)
        for each in self.silent.pop(run, ()):
            each()


class _Connection:
    """Requests one after another."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self._server = server
        self._loop = server.loop
        self._socket = sock
        self._descriptor = sock.fileno()
        self._input = b""
        self._output = b""
        self._served: Served | None = None
        self._steps: Iterator[int] = iter(())
        self._last = False
        #: The performance goes on once `_output` is gone.
        self._blocked = False
        self._loop.watch(self._descriptor, READABLE, self)

    def ready(self) -> None:
        """Bytes came or can go; a connection that ends while it is served was left."""
        if self._output:
            self._flush()
            return
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close("gone")
        else:
            self._input += data
            if self._served is None:
                self._read()

    def _read(self) -> None:
        head, found, rest = self._input.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not found or len(rest) < size:
            return
        body, self._input = rest[:size], rest[size:]
        self._last = _CLOSE.search(head) is not None
        method, target, _ = head.split(b" ", 2)
        if method == b"GET":
            self._tell(target)
        else:
            self._answer(target.partition(b"?")[0], body)

    def _tell(self, target: bytes) -> None:
        """What was seen of a run, or that it may go on; everybody else asks for something else."""
        what, _, number = target.rpartition(b"/")
        if what not in (b"/seen", b"/go") or not number.isdigit():
            self._write(_NOT_FOUND)
            self._after()
            return
        run = int(number)
        if what == b"/go":
            self._server.go_on(run)
        body = msgspec.json.encode(self._server.served.get(run, []) if what == b"/seen" else {})
        self._last = True
        self._write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))
        self._after()

    def _answer(self, path: bytes, body: bytes) -> None:
        protocol = next((each for ending, each in _PATHS.items() if path.endswith(ending)), None)
        if protocol is None:
            self._write(_NOT_FOUND)
            self._after()
            return
        asked = find(body)
        usage_asked = b'"include_usage"' in body
        frames = template(protocol, asked.events, asked.size, asked.input, asked.output, usage_asked)
        self._served = self._server.serve(asked)
        if path.endswith(b":streamGenerateContent") or any(each in body for each in _STREAMS):
            self._steps = self._perform(asked, frames, self._served)
        else:
            self._steps = self._whole(asked, frames.body)
        self._go_on(None)

    def _go_on(self, _: None) -> None:
        """Perform until the next pause."""
        if self._served is None:
            return
        for writes, due_ns in enumerate(self._steps, 1):
            if due_ns == _SILENT:
                return
            if self._output and not due_ns:
                self._blocked = True
                return
            if due_ns or writes == _WRITES_A_TURN:
                self._loop.at(due_ns, self._go_on, None)
                return
            if self._served is None:
                return

    def _refuse(self) -> None:
        refusal = (len(_REFUSAL), _REFUSAL)
        self._write(
            b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % refusal
        )
        self._finish("status")

    def _whole(self, asked: Asked, body: bytes) -> Iterator[int]:
        """An answer in one piece, after all its events would have come."""
        if asked.pace_ns:
            yield time.monotonic_ns() + asked.pace_ns * asked.events
        if asked.fail:
            self._refuse()
            return
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
        self._write(body)
        self._finish("complete")

    def _perform(self, asked: Asked, frames: Frames, served: Served) -> Iterator[int]:
        """Writes; yields when to go on, 0 = at once."""
        if asked.fail == "status":
            self._refuse()
            return
        now = time.monotonic_ns
        events = frames.events[: asked.fail_after] if asked.fail else frames.events
        self._write(_HEAD + frames.opening)
        due_ns = now()
        for event in events:
            if served.events == 1 and asked.silent and asked.run not in self._server.gone_on:
                self._server.silent.setdefault(asked.run, []).append(partial(self._go_on, None))
                yield _SILENT
                due_ns = now() + (asked.number * _GOLDEN % 2**32 * asked.pace_ns >> 32)
                yield due_ns
            elif served.events:
                due_ns += asked.pace_ns
                yield due_ns if asked.pace_ns else 0
            self._write(event.at(now()))
            served.events += 1
        if asked.fail:
            yield from self._fail(asked.fail, frames)
            return
        for part in frames.closing:
            yield 0
            self._write(part)
        self._finish("complete")

    def _fail(self, kind: str, frames: Frames) -> Iterator[int]:
        if kind == "error":
            self._write(frames.error)
            self._finish("error")
            return
        if kind == "stall":
            # Silence, until the other side has had enough of it.
            self._finish("stall")
            return
        # A reset throws away what the kernel has not sent yet; so it waits a moment.
        yield time.monotonic_ns() + 10**7
        if kind == "reset":
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close(kind)

    def _finish(self, outcome: str) -> None:
        if self._served is not None:
            self._served.outcome = outcome
        self._served = None
        self._after()

    def _after(self) -> None:
        """The response is written, or in `_output`."""
        if self._output or self._socket.fileno() < 0:
            return
        if self._last:
            self._close("")
        elif self._input:
            self._read()

    def _write(self, data: bytes) -> None:
        if self._output:
            self._output += data
            return
        try:
            sent = os.write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close("gone")
            return
        if sent < len(data):
            self._output = data[sent:]
            self._loop.watch(self._descriptor, WRITABLE, self)

    def _flush(self) -> None:
        data, self._output = self._output, b""
        self._write(data)
        if self._output or self._socket.fileno() < 0:
            return
        self._loop.watch(self._descriptor, READABLE, self)
        if self._served is None:
            self._after()
        elif self._blocked:
            self._blocked = False
            self._go_on(None)

    def _close(self, outcome: str) -> None:
        if self._socket.fileno() < 0:
            return
        if self._served is not None:
            self._served.outcome = outcome
            self._served = None
        self._loop.forget(self._descriptor)
        self._socket.close()


class _Parent:
    """Standard input: whoever started this process has ended when it does."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        loop.watch(0, READABLE, self)

    def ready(self) -> None:
        if not os.read(0, 1024):
            self._loop.running = False


def main(port: int) -> None:
    """Serve until the parent ends."""
    gc.disable()
    loop = Loop()
    _Parent(loop)
    server = Server(loop, port)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    loop.run()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
