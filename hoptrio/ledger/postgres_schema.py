"""PostgreSQL's schema: created and brought up to date by `migrate` alone, and looked at when a store opens.

Nodes run on one database, so none of them changes its schema in passing: an operator says when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.ledger.postgres_session import connect, conninfo, reading
from hoptrio.ledger.schema import versions
from hoptrio.ledger.store import StoreUnavailable

if TYPE_CHECKING:
    from hoptrio.ledger.postgres_session import Session

__all__ = ["check", "migrate", "version"]

#: "hoptrio", as a number: the lock of those that change the schema, held until their transaction ends.
_LOCK = 0x686F70_7472696F


def migrate(url: str) -> int:
    """Apply what is missing of the schema, each file in a transaction; processes at it together take turns.

    The schema's version. Raises StoreUnavailable; ValueError for a URL that is none.
    """
    session = connect(conninfo(url, statement_s=0))
    session.answer_s = limits.POSTGRES_MIGRATE_S
    with reading(session):
        _check_encoding(session)
        session.execute(f"SET lock_timeout = {limits.POSTGRES_MIGRATE_LOCK_S * 1000:.0f}")
        for number, sql in versions("postgres"):
            session.execute("BEGIN")
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if number > version(session):
                session.execute(sql)
                session.execute("INSERT INTO schema_version VALUES (%s, ledger_now_ms())", (number,))
            session.execute("COMMIT")
        check(session)
        session.close()
    return versions("postgres")[-1].number


def check(session: Session) -> None:
    """Raise StoreUnavailable, with what to do, unless the schema is this program's."""
    known = versions("postgres")[-1].number
    if not (found := version(session)):
        raise StoreUnavailable("the database has no ledger yet: run `hoptrio ledger migrate`")
    if found < known:
        raise StoreUnavailable(f"the ledger's schema is {found}, not yet {known}: run `hoptrio ledger migrate`")
    if found > known:
        raise StoreUnavailable(f"the ledger's schema is {found}, and this version of hoptrio knows {known} at most")
    _check_encoding(session)


def _check_encoding(session: Session) -> None:
    [(encoding,)] = session.execute("SHOW server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(f"the database's encoding is {encoding}; the ledger needs UTF8")


def version(session: Session) -> int:
    """The number of the last file that was applied; 0 = none was."""
    [(table,)] = session.execute("SELECT to_regclass('schema_version')::text")
    if table is None:
        return 0
    [(number,)] = session.execute("SELECT coalesce(max(number), 0) FROM schema_version")
    return int(number)
