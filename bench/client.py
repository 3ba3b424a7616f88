"""The harness's client, a process of its own for each load: ``python -m bench.client`` reads a `Job` from its standard
input, and writes lines of JSON: ``{"progress": streams that are over}`` and at last ``{"outcome": ...}``.

One thread and raw sockets (`bench.loop`). The delay of an event is the clock when `recv` returned less the time that
stands in the event: one clock, CLOCK_MONOTONIC. What processes cost is read here, at the marks, so that the figure and
the count of events belong to the same moment. SIGINT ends the load; what was seen so far is the outcome.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import socket
import ssl
import sys
import time
from array import array
from collections import deque
from typing import Any

import msgspec

from bench.answer import Answer
from bench.asked import Asked, line
from bench.counters import sample
from bench.dialogs import DIALOGS, request, turn, upgrade
from bench.job import INTERRUPTED, Job, Mark, Outcome, Seen, Spread
from bench.loop import READABLE, WRITABLE, Loop
from bench.spread import spread

__all__ = ["Client", "asked_of"]

_READ_BYTES = 64 * 1024
#: A slow reader's socket holds little, so that it is the sender who waits.
_SLOW_BYTES = 16 * 1024
_SECOND_NS = 10**9
_FAILURES = ("status", "cut", "reset", "error")
_PROGRESS_NS = _SECOND_NS // 5


def asked_of(job: Job, number: int) -> Asked:
    """What the stream of that number asks of the provider: a function of the job's seed."""
    shape, draw = job.shape, random.Random(job.seed * 1_000_003 + number)
    variant = number % shape.variants
    fails = draw.random() < shape.failing
    return Asked(
        run=job.run,
        number=number,
        events=shape.events,
        pace_ns=int(shape.pace_s * _SECOND_NS),
        size=shape.size,
        input=17 + 13 * variant,
        output=shape.events + 11 * variant,
        silent=int(shape.silent_s > 0),
        fail=draw.choice(_FAILURES) if fails else "",
        fail_after=draw.randrange(1, shape.events) if fails and shape.events > 1 else 0,
    )


def _leaves_after(job: Job, number: int) -> int:
    """Events after which its client leaves; 0 = it stays."""
    draw = random.Random(job.seed * 7_000_003 + number)
    return draw.randrange(1, job.shape.events) if draw.random() < job.shape.leaving else 0


