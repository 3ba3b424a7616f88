"""Processes of the harness: started, pinned to cores, awaited until they listen, ended; and the one client run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from bench.job import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.job import Job

__all__ = ["Running", "fetch", "free_port", "module", "run_client", "running", "wait_for_port"]

_END_S = 30.0
_LAST_LINES = 20


class Running:
    """A process that runs: its first lines can be waited for, its last ones are kept for the error's message."""

    def __init__(self, process: subprocess.Popen[str], what: str, log: Path | None = None) -> None:
        self.pid = process.pid
        self._process = process
        self._what = what
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._log = log
        self._ready = threading.Condition()
        self._found = ""
        self._looking: Callable[[str], str] = lambda line: ""
        self._reader = threading.Thread(target=self._read, daemon=True)

    def await_line(self, look: Callable[[str], str], timeout_s: float = 60.0) -> str:
        """What `look` finds (not "") in a line of the output. Raises RuntimeError if the process ends first."""
        self._looking = look
        self.listen()
        until = time.monotonic() + timeout_s
        with self._ready:
            while not self._found and self._process.poll() is None and time.monotonic() < until:
                self._ready.wait(0.05)
        if not self._found:
            raise RuntimeError(f"{self._what} did not get ready:\n" + "".join(self._lines))
        return self._found

    def listen(self) -> None:
        """Read what it prints, so that it never waits for that."""
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        """Its last lines."""
        return "".join(self._lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with nullcontext() if self._log is None else self._log.open("a") as log:
            for line in self._process.stdout:
                self._lines.append(line)
                if log is not None:
                    log.write(line)
                if not self._found:
                    with self._ready:
                        self._found = self._looking(line)
                        self._ready.notify_all()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self, within_s: float) -> int | None:
        """Its exit status; None if it still runs then."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """SIGTERM, and SIGKILL if that is not heard."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader.ident is not None:
            self._reader.join(_END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def running(
    what: str,
    argv: Sequence[str],
    *,
    cores: frozenset[int],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    log: Path | None = None,
) -> Iterator[Running]:
    """Run `argv` on these cores until the block ends; all that it prints is added to `log`."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0", **(environment or {})},
        start_new_session=True,
    )
    started = Running(process, what, log)
    try:
        os.sched_setaffinity(process.pid, cores)
        yield started
    finally:
        started.end()


def module(*arguments: str) -> list[str]:
    """``python -m ARGUMENTS``."""
    return [sys.executable, "-m", *arguments]


def run_client(job: Job, cores: frozenset[int], progress: Callable[[int], None] = lambda done: None) -> Outcome:
    """One load, in a client process of its own. At the first KeyboardInterrupt the client is asked for
    what it has so far; a second one is raised."""
    # A session of its own: Ctrl-C is for the harness, which passes it on once.
    process = subprocess.Popen(
        module("bench.client"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    outcome: Outcome | None = None
    try:
        os.sched_setaffinity(process.pid, cores)
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        process.stdin.flush()
        interrupted = False
        while outcome is None:
            try:
                outcome = _hear(process.stdout.readline(), progress)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                process.send_signal(signal.SIGINT)
    finally:
        process.terminate()
        process.wait(_END_S)
        process.stdin.close()
        process.stdout.close()
    return outcome


def _hear(line: bytes, progress: Callable[[int], None]) -> Outcome | None:
    """What the client says. Raises RuntimeError if it says nothing any more."""
    if not line:
        raise RuntimeError("the client ended without an outcome")
    told = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    if "outcome" in told:
        return msgspec.json.decode(told["outcome"], type=Outcome)
    progress(msgspec.json.decode(told["progress"], type=int))
    return None


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for_port(port: int, process: Running, timeout_s: float) -> None:
    """Until somebody listens there. Raises RuntimeError if the process ends or the time is up."""
    until = time.monotonic() + timeout_s
    while process.alive and time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nobody listens on port {port}:\n{process.output}")


def fetch(port: int, path: str) -> bytes:
    """The body of a GET from 127.0.0.1."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        received = b""
        while data := connection.recv(65536):
            received += data
    return received.partition(b"\r\n\r\n")[2]
