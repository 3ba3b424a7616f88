"""Which engine a ledger's URL means. The PostgreSQL driver is imported by those who use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.ledger.memory import wall_ms
from hoptrio.ledger.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.ledger.store import Store

__all__ = ["migrate_store", "open_store"]

_POSTGRES = ("postgresql://", "postgres://")


def open_store(url: str, now_ms: Callable[[], int], *, patient: bool = False) -> Store:
    """The store at `url`; an SQLite file is created and migrated, a PostgreSQL database must have been. If `patient`,
    the database need not be there yet.

    `now_ms` is SQLite's clock; PostgreSQL has one of its own. Raises StoreUnavailable; ValueError for a URL that is not
    understood.
    """
    if url.startswith(_POSTGRES):
        from hoptrio.ledger.postgres import PostgresStore

        return PostgresStore(url, patient=patient)
    return SqliteStore(_sqlite_path(url), now_ms)


def migrate_store(url: str) -> int:
    """Create the schema at `url`, or bring it up to date; its version. Raises as `open_store` does."""
    if url.startswith(_POSTGRES):
        from hoptrio.ledger.postgres_schema import migrate

        return migrate(url)
    store = SqliteStore(_sqlite_path(url), wall_ms)
    try:
        return store.schema_version()
    finally:
        store.close()


def _sqlite_path(url: str) -> str:
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path:
        raise ValueError("the ledger's url is neither sqlite:///FILE nor postgresql://USER@HOST/DATABASE")
    return path