class Client:
    """One load."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.dialog = DIALOGS[job.protocol]
        self.loop = Loop()
        self.address = _resolve(job)
        self.tls = ssl.create_default_context() if job.tls else None
        self.delays = array("q")
        self.firsts = array("q")
        self.jitter_ns = self.jitters = 0
        self.events = self.bytes = 0
        self.seen: list[Seen] = []
        self.marks: list[Mark] = []
        self.began_ns = 0
        self._waiting: deque[int] = deque()
        self._open: set[_Stream] = set()
        self._stopped = ""
        self._told_ns = 0
        #: Streams that ended without an event; all are open, and have been told to go on.
        self._eventless = 0
        self._go = False

    def run(self) -> Outcome:
        """Carry the load out."""
        job, shape = self.job, self.job.shape
        signal.signal(signal.SIGINT, lambda *_: self._stop(INTERRUPTED))
        self.began_ns = time.monotonic_ns()
        self.mark("begin")
        gap_ns = int(shape.spread_s * _SECOND_NS / shape.streams)
        for number in range(shape.streams):
            self.loop.at(self.began_ns + number * gap_ns, self._due, number)
        self.loop.at(self.began_ns + int(job.limit_s * _SECOND_NS), self._stop, "out of time")
        if job.until_s is not None:
            self.loop.at(self.began_ns + int(job.until_s * _SECOND_NS), self._no_more, None)
        self.loop.run()
        for stream in list(self._open):
            stream.give_up(self._stopped or "out of time")
        self.mark("end")
        return self._outcome()

    def mark(self, name: str) -> None:
        """Note the moment, and what the processes have cost by now."""
        self.marks.append(Mark(name, time.monotonic_ns(), self.events, sample(self.job.pids)))

    def first(self, started_ns: int, now_ns: int) -> None:
        """A stream's first event is there."""
        self.firsts.append(now_ns - started_ns)
        self._is_open()

    def _is_open(self) -> None:
        """Every stream has an event, or never will."""
        if len(self.firsts) + self._eventless == self.job.shape.streams and not self._go:
            self.mark("open")
            silent_s = self.job.shape.silent_s
            self._go = True
            if silent_s:
                self.loop.at(time.monotonic_ns() + int(silent_s * _SECOND_NS), self._tell_provider, None)

    def _tell_provider(self, _: None) -> None:
        """The silent streams may go on. It is on this machine and answers at once."""
        with socket.create_connection(("127.0.0.1", self.job.go_port)) as connection:
            connection.sendall(b"GET /go/%d HTTP/1.1\r\nconnection: close\r\n\r\n" % self.job.run)
            connection.recv(_READ_BYTES)
        self.mark("going")

    def closing(self) -> None:
        """A stream is at its end."""
        if not any(mark.name == "closing" for mark in self.marks):
            self.mark("closing")

    def over(self, stream: _Stream, seen: Seen) -> None:
        """A stream is over; the next one may begin."""
        self._open.discard(stream)
        self.seen.append(seen)
        if not seen.events:
            self._eventless += 1
            self._is_open()
        now_ns = time.monotonic_ns()
        if now_ns - self._told_ns > _PROGRESS_NS:
            self._told_ns = now_ns
            _tell({"progress": len(self.seen)})
        if self._waiting:
            self._begin(self._waiting.popleft())
        elif len(self.seen) == self.job.shape.streams:
            self.loop.running = False

    def _due(self, number: int) -> None:
        if len(self._open) < (self.job.shape.at_once or self.job.shape.streams):
            self._begin(number)
        else:
            self._waiting.append(number)

    def _begin(self, number: int) -> None:
        if self._stopped:
            return
        stream = _Stream(self, number)
        self._open.add(stream)
        stream.start()

    def _stop(self, why: str) -> None:
        self._stopped = why
        self.loop.running = False

    def _no_more(self, _: None) -> None:
        """No stream begins any more; the load is over when the open ones are."""
        self._waiting.clear()
        begun = len(self._open) + len(self.seen)
        self.job = msgspec.structs.replace(self.job, shape=msgspec.structs.replace(self.job.shape, streams=begun))
        if not self._open:
            self.loop.running = False

    def _outcome(self) -> Outcome:
        end_ns = self.marks[-1].at_ns
        return Outcome(
            run=self.job.run,
            wall_ns=end_ns - self.began_ns,
            events=self.events,
            bytes=self.bytes,
            marks=tuple(self.marks),
            first=spread(self.firsts),
            delay=spread(self.delays) if self.delays else Spread(0, ()),
            jitter_ns=self.jitter_ns / max(1, self.jitters),
            streams=tuple(self.seen),
            stopped=self._stopped,
        )


