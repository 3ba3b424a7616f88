"""Database: the ledger's, which goes away and comes back: PostgreSQL, killed or shut down at once, or a file of
SQLite's that somebody else locks."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from itertools import cycle
from typing import TYPE_CHECKING
from typing import Protocol as Interface

from bench.postgres import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.postgres import PostgresServer

__all__ = ["Database", "database"]

#: Less than a hold waits, or so long that it is refused.
_AWAY_S = (1.0, 8.0)
#: Less than a settlement waits, since a ledger in a file has no journal before it.
_LOCKED_S = (2.0, 6.0)


class Database(Interface):
    """One that can be made to fail."""

    #: For people.
    name: str
    #: Of the ledger.
    url: str
    #: As `bench.books` takes it.
    place: Path | str

    def fail(self) -> str:
        """Be away for a while, and be back; what was done. Blocks."""


class _Postgres:
    name = "PostgreSQL"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.url
        self.place: Path | str = server.url
        self._ways = cycle((server.kill, server.shut_down_at_once))
        self._away_s = cycle((_AWAY_S[0], _AWAY_S[0], _AWAY_S[1], _AWAY_S[1]))

    def fail(self) -> str:
        way, away_s = next(self._ways), next(self._away_s)
        way()
        time.sleep(away_s)
        self._server.restart()
        how = "killed" if way == self._server.kill else "shut down at once"
        return f"{how}, started again {away_s:g} s later"


class _Sqlite:
    name = "SQLite"

    def __init__(self, path: Path) -> None:
        self.place: Path | str = path
        self.url = f"sqlite:///{path}"
        self._locked_s = cycle(_LOCKED_S)

    def fail(self) -> str:
        locked_s = next(self._locked_s)
        with closing(sqlite3.connect(self.place, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(locked_s)
            connection.execute("ROLLBACK")
        return f"locked for {locked_s:g} s"


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    """A new one, ``postgresql`` or ``sqlite``, until the block ends."""
    if kind == "sqlite":
        yield _Sqlite(folder / "hoptrio.db")
        return
    with running_server() as server:
        yield _Postgres(server)
