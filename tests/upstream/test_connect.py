"""Opening connections for real: TLS against a private authority, proxies' tunnels, and all that can go wrong."""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from math import inf

import pytest
import trio
import trustme

from hoptrio.upstream.answer import BodyEnd, Origin, UnreachedKind
from hoptrio.upstream.client import Upstream
from hoptrio.upstream.connect import ConnectFailed, connect

ANSWER = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def authority():
    """A certificate authority, and what a channel has of it."""
    ca = trustme.CA()
    ca.pem = ca.cert_pem.bytes().decode()
    return ca


@pytest.fixture
def tls(authority):
    """`tls("name")` wraps a server's stream in TLS with a certificate for that name."""

    def make(name="localhost"):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        return lambda stream: trio.SSLStream(stream, context, server_side=True)

    return make


async def ask(kit, origin):
    """Ask once; returns (body, end), or what made it fail."""
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin))
        if isinstance(answer, kit.Unreached):
            assert repr(upstream) == "<Upstream busy=0 idle=0>"
            return answer
        outcome = await kit.read_answer(answer)
        answer.finish()
        return outcome


# -- TLS -------------------------------------------------------------------------------------------------------------


async def test_a_request_over_tls_and_again_on_the_same_connection(kit, tcp_origin, tls, authority):
    provider = kit.Script(ANSWER)
    origin = await tcp_origin(provider, wrap=tls(), scheme="https", host="localhost", authorities=authority.pem)
    async with Upstream() as upstream:
        for _ in range(3):
            answer = await upstream.open(kit.request_for(origin))
            assert await kit.read_answer(answer) == (b"hello", BodyEnd.CLEAN)
            answer.finish()
            assert repr(upstream) == "<Upstream busy=0 idle=1>"
    assert provider.connections == 1


async def test_a_large_body_over_tls(kit, tcp_origin, tls, authority):
    provider = kit.Script(ANSWER)
    origin = await tcp_origin(provider, wrap=tls(), scheme="https", host="localhost", authorities=authority.pem)
    body = b"x" * (2 * 1024 * 1024)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin, body=body))
        assert await kit.read_answer(answer) == (b"hello", BodyEnd.CLEAN)
        answer.finish()
    assert provider.requests[0][1] == body


@pytest.mark.parametrize(
    ("wire", "farewell", "end"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", True, BodyEnd.CLOSED),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", False, BodyEnd.RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", True, BodyEnd.TRUNCATED),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", False, BodyEnd.RESET),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", False, BodyEnd.CLEAN),
    ],
)
async def test_case_25_a_cut_without_close_notify_is_never_an_orderly_end(
    kit, tcp_origin, tls, authority, wire, farewell, end
):
    async def cutting(stream):
        await kit.read_request(stream)
        await stream.send_all(wire)
        if farewell:
            # Says close_notify and then waits for ours, which a client that hangs up does not send.
            await stream.unwrap()
        await stream.transport_stream.aclose()

    origin = await tcp_origin(cutting, wrap=tls(), scheme="https", host="localhost", authorities=authority.pem)
    assert await ask(kit, origin) == (b"hello", end)


async def test_a_certificate_of_an_unknown_authority_is_refused(kit, tcp_origin, tls):
    origin = await tcp_origin(kit.Script(ANSWER), wrap=tls(), scheme="https", host="localhost")
    unreached = await ask(kit, origin)
    assert (unreached.kind, unreached.dispatched) == (UnreachedKind.TLS, False)
    assert unreached.detail == "SSLCertVerificationError"


async def test_a_certificate_for_another_name_is_refused(kit, tcp_origin, tls, authority):
    wrap = tls("other.test")
    origin = await tcp_origin(
        kit.Script(ANSWER), wrap=wrap, scheme="https", host="localhost", authorities=authority.pem
    )
    assert (await ask(kit, origin)).kind is UnreachedKind.TLS


async def test_a_provider_that_speaks_no_tls_is_refused(kit, tcp_origin, authority):
    async def plain(stream):
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.receive_some(65536)

    origin = await tcp_origin(plain, scheme="https", host="localhost", authorities=authority.pem)
    assert (await ask(kit, origin)).kind is UnreachedKind.TLS


async def test_authorities_that_cannot_be_used_are_a_failure_of_tls(kit, tcp_origin, tls):
    origin = await tcp_origin(kit.Script(ANSWER), wrap=tls(), scheme="https", host="localhost", authorities="-----none")
    unreached = await ask(kit, origin)
    assert unreached.kind is UnreachedKind.TLS
    assert "none" not in unreached.detail


async def test_cancelling_receive_over_tls_loses_no_byte(kit, tcp_origin, tls, authority):
    async def paced(stream):
        await kit.read_request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for n in range(100):
            await stream.send_all(b"4\r\n%04d\r\n" % n)
        await stream.send_all(b"0\r\n\r\n")

    origin = await tcp_origin(paced, wrap=tls(), scheme="https", host="localhost", authorities=authority.pem)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin))
        body, data = b"", b""
        for n in range(10**6):
            with trio.CancelScope(deadline=-inf if n % 2 else trio.current_time() + 0.0005):
                data = await answer.receive()
                if isinstance(data, BodyEnd):
                    break
                body += data
        answer.finish()
    assert body == b"".join(b"%04d" % n for n in range(100))