class _Stream:
    """One call, from its connect to its end."""

    __slots__ = (
        "_answer",
        "_begun",
        "_client",
        "_closing",
        "_delay_ns",
        "_descriptor",
        "_leaves_after",
        "_number",
        "_request",
        "_send",
        "_socket",
        "_started_ns",
    )

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number
        self._answer = Answer(client.dialog, self._event, stamped=client.job.prompt is None)
        #: The message that begins a turn is on its way; other requests need none.
        self._begun = not client.job.websocket
        self._closing = False
        self._delay_ns: int | None = None
        self._leaves_after = _leaves_after(client.job, number)
        self._request = _request_of(client, number)
        self._socket: socket.socket | ssl.SSLSocket
        self._send = True

    def start(self) -> None:
        """Connect; what follows is told by `ready`."""
        client = self._client
        family, address = client.address
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if client.job.shape.reading_bytes_s:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BYTES)
        self._started_ns = time.monotonic_ns()
        refused = sock.connect_ex(address)
        self._socket = sock
        if client.tls is not None:
            self._socket = client.tls.wrap_socket(sock, server_hostname=client.job.host, do_handshake_on_connect=False)
        self._descriptor = self._socket.fileno()
        if refused not in (0, _IN_PROGRESS):
            self._end(os.strerror(refused))
            return
        client.loop.watch(self._descriptor, WRITABLE, self)

    def ready(self) -> None:
        """The socket can go on; TLS may hold more than one read of it."""
        try:
            if self._send:
                self._send_request()
                return
            while True:
                data = self._socket.recv(self._room())
                if not data:
                    self._ended()
                    return
                self._take(data)
                if self._client.tls is None or self._socket.fileno() < 0:
                    return
        except (BlockingIOError, ssl.SSLWantReadError):
            self._watch(READABLE)
        except ssl.SSLWantWriteError:
            self._watch(WRITABLE)
        except ValueError:
            self._end("broken framing")
        except OSError as error:
            self._end(error.strerror or type(error).__name__)

    def _watch(self, mask: int) -> None:
        self._client.loop.watch(self._descriptor, mask, self)

    def _send_request(self) -> None:
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._end(os.strerror(failed))
            return
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.do_handshake()
        self._request = self._request[self._socket.send(self._request) :]
        if not self._request:
            self._send = False
            self._watch(READABLE)

    def _room(self) -> int:
        """A slow reader takes a twentieth of a second's bytes, and then waits."""
        rate = self._client.job.shape.reading_bytes_s
        if not rate:
            return _READ_BYTES
        self._watch(0)
        self._client.loop.at(time.monotonic_ns() + _SECOND_NS // 20, self._read_on, None)
        return max(1, rate // 20)

    def _read_on(self, _: None) -> None:
        if self._socket.fileno() >= 0:
            self._watch(READABLE)

    def _take(self, data: bytes) -> None:
        client, answer = self._client, self._answer
        client.bytes += len(data)
        answer.feed(data, time.monotonic_ns())
        if answer.switched and not self._begun:
            self._begun = True
            self._request = _turn_of(client, self._number)
            self._send_request()
        if answer.terminal and not self._closing:
            self._closing = True
            client.closing()
        if 0 < self._leaves_after <= answer.events:
            self._end("", left=True)
        elif answer.chunked and answer.finished:
            self._ended()

    def _event(self, delay_ns: int | None, now_ns: int) -> None:
        client = self._client
        client.events += 1
        if self._answer.events == 1:
            client.first(self._started_ns, now_ns)
        if delay_ns is not None:
            client.delays.append(delay_ns)
            if self._delay_ns is not None:
                client.jitter_ns += abs(delay_ns - self._delay_ns)
                client.jitters += 1
        self._delay_ns = delay_ns

    def _ended(self) -> None:
        answer = self._answer
        if answer.status != (101 if self._client.job.websocket else 200):
            self._end(f"HTTP {answer.status}" if answer.status else "no answer")
        elif not answer.terminal or (answer.chunked and not answer.finished):
            self._end("truncated")
        else:
            self._end("")

    def give_up(self, why: str) -> None:
        """The load is over, and this stream is not."""
        self._end(why)

    def _end(self, error: str, *, left: bool = False) -> None:
        client, answer = self._client, self._answer
        client.loop.forget(self._descriptor)
        self._socket.close()
        seen = Seen(
            number=self._number,
            request_id=answer.request_id,
            status=answer.status,
            events=answer.events,
            complete=not error and not left,
            left=left,
            input=answer.input,
            output=answer.output,
            error=error,
        )
        client.over(self, seen)


_IN_PROGRESS = 115


def _request_of(client: Client, number: int) -> bytes:
    job = client.job
    host, call = f"{job.host}:{job.port}", f"bench-{job.run}-{number}"
    if job.websocket:
        return upgrade(base=job.base, host=host, key=job.key, call=call)
    return request(
        job.protocol,
        base=job.base,
        host=host,
        key=job.key,
        model=job.model,
        prompt=_prompt_of(job, number),
        call=call,
        usage_asked=job.shape.usage_asked,
    )


def _turn_of(client: Client, number: int) -> bytes:
    return turn(model=client.job.model, prompt=_prompt_of(client.job, number))


def _prompt_of(job: Job, number: int) -> str:
    return job.prompt if job.prompt is not None else line(asked_of(job, number))


def _resolve(job: Job) -> tuple[int, Any]:
    family, _, _, _, address = socket.getaddrinfo(job.host, job.port, type=socket.SOCK_STREAM)[0]
    return family, address


def _tell(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """One job."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.disable()
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    _tell({"outcome": Client(job).run()})


if __name__ == "__main__":
    main()
