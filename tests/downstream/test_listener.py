from __future__ import annotations

import errno
import socket
import ssl

import pytest
import structlog.testing
import trio
import trio.testing
import trustme

from hoptrio import limits
from hoptrio.downstream.wire import Wire

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


class Queue:
    """A listener whose connections, or errors, the test provides."""

    def __init__(self, *results):
        self.results = list(results)
        self.accepted = 0

    async def accept(self):
        await trio.lowlevel.checkpoint()
        if not self.results:
            await trio.sleep_forever()
        result = self.results.pop(0)
        if isinstance(result, OSError):
            raise result
        self.accepted += 1
        return result

    async def aclose(self):
        await trio.lowlevel.checkpoint()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()


async def read_to_the_end(stream):
    async for _ in stream:
        pass


def pairs(count):
    return [trio.testing.memory_stream_pair() for _ in range(count)]


async def open_port(nursery, listener):
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    await nursery.start(listener.serve, listeners)
    return listeners[0].socket.getsockname()[1]


async def test_it_serves_and_a_drain_ends_it(make_listener, echo):
    listener = make_listener(echo)
    async with trio.open_nursery() as nursery:
        port = await open_port(nursery, listener)
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(GET)
            assert (await client.receive_some()).endswith(b"GET /a ")
            assert listener.connections == 1
            assert not listener.draining
            listener.drain()
            assert listener.draining
            assert await client.receive_some() == b""
    assert listener.connections == 0
    with pytest.raises(OSError):
        await trio.open_tcp_stream("127.0.0.1", port)


async def test_case_95_a_place_comes_back_however_a_connection_ends(make_listener, echo, autojump_clock):
    streams = pairs(3)
    queue = Queue(*[theirs for _, theirs in streams])
    listener = make_listener(echo, connections_max=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, [queue])
        await trio.testing.wait_all_tasks_blocked()
        assert (queue.accepted, listener.connections) == (1, 1)
        await streams[0][0].aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (queue.accepted, listener.connections) == (2, 1)
        await streams[1][0].send_all(b"nonsense\r\n\r\n")
        await trio.sleep(10)
        assert (queue.accepted, listener.connections) == (3, 1)
        listener.drain()
    assert listener.connections == 0


async def test_a_lack_of_descriptors_is_waited_out(make_listener, echo, autojump_clock):
    ((ours, theirs),) = pairs(1)
    queue = Queue(OSError(errno.EMFILE, "x"), OSError(errno.ENFILE, "x"), theirs)
    listener = make_listener(echo)
    started = trio.current_time()
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, [queue])
            await ours.send_all(GET)
            assert (await ours.receive_some()).startswith(b"HTTP/1.1 200")
            listener.drain()
    assert [line["error"] for line in logs] == ["EMFILE", "ENFILE"]
    assert 0 < trio.current_time() - started < 5


async def test_a_bug_in_the_delivery_to_one_client_does_not_reach_another(make_listener, monkeypatch):
    async def handler(exchange):
        exchange.writer.head(200, [])
        exchange.writer.write(b"x" * (32 * 2**20 if exchange.head.path == "/large" else 1))
        await exchange.writer.end()

    async def send(wire, data):
        raise ValueError("the output")

    monkeypatch.setattr(Wire, "send", send)
    listener = make_listener(handler)
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            port = await open_port(nursery, listener)
            async with await trio.open_tcp_stream("127.0.0.1", port) as large:
                await large.send_all(GET.replace(b"/a", b"/large"))
                with pytest.raises(trio.BrokenResourceError):
                    await read_to_the_end(large)
            async with await trio.open_tcp_stream("127.0.0.1", port) as small:
                await small.send_all(GET)
                assert (await small.receive_some()).startswith(b"HTTP/1.1 200")
                listener.drain()
    assert [line["event"] for line in logs] == ["delivery_failed"]
    assert "output" not in str(logs)


async def test_a_bug_in_one_connection_does_not_reach_another(make_listener, autojump_clock):
    async def handler(exchange):
        raise ValueError("the prompt")

    def broken(head, error):
        raise RuntimeError("the prompt")

    listener = make_listener(handler, refuse=broken)
    streams = pairs(2)
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, [Queue(*[theirs for _, theirs in streams])])
            for ours, _ in streams:
                await ours.send_all(GET)
                assert await ours.receive_some() == b""
            listener.drain()
    assert [line["event"] for line in logs].count("connection_failed") == 2
    assert "prompt" not in str(logs)


async def test_tls(make_listener, echo, streaming):
    async def body(writer):
        for n in range(100):
            writer.write(b"data: %d\n\n" % n)
        await writer.abort()

    stream_handler = streaming(body)

    async def handler(exchange):
        assert exchange.head.peer == "127.0.0.1"
        await (stream_handler if exchange.head.path == "/s" else echo)(exchange)

    authority = trustme.CA()
    server, client_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client_side)
    (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener = make_listener(handler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, [trio.SSLListener(tcp, server)])
        port = tcp.socket.getsockname()[1]
        client = await trio.open_ssl_over_tcp_stream("localhost", port, ssl_context=client_side)
        await client.send_all(GET)
        assert (await client.receive_some()).endswith(b"GET /a ")
        await client.send_all(GET.replace(b"/a", b"/s"))
        received = b""
        while data := await client.receive_some():
            received += data
        assert received.endswith(b"data: 99\n\n\r\n")
        await client.aclose()
        listener.drain()


async def test_plain_bytes_on_a_tls_port_do_no_harm(make_listener, echo):
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(server)
    (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listener = make_listener(echo)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, [trio.SSLListener(tcp, server)])
        async with await trio.open_tcp_stream("127.0.0.1", tcp.socket.getsockname()[1]) as client:
            await client.send_all(GET)
            while await client.receive_some():
                pass
        listener.drain()
    assert listener.connections == 0


async def test_an_ipv4_client_of_a_dual_stack_port_has_its_ipv4_name(make_listener):
    seen = []

    async def handler(exchange):
        seen.append(exchange.head.peer)
        await exchange.writer.respond(200, [], b"ok")

    sock = socket.socket(socket.AF_INET6)
    try:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
    except OSError:
        sock.close()
        pytest.skip("no IPv6 here")
    sock.listen()
    listener = make_listener(handler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve, [trio.SocketListener(trio.socket.from_stdlib_socket(sock))])
        async with await trio.open_tcp_stream("127.0.0.1", sock.getsockname()[1]) as client:
            await client.send_all(GET)
            await client.receive_some()
        listener.drain()
    assert seen == ["127.0.0.1"]


async def test_a_handshake_that_never_ends_is_given_up_after_the_time_of_a_head(make_listener, echo, autojump_clock):
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost").configure_cert(server)
    ours, theirs = trio.testing.memory_stream_pair()
    listener = make_listener(echo)
    async with trio.open_nursery() as nursery:
        secured = trio.SSLStream(theirs, server, server_side=True, https_compatible=True)
        nursery.start_soon(listener.serve, [Queue(secured)])
        # The first bytes of a ClientHello that does not go on.
        await ours.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert await ours.receive_some() == b""
        assert trio.current_time() == pytest.approx(limits.HEAD_S, abs=1)
        listener.drain()
    assert listener.connections == 0