async def test_cancelling_the_handshake_at_every_step_leaves_nothing_open(kit, tcp_origin, tls, authority):
    gone = []

    def wrap(stream):
        return tls()(stream)

    async def handler(stream):
        try:
            while await stream.receive_some(65536):
                pass
        finally:
            gone.append(1)

    origin = await tcp_origin(handler, wrap=wrap, scheme="https", host="localhost", authorities=authority.pem)
    for checkpoints in range(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect_and_close, origin)
            for _ in range(checkpoints):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    # An unclosed socket would be a ResourceWarning, which is an error here.


async def connect_and_close(origin):
    stream = await connect(origin)
    await trio.aclose_forcefully(stream)


# -- names and ports -------------------------------------------------------------------------------------------------


class NoNames(trio.abc.HostnameResolver):
    """Knows no name at all."""

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        raise socket.gaierror(socket.EAI_NONAME, "unknown name")

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


async def test_an_unknown_name_is_a_failure_of_dns(kit):
    trio.socket.set_custom_hostname_resolver(NoNames())
    unreached = await ask(kit, Origin("http", "name.invalid", 80))
    assert (unreached.kind, unreached.dispatched, unreached.detail) == (UnreachedKind.DNS, False, "gaierror")


async def test_a_connection_is_probed_while_it_is_silent(tcp_origin):
    async def silent(stream):
        await stream.receive_some(1)

    stream = await connect(await tcp_origin(silent))
    assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await stream.aclose()


# -- proxies ---------------------------------------------------------------------------------------------------------


class Proxy:
    """A CONNECT proxy: answers `reply` and, if that is a 200, joins the two connections."""

    def __init__(self, kit, reply=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.kit = kit
        self.reply = reply
        self.heads = []

    async def __call__(self, stream):
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(65536)
        self.heads.append(head)
        await stream.send_all(self.reply)
        if b" 200 " not in self.reply:
            return
        port = int(head.split(b" ")[1].rsplit(b":", 1)[1])
        async with await trio.open_tcp_stream("127.0.0.1", port) as origin, trio.open_nursery() as nursery:
            nursery.start_soon(self.pipe, stream, origin)
            await self.pipe(origin, stream)
            nursery.cancel_scope.cancel()

    @staticmethod
    async def pipe(source, sink):
        async for data in source:
            await sink.send_all(data)


async def through(tcp_origin, proxy, origin, user=""):
    address = await tcp_origin(proxy)
    return Origin(origin.scheme, origin.host, origin.port, f"http://{user}127.0.0.1:{address.port}", origin.authorities)


async def test_a_request_through_a_proxy(kit, tcp_origin):
    proxy = Proxy(kit)
    origin = await through(tcp_origin, proxy, await tcp_origin(kit.Script(ANSWER)))
    assert await ask(kit, origin) == (b"hello", BodyEnd.CLEAN)
    authority = b"127.0.0.1:%d" % origin.port
    assert proxy.heads == [b"CONNECT " + authority + b" HTTP/1.1\r\nhost: " + authority + b"\r\n\r\n"]


async def test_tls_through_a_proxy_that_asks_who_we_are(kit, tcp_origin, tls, authority):
    proxy = Proxy(kit)
    inner = await tcp_origin(
        kit.Script(ANSWER), wrap=tls(), scheme="https", host="localhost", authorities=authority.pem
    )
    origin = await through(tcp_origin, proxy, inner, user="me:p%40ss@")
    assert await ask(kit, origin) == (b"hello", BodyEnd.CLEAN)
    assert b"proxy-authorization: Basic " + b64encode(b"me:p@ss") + b"\r\n" in proxy.heads[0]


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "status 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "status 502"),
        (b"", "closed"),
        (b"nonsense\r\n\r\n", "RemoteProtocolError"),
    ],
)
async def test_a_proxy_that_gives_no_tunnel(kit, tcp_origin, reply, detail):
    origin = await through(tcp_origin, Proxy(kit, reply), Origin("https", "api.test", 443), user="me:secret@")
    unreached = await ask(kit, origin)
    assert (unreached.kind, unreached.dispatched, unreached.detail) == (UnreachedKind.PROXY, False, detail)


async def test_a_proxy_that_speaks_for_the_origin_is_refused(kit, tcp_origin):
    proxy = Proxy(kit, b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
    origin = await through(tcp_origin, proxy, await tcp_origin(kit.Script(ANSWER)))
    assert (await ask(kit, origin)).detail == "bytes behind the head"


@pytest.mark.parametrize("proxy", ["https://proxy.test:3128", "socks5://proxy.test", "proxy.test:3128", "http://"])
async def test_a_proxy_of_another_kind_is_refused(proxy):
    with pytest.raises(ConnectFailed) as caught:
        await connect(Origin("http", "api.test", 80, proxy))
    assert caught.value.kind is UnreachedKind.PROXY
    assert "proxy.test" not in str(caught.value)
