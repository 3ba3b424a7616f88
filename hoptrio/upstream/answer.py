"""What a provider's side of an exchange is, as values: a request to send, and what came of it. Frozen, no I/O."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING
from typing import Protocol as Interface

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Answer", "BodyEnd", "Origin", "Unreached", "UnreachedKind", "UpstreamRequest"]


class Origin(msgspec.Struct, frozen=True):
    """Where connections go; the key of the pool. `proxy` is an http:// URL or "", `authorities`
    those that are trusted, in PEM, or "" = the usual ones."""

    scheme: str
    host: str
    port: int
    proxy: str = ""
    authorities: str = ""


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, complete: headers include host, auth, content-type, accept and ``accept-encoding: identity``."""

    origin: Origin
    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class UnreachedKind(Enum):
    """Why no response head came."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    PROXY = "proxy"
    #: Closed or reset after (some of) the request was sent.
    CLOSED = "closed"
    #: What came was not HTTP, or a head over the limit.
    NOT_HTTP = "not_http"


class Unreached(msgspec.Struct, frozen=True):
    """No answer. `dispatched` = some byte of the request may have left us."""

    kind: UnreachedKind
    dispatched: bool
    #: For the log: the class of the failure, never an address or a secret.
    detail: str


class BodyEnd(Enum):
    """How a body ended."""

    #: By its own framing: the last chunk, or the content length.
    CLEAN = "clean"
    #: A close-delimited body: an orderly FIN (over TLS: close_notify) and nothing that proves more.
    CLOSED = "closed"
    #: An EOF inside the framing.
    TRUNCATED = "truncated"
    #: A reset, a TLS error, or bytes that break the framing.
    RESET = "reset"
    #: A labelled compression that could not be decoded.
    UNDECODABLE = "undecodable"


class Answer(Interface):
    """A response whose head has arrived. Exactly one of `finish` and `abort` is called, at the end."""

    status: int
    #: Lower-case names.
    headers: tuple[tuple[bytes, bytes], ...]

    def receive(self) -> Awaitable[bytes | BodyEnd]:
        """The next bytes of the body, decoded, never empty; or how it ended. Cancelling it loses no byte."""

    def each(self, take: Callable[[bytes], bool]) -> Awaitable[BodyEnd | None]:
        """Hand on what `receive` would give, piece by piece, without a task's waking for each, until `take` returns
        True; how the body ended, None if it has not. What `take` raises is raised. Cancelling it loses no byte."""

    def finish(self) -> None:
        """Done with it: the connection goes back to the pool as soon as the body ends (waited for in the background,
        briefly), else it is closed."""

    def abort(self) -> None:
        """Close the connection now."""
