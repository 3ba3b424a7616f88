"""Opening a connection to an origin: DNS, TCP (happy eyeballs), a proxy's tunnel, TLS.

A connection is returned ready, its TLS handshake done: reading through an implicit handshake and being cancelled there
breaks the stream. Whatever fails or is cancelled on the way leaves nothing open. `ConnectFailed` stays within this
package; `detail` is the class of what failed, never an address, a header or a secret.
"""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

import certifi
import h11
import trio

from hoptrio import limits
from hoptrio.upstream.answer import Origin, UnreachedKind
from hoptrio.upstream.wire import close_now

__all__ = ["ConnectFailed", "Connector", "connect"]

#: Gives a ready stream to an origin. May raise ConnectFailed or OSError.
Connector = Callable[[Origin], Awaitable[trio.abc.Stream]]


class ConnectFailed(Exception):
    """There is no connection, and why."""

    def __init__(self, kind: UnreachedKind, detail: str) -> None:
        super().__init__(f"{kind.value}: {detail}")
        self.kind = kind
        self.detail = detail


async def connect(origin: Origin) -> trio.abc.Stream:
    """A connection to `origin`, through its proxy if it names one. The caller bounds the time.

    Raises ConnectFailed.
    """
    proxy = _proxy(origin)
    host, port = (origin.host, origin.port) if proxy is None else (proxy.hostname or "", proxy.port or 80)
    stream: trio.abc.Stream = await _tcp(host, port)
    try:
        if proxy is not None:
            await _tunnel(stream, origin, proxy)
        if origin.scheme == "https":
            stream = await _tls(stream, origin)
    except BaseException:
        close_now(stream)
        raise
    return stream


def _proxy(origin: Origin) -> SplitResult | None:
    if not origin.proxy:
        return None
    proxy = urlsplit(origin.proxy)
    if proxy.scheme != "http" or not proxy.hostname:
        raise ConnectFailed(UnreachedKind.PROXY, "not an http:// URL")
    return proxy


async def _tcp(host: str, port: int) -> trio.SocketStream:
    try:
        stream = await trio.open_tcp_stream(host, port)
    except socket.gaierror as error:
        raise ConnectFailed(UnreachedKind.DNS, type(error).__name__) from None
    except OSError as error:
        raise ConnectFailed(UnreachedKind.CONNECT, type(error).__name__) from None
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", limits.TCP_KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", limits.TCP_KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", limits.TCP_KEEPALIVE_PROBES),
    ):
        # Not every platform names all three.
        if hasattr(socket, name):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return stream


async def _tls(transport: trio.abc.Stream, origin: Origin) -> trio.SSLStream[trio.abc.Stream]:
    try:
        context = _context(origin.authorities)
    except ssl.SSLError as error:
        raise ConnectFailed(UnreachedKind.TLS, f"authorities: {type(error).__name__}") from None
    # Without https_compatible an end without close_notify is an error: the only way to tell a cut from an end.
    stream = trio.SSLStream(transport, context, server_hostname=origin.host, https_compatible=False)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        cause = type(error.__cause__ or error).__name__
        raise ConnectFailed(UnreachedKind.TLS, cause) from None
    except ssl.CertificateError as error:
        raise ConnectFailed(UnreachedKind.TLS, type(error).__name__) from None
    return stream


@lru_cache(maxsize=64)
def _context(authorities: str) -> ssl.SSLContext:
    """Verification against `authorities`, or against certifi's bundle. Loading one takes tens of milliseconds."""
    context = ssl.create_default_context(cadata=authorities or certifi.contents())
    context.set_alpn_protocols(["http/1.1"])
    return context


async def _tunnel(stream: trio.abc.Stream, origin: Origin, proxy: SplitResult) -> None:
    """Ask the proxy for a tunnel (RFC 9110 9.3.6), for plain origins too: then there is one way to speak to them."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    authority = f"{host}:{origin.port}".encode("ascii")
    headers = [(b"host", authority)]
    if proxy.username is not None:
        secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        headers.append((b"proxy-authorization", b"Basic " + b64encode(secret)))
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=limits.UPSTREAM_HEAD_BYTES_MAX)
    try:
        await stream.send_all(http.send(h11.Request(method=b"CONNECT", target=authority, headers=headers)) or b"")
        response = await _read_tunnel_head(stream, http)
    except (trio.BrokenResourceError, h11.ProtocolError) as error:
        raise ConnectFailed(UnreachedKind.PROXY, type(error).__name__) from None
    if not 200 <= response.status_code < 300:
        _refuse_tunnel(f"status {response.status_code}")
    if http.trailing_data[0]:
        # Neither HTTP nor TLS lets the origin speak first, so these bytes are not the origin's.
        _refuse_tunnel("bytes behind the head")


async def _read_tunnel_head(stream: trio.abc.Stream, http: h11.Connection) -> h11.Response:
    while True:
        event = http.next_event()
        if isinstance(event, h11.Response):
            return event
        if event is h11.NEED_DATA:
            data = await stream.receive_some(limits.READ_BYTES_MAX)
            if not data:
                _refuse_tunnel("closed")
            http.receive_data(bytes(data))


def _refuse_tunnel(detail: str) -> NoReturn:
    raise ConnectFailed(UnreachedKind.PROXY, detail)
