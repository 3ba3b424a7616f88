"""What a provider wants to be told: a channel, a protocol and a path become one `UpstreamRequest`.

A client's credentials never go upstream: of the client's headers only those pass that its protocol relays, and of these
none that authenticates, routes or frames. The channel's own headers win over everything but what frames the message.
No value with a control character is ever written, so no header can be injected.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from typing import Protocol as Interface
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from hoptrio import __version__
from hoptrio.errors import BadRequest
from hoptrio.protocols.events import Protocol
from hoptrio.upstream.answer import Origin, UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Provider", "request_to"]

Auth = Literal["bearer", "x-api-key", "x-goog-api-key", "api-key"]


class Provider(Interface):
    """What must be known of a channel to reach its provider; `admission.catalogue.Channel` is one."""

    @property
    def base_urls(self) -> Mapping[Protocol, str]: ...
    @property
    def api_key(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def query(self) -> Mapping[str, str]: ...
    @property
    def auth(self) -> Auth | None: ...
    @property
    def proxy(self) -> str: ...
    @property
    def authorities(self) -> str: ...


#: Each protocol's own way to authenticate (protocols page 6.1, 7.1).
_AUTH: dict[Protocol, Auth] = {
    Protocol.CHAT: "bearer",
    Protocol.RESPONSES: "bearer",
    Protocol.MESSAGES: "x-api-key",
    Protocol.GEMINI: "x-goog-api-key",
}
_DEFAULT_PORTS = {"https": 443, "http": 80}
#: Sent if neither the client nor the channel names a version: the older one takes sampling parameters (6.1).
_ANTHROPIC_VERSION = b"2023-06-01"
#: Frames the message or belongs to one hop (RFC 9110 7.6.1); written by us alone.
_FRAMING = frozenset(
    (
        b"accept-encoding",
        b"connection",
        b"content-encoding",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
#: Speaks of the client's account at the provider, or of the client itself; never relayed.
_CLIENTS_OWN = frozenset(
    (
        b"api-key",
        b"authorization",
        b"cookie",
        b"forwarded",
        b"openai-organization",
        b"openai-project",
        b"x-api-key",
        b"x-forwarded-for",
        b"x-goog-api-key",
        b"x-goog-user-project",
        b"x-real-ip",
    )
)
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")


def request_to(
    provider: Provider,
    protocol: Protocol,
    path: str,
    body: bytes,
    *,
    stream: bool,
    relayed: Sequence[tuple[str, str]] = (),
) -> UpstreamRequest:
    """The request for `body` at `path` (with its query, if any) behind the channel's base URL for `protocol`.

    `relayed` are the client's headers that belong to the protocol (`Call.headers`). Raises BadRequest if one of them
    cannot be a header, and ValueError, which quotes no secret, for a channel that cannot be asked.
    """
    base = _base(provider.base_urls[protocol], provider.proxy, provider.authorities)
    headers: dict[bytes, bytes] = {
        b"host": base.host,
        b"user-agent": b"hoptrio/" + __version__.encode("ascii"),
        b"accept": b"text/event-stream, application/json" if stream else b"application/json",
        b"accept-encoding": b"identity",
        b"content-type": b"application/json",
    }
    if protocol is Protocol.MESSAGES:
        headers[b"anthropic-version"] = _ANTHROPIC_VERSION
    headers.update(_relayed(relayed))
    if provider.api_key:
        name, value = _credential(provider.auth or _AUTH[protocol], provider.api_key)
        headers[name] = value
    headers.update(_channel_headers(provider.headers))
    return UpstreamRequest(
        origin=base.origin,
        method=b"POST",
        target=base.target(path, provider.query),
        headers=tuple(headers.items()),
        body=body,
    )


class _Base:
    """A base URL, taken apart once. Raises ValueError."""

    __slots__ = ("host", "origin", "path", "query")

    def __init__(self, url: str, proxy: str, authorities: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
            raise ValueError
        host = parts.hostname.encode("idna").decode("ascii") if not parts.hostname.isascii() else parts.hostname
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self.origin = Origin(parts.scheme, host, port, proxy, authorities)
        authority = f"[{host}]" if ":" in host else host
        default = port == _DEFAULT_PORTS[parts.scheme]
        self.host = (authority if default else f"{authority}:{port}").encode("ascii")
        self.path = parts.path.rstrip("/")
        self.query = parse_qsl(parts.query, keep_blank_values=True)

    def target(self, path: str, query: Mapping[str, str]) -> bytes:
        """The request target. A name in the channel's query replaces the same name in the base URL's or the path's."""
        path, _, own = path.partition("?")
        pairs = dict(self.query)
        pairs.update(parse_qsl(own, keep_blank_values=True))
        pairs.update(query)
        target = quote(self.path + path, safe="/:%@!$&'()*+,;=~-._")
        return (f"{target}?{urlencode(pairs)}" if pairs else target or "/").encode("ascii")


@lru_cache(maxsize=1024)
def _base(url: str, proxy: str, authorities: str) -> _Base:
    try:
        return _Base(url, proxy, authorities)
    except ValueError:
        raise ValueError("base_url is not an http(s) URL with a host and without a user") from None


def _credential(auth: Auth, key: str) -> tuple[bytes, bytes]:
    value = _encode("api_key", key)
    return (b"authorization", b"Bearer " + value) if auth == "bearer" else (auth.encode("ascii"), value)


def _relayed(headers: Sequence[tuple[str, str]]) -> dict[bytes, bytes]:
    """The client's headers that may pass. A header sent twice is one list (RFC 9110 5.3), e.g. ``anthropic-beta``."""
    relayed: dict[bytes, bytes] = {}
    for text_name, text_value in headers:
        if not text_value.strip():
            continue
        try:
            name, value = _header(text_name, text_value)
        except ValueError:
            raise BadRequest("a header has an invalid value", param=text_name) from None
        if name not in _FRAMING and name not in _CLIENTS_OWN:
            relayed[name] = relayed[name] + b", " + value if name in relayed else value
    return relayed


def _channel_headers(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    own = dict(_header(name, value) for name, value in headers.items())
    framing = _FRAMING & own.keys()
    if framing:
        raise ValueError(f"headers: {min(framing).decode('ascii')} is not for a channel to set")
    return own


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    try:
        lower = name.lower().encode("ascii")
    except UnicodeEncodeError:
        lower = b""
    if _NAME.fullmatch(lower) is None:
        raise ValueError("headers: a name is not a header name")
    return lower, _encode(name, value)


def _encode(setting: str, value: str) -> bytes:
    """A header value in latin-1, as it is read downstream. Raises ValueError without quoting the value."""
    try:
        encoded = value.strip(" \t").encode("latin-1")
    except UnicodeEncodeError:
        encoded = b""
    if _VALUE.fullmatch(encoded) is None:
        raise ValueError(f"{setting}: the value cannot be sent in a header")
    return encoded
