"""One connection to PostgreSQL with a bound on every wait, and the driver's errors as the ledger's.

The server bounds locks, statements and silent transactions; the connection bounds what the server cannot: a network
that swallows packets, or a server that is stopped. A session that failed in any way is closed and never used again.
"""

from __future__ import annotations

import logging
import select
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo, timeout_from_conninfo
from psycopg.rows import TupleRow

from hoptrio import limits
from hoptrio.ledger.store import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg.abc import RV, PQGen

__all__ = ["Session", "connect", "conninfo", "parameters", "plain", "reading", "unavailable"]

#: Lock timeout, deadlock, serialization failure, statement timeout: the same batch is likely to pass soon.
_BUSY = {"55P03", "40P01", "40001", "57014"}
#: Two nodes made the same account or key at once: a second look finds the other's.
_RACES = {"accounts_one_name", "api_keys_one_secret"}
#: SQLSTATEs, or their first two letters, that speak of the server and not of the statement: connections, resources and
#: disks, what an operator does, the system, damage, and what this user may not.
_UNAVAILABLE = ("08", "53", "57", "58", "XX", "28", "25006", "25P03", "3D000", "3F000", "42501")


# Whatever it warns of is raised, too, and told by who catches it.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)


class Session(psycopg.Connection[TupleRow]):
    """A connection in autocommit mode: transactions are begun and committed by statements of their own."""

    #: The longest wait for one answer.
    answer_s: float = limits.POSTGRES_ANSWER_S

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Every wait of the driver passes here. After `answer_s` the connection is closed, since what the server still
        does on it cannot be known."""
        try:
            return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                self.close()
            raise

    @property
    def stale(self) -> bool:
        """True for an idle connection that the server has ended: there is something to read that nobody asked for."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))


def parameters(url: str) -> dict[str, Any]:
    """What libpq reads out of `url`: several hosts, a socket's folder as ``?host=``, any parameter that it knows.

    Raises ValueError, without any part of the URL: it may hold a password.
    """
    try:
        given = conninfo_to_dict(url)
        timeout_from_conninfo(given)
    except psycopg.ProgrammingError:
        raise ValueError("PostgreSQL does not understand this address or one of its parameters") from None
    # An abstract socket begins with an @. What else libpq takes for a host would be part of the password, and be told.
    hosts = str(given.get("host") or "").split(",")
    if url.partition("?")[0].count("@") > 1 or any("@" in host[1:] for host in hosts):
        raise ValueError("an @ in the user or password of a PostgreSQL address is written %40")
    ports = str(given.get("port") or "").split(",")
    if any(port and not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16) for port in ports):
        raise ValueError("the port of a PostgreSQL address is a number from 1 to 65535")
    return given


def conninfo(url: str, *, statement_s: float, by_index: bool = False) -> str:
    """`url` with our bounds added; the operator's own parameters win where they are no bounds of ours.

    `by_index`: whatever the planner believes of a table's size, rows are looked up and the table is not read. A plan
    for arrays of any length is made once, and on a table that was empty then it would compare every row to every
    element ever after (measured: 290 ms instead of 3 for 256 captures over 5,000 holds).

    Raises ValueError as `parameters` does.
    """
    given = parameters(url)
    settings = {
        "lock_timeout": limits.POSTGRES_LOCK_S,
        "statement_timeout": statement_s,
        "idle_in_transaction_session_timeout": max(limits.POSTGRES_IDLE_S, statement_s),
    }
    options = [str(given.pop("options", "")), *(f"-c {name}={value * 1000:.0f}" for name, value in settings.items())]
    if by_index:
        options.append("-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off")
    defaults: dict[str, Any] = {
        "application_name": "hoptrio",
        "client_encoding": "utf8",
        "connect_timeout": limits.POSTGRES_CONNECT_S,
        "keepalives_idle": limits.POSTGRES_KEEPALIVE_IDLE_S,
        "keepalives_interval": limits.POSTGRES_KEEPALIVE_INTERVAL_S,
        "keepalives_count": limits.POSTGRES_KEEPALIVE_PROBES,
        "tcp_user_timeout": round(limits.POSTGRES_ANSWER_S * 1000),
        # After a failover the old primary may still answer as a standby, or read-only.
        "target_session_attrs": "read-write",
    }
    return make_conninfo("", **{**defaults, **given, "options": " ".join(options).strip()})


def connect(dsn: str) -> Session:
    """A session over `conninfo`. Raises StoreUnavailable."""
    try:
        return Session.connect(dsn, autocommit=True)
    except psycopg.Error as error:
        # psycopg keeps its attempts in the frame that raised: a cycle with libpq's connection and its buffers in it,
        # which only the collector would free, for each attempt of an outage.
        raise unavailable(error.with_traceback(None)) from error


@contextmanager
def reading(session: Session) -> Iterator[Session]:
    """Read with `session`; on any failure it is closed, and what the server cannot do now is StoreUnavailable."""
    try:
        yield session
    except psycopg.Error as error:
        session.close()
        if _is_bug(error):
            raise
        raise unavailable(error) from error
    except BaseException:
        session.close()
        raise


def unavailable(error: psycopg.Error, *, uncertain: bool = False) -> StoreUnavailable:
    """`error` as the store's. Raises it as it is if it is a bug of the statement, and not the server's state."""
    if _is_bug(error):
        raise error
    busy = error.sqlstate in _BUSY or error.diag.constraint_name in _RACES
    return StoreUnavailable(_line(error), busy=busy, uncertain=uncertain)


def _is_bug(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    known = error.sqlstate in _BUSY or error.sqlstate.startswith(_UNAVAILABLE)
    return not known and error.diag.constraint_name not in _RACES


def _line(error: psycopg.Error) -> str:
    """What happened, in one line: the server's message, or libpq's, neither of which has the password."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.split()) or type(error).__name__


def plain(values: Iterable[Any]) -> list[Any]:
    """Values as the driver takes them in one array, and PostgreSQL in a text: enumerations as their text, and without
    NUL, which JSON of clients and providers may have."""
    return [_text(value) if isinstance(value, str) else value for value in values]


def _text(value: str) -> str:
    return str(value).replace("\0", "\ufffd")
