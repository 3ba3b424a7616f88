"""Who may use the control plane: programs by the bearer token, people by a session that the token opens.

A session is a signed cookie, so that a new token ends them all, and open in memory that every worker has (`sessions`),
so that whoever logs out ends it. The cookie is ``HttpOnly`` and ``SameSite=Strict``; since another port of the same
host is the same site, a change made with it must also come from a page of ours: by the browser's word for its origin
(`from_elsewhere`), and by a CSRF token that only such a page can read. Programs send no cookie and need none of this.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeSerializer, URLSafeTimedSerializer

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import HTTPConnection

    from hoptrio.control.sessions import Sessions

__all__ = ["CSRF_FIELD", "CSRF_HEADER", "SESSION_COOKIE", "Access", "Session"]

SESSION_COOKIE = "hoptrio_session"
#: Where a page's changes carry their CSRF token: a field of the form, or a header of a script's request.
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "x-csrf-token"

_SIGNER = {"digest_method": hashlib.sha256, "key_derivation": "hmac"}


class Session(NamedTuple):
    """A person who has logged in."""

    id: str
    csrf_token: str


class Access:
    """Judges callers by the token in force, which `token` tells: a reload may change it."""

    def __init__(self, token: Callable[[], str], sessions: Sessions) -> None:
        self._token = token
        self._open = sessions

    def is_token(self, given: str) -> bool:
        """Compared in constant time."""
        token = self._token()
        return bool(token) and hmac.compare_digest(given.encode(), token.encode())

    def bearer(self, connection: HTTPConnection) -> bool | None:
        """Does the request carry the token? None = it carries no Authorization at all."""
        header = connection.headers.get("authorization")
        if header is None:
            return None
        scheme, _, given = header.partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())

    def open_session(self) -> str:
        """A new session's cookie."""
        session_id = secrets.token_urlsafe(16)
        self._open.open(session_id)
        cookie = self._sessions().dumps(session_id)
        return cookie if isinstance(cookie, str) else cookie.decode()

    def session(self, connection: HTTPConnection) -> Session | None:
        """The session of the request's cookie, if it is one that was opened here, is not too old and was not closed."""
        cookie = connection.cookies.get(SESSION_COOKIE)
        if cookie is None:
            return None
        try:
            found = self._sessions().loads(cookie, max_age=limits.SESSION_S)
        except BadSignature:
            return None
        if not isinstance(found, str) or not self._open.is_open(found):
            return None
        return Session(found, self._csrf_token(found))

    def close_session(self, session: Session) -> None:
        """It is over, on every worker."""
        self._open.close(session.id)

    def _csrf_token(self, session_id: str) -> str:
        made = URLSafeSerializer(self._token(), salt="hoptrio csrf", signer_kwargs=_SIGNER).dumps(session_id)
        return made if isinstance(made, str) else made.decode()

    def _sessions(self) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(self._token(), salt="hoptrio session", signer_kwargs=_SIGNER)


def from_elsewhere(connection: HTTPConnection) -> bool:
    """The browser says that a page of another origin made the request; True also where it says nothing at all."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = connection.headers.get("origin")
    return origin is None or urlsplit(origin).netloc != connection.headers.get("host")


def is_csrf_token(session: Session, given: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode(), session.csrf_token.encode())
