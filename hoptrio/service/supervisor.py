"""Several workers behind one port: processes that inherit the listening sockets, and the supervisor that keeps them.

Synchronous on purpose: signals, waitpid and poll, never an event loop, so that nothing here can hang with a worker. The
sockets are opened once and stay open through every restart, until the end begins: what the kernel has queued waits for
the next worker, and no connection is reset (with SO_REUSEPORT, some are). A worker is exec'd, not forked, and gets the
config beside the sockets, with the files that it names: one that is started after a crash runs with what was checked,
whatever the disk says by now.

A worker writes one byte to its ready pipe when it accepts, and drains on SIGTERM, or on `lifeline.RETIRE` when another
has taken its place; `lifeline.HURRY` ends its grace, as a second SIGTERM to the supervisor does for all of them. It
also watches the life pipe, whose other end only the supervisor has: it ends when the supervisor does, however that died
(`lifeline`).

SIGHUP replaces the workers one by one, each new one ready before an old one drains. When a new one does not get ready,
the old config is in force again and whatever ran with the new one is replaced in the same way.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING

import structlog

from hoptrio import limits
from hoptrio.config import ConfigError
from hoptrio.service.hangups import hear_hangups
from hoptrio.service.lifeline import HURRY, RETIRE

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Settings", "Supervisor"]

log = structlog.get_logger("hoptrio.service")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(frozen=True, eq=False, slots=True)
class Settings:
    """What one generation of workers runs with. Two are the same only if they are one object."""

    #: The files of the config, packed. Secrets, too.
    config: bytes = field(repr=False)
    workers: int
    grace_s: float


@dataclass(eq=False, slots=True)
class _Worker:
    """One process; `kill_at` is set when it has been told to drain."""

    process: subprocess.Popen[bytes]
    settings: Settings
    ready_pipe: IO[bytes]
    ready_by: float
    ready_at: float | None = None
    kill_at: float | None = None

    @property
    def serving(self) -> bool:
        """It was not told to end."""
        return self.kill_at is None


class Supervisor:
    """Keeps workers running until SIGTERM or SIGINT. `run` belongs to the main thread."""

    def __init__(
        self,
        command: Sequence[str],
        sockets: Sequence[socket.socket],
        settings: Settings,
        *,
        reload: Callable[[], Settings],
        on_ready: Callable[[], None],
        inherited: Mapping[str, Sequence[int]] | None = None,
        kill_after_s: float = limits.WORKER_KILL_S,
    ) -> None:
        """`command` starts a worker; the numbers of its descriptors are appended (see `_start`), those of `inherited`
        by their options. `reload` reads and checks the config again, and raises ConfigError; `on_ready` is called
        once, when every worker is ready."""
        self._command = command
        self._sockets = sockets
        self._settings = settings
        #: In force again if no worker gets ready with the new one; None = there is no new one.
        self._before: Settings | None = None
        self._reload = reload
        self._on_ready = on_ready
        self._inherited = dict(inherited or {})
        self._kill_after_s = kill_after_s
        self._workers: list[_Worker] = []
        self._announced = False
        self._stopping = False
        self._status = 0
        self._restart_s = 0.0
        self._restart_at = 0.0

    def run(self) -> int:
        """The exit status: 0, or 1 if the workers did not start or one had to be killed."""
        # Only this process has the end that is written to, so the other one ends with it.
        lifeline, ours = os.pipe()
        try:
            with _signals() as wakeup:
                hear_hangups()
                while True:
                    self._step(lifeline)
                    if self._stopping and not self._workers:
                        return self._status
                    for number in self._wait(wakeup):
                        self._hear(number)
        finally:
            os.close(ours)
            os.close(lifeline)

    def _hear(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stop()
        elif number == signal.SIGHUP and not self._stopping:
            self._take_over()

    def _take_over(self) -> None:
        try:
            settings = self._reload()
        except ConfigError as error:
            log.error("reload refused", error=str(error))
            return
        self._before, self._settings = self._before or self._settings, settings
        self._restart_s = self._restart_at = 0.0
        log.info("replacing workers", workers=settings.workers)

    def _stop(self) -> None:
        if self._stopping:
            log.info("hurrying", workers=len(self._workers), pid=os.getpid())
            for worker in self._workers:
                self._tell(worker, HURRY, 0.0)
            return
        self._stopping = True
        log.info("stopping", workers=len(self._workers), pid=os.getpid())
        for worker in [each for each in self._workers if each.serving]:
            self._tell(worker, signal.SIGTERM, worker.settings.grace_s)
        # Nobody accepts any more: a new connection is refused, and does not wait for the end of the last stream.
        for each in self._sockets:
            each.close()

    # -- one step -----------------------------------------------------------------------------------------------------

    def _step(self, lifeline: int) -> None:
        """Bring what runs nearer to what should run; never waits."""
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.process.poll() is not None:
                self._bury(worker, now)
            elif worker.kill_at is not None and now >= worker.kill_at:
                self._kill(worker)
            elif worker.serving and worker.ready_at is None and now >= worker.ready_by:
                log.error("worker does not get ready", pid=worker.process.pid)
                worker.process.kill()
        if not self._stopping:
            self._retire()
            self._staff(lifeline, now)
            self._announce()

    def _staff(self, lifeline: int, now: float) -> None:
        """Start what is missing; while old workers serve only one at a time, so that these keep their share of the
        machine."""
        serving = [worker for worker in self._workers if worker.serving]
        current = [worker for worker in serving if worker.settings is self._settings]
        missing = self._settings.workers - len(current)
        if len(serving) > len(current):
            starting = sum(worker.ready_at is None for worker in current)
            missing = min(missing, 1 - starting)
        if now < self._restart_at:
            return
        try:
            for _ in range(missing):
                self._workers.append(self._start(lifeline, now))
        except OSError as error:
            # Want of memory, processes or descriptors: those who run go on.
            self._back_off(now, stable=False)
            log.error("worker cannot be started", error=str(error), restart_s=self._restart_s)

    def _retire(self) -> None:
        """Drain old workers as far as new ones have taken their place."""
        serving = [worker for worker in self._workers if worker.serving]
        old = [worker for worker in serving if worker.settings is not self._settings]
        ready = sum(worker.ready_at is not None for worker in serving if worker.settings is self._settings)
        for worker in old[: max(0, ready + len(old) - self._settings.workers)] if ready else []:
            self._tell(worker, RETIRE, worker.settings.grace_s)
        if ready >= self._settings.workers:
            self._before = None

    def _announce(self) -> None:
        ready = sum(worker.ready_at is not None for worker in self._workers)
        if not self._announced and ready >= self._settings.workers:
            self._announced = True
            self._on_ready()

    # -- one worker ---------------------------------------------------------------------------------------------------

    def _start(self, lifeline: int, now: float) -> _Worker:
        """Exec a worker. It finds its sockets, config, ready pipe and life pipe under the numbers it is told."""
        number, write = os.pipe()
        ready = os.fdopen(number, "rb", buffering=0)
        try:
            process = self._exec(write, lifeline)
        except OSError:
            ready.close()
            raise
        log.info("worker started", pid=process.pid)
        return _Worker(process, self._settings, ready, now + limits.WORKER_READY_S)

    def _exec(self, write: int, lifeline: int) -> subprocess.Popen[bytes]:
        # In memory: secrets stay off the disks.
        with os.fdopen(write, "wb"), os.fdopen(os.memfd_create("hoptrio-config"), "wb") as config:
            config.write(self._settings.config)
            config.flush()
            sockets = [each.fileno() for each in self._sockets]
            numbers = {
                "--sockets": ",".join(map(str, sockets)),
                "--config-fd": str(config.fileno()),
                "--ready-fd": str(write),
                "--life-fd": str(lifeline),
                **{option: ",".join(map(str, numbers)) for option, numbers in self._inherited.items()},
            }
            return subprocess.Popen(
                # One that takes another's place serves while the ledger is away: it has the port, and answers 503.
                [
                    *self._command,
                    *(word for option in numbers.items() for word in option),
                    *(["--patient"] if self._announced else []),
                ],
                pass_fds=[*sockets, config.fileno(), write, lifeline, *chain(*self._inherited.values())],
            )

    def _tell(self, worker: _Worker, number: int, grace_s: float) -> None:
        """Tell a worker to end; it is killed if it has not by the end of the grace and a while."""
        kill_at = time.monotonic() + grace_s + self._kill_after_s
        worker.kill_at = kill_at if worker.kill_at is None else min(worker.kill_at, kill_at)
        worker.process.send_signal(number)

    def _kill(self, worker: _Worker) -> None:
        log.error("worker killed: it did not end within the grace", pid=worker.process.pid)
        worker.kill_at = float("inf")
        self._status = 1
        worker.process.kill()

    def _bury(self, worker: _Worker, now: float) -> None:
        self._workers.remove(worker)
        worker.ready_pipe.close()
        log.info("worker ended", pid=worker.process.pid, status=worker.process.returncode)
        if not worker.serving:
            return
        if not self._announced:
            # What keeps the first workers from starting is for the operator to mend; the worker has said what it is.
            self._status = max(1, worker.process.returncode)
            if not self._stopping:
                self._stop()
        elif worker.ready_at is None and worker.settings is self._settings and self._before is not None:
            log.error("workers do not start with the new config; the one before is in force again")
            self._settings, self._before = self._before, None
        else:
            stable = worker.ready_at is not None and now - worker.ready_at >= limits.WORKER_STABLE_S
            self._back_off(now, stable=stable)
            log.error("worker crashed", pid=worker.process.pid, restart_s=self._restart_s)

    def _back_off(self, now: float, *, stable: bool) -> None:
        longer = min(max(2 * self._restart_s, limits.WORKER_RESTART_MIN_S), limits.WORKER_RESTART_MAX_S)
        self._restart_s = 0.0 if stable else longer
        self._restart_at = now + self._restart_s

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, wakeup: int) -> bytes:
        """Until something happened or is due; the signals that came."""
        starting = {worker.ready_pipe.fileno(): worker for worker in self._workers if not worker.ready_pipe.closed}
        poll = select.poll()
        for number in (wakeup, *starting):
            poll.register(number, select.POLLIN)
        happened = [number for number, _ in poll.poll(self._pause_ms())]
        for worker in [starting[number] for number in happened if number in starting]:
            if worker.ready_pipe.read(1):
                worker.ready_at = time.monotonic()
            # Nothing more comes; without its byte, the worker is about to be found dead.
            worker.ready_pipe.close()
        return os.read(wakeup, 4096) if wakeup in happened else b""

    def _pause_ms(self) -> float | None:
        """To the next moment at which `_step` has something to do by itself; None = there is none."""
        now = time.monotonic()
        due = [worker.kill_at for worker in self._workers if worker.kill_at is not None]
        due += [worker.ready_by for worker in self._workers if worker.serving and worker.ready_at is None]
        if self._restart_at > now and not self._stopping:
            due.append(self._restart_at)
        # A millisecond more: poll rounds down, and would spin through the last one.
        return None if not due else min(max(0.0, min(due) - now), 3600.0) * 1000 + 1


@contextmanager
def _signals() -> Iterator[int]:
    """The signals a supervisor listens to, as bytes in a pipe: none is lost between two waits."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    handlers = {number: signal.signal(number, _ignore) for number in _SIGNALS}
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield read
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(read)
        os.close(write)


def _ignore(_number: int, _frame: object) -> None:
    """The wakeup pipe tells; a signal without a handler of Python's would not be written there."""
