"""The listener on real sockets: whatever its clients and its bugs do, it can be stopped, and starts again."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import httpx
import pytest
import trio
import trio.testing

from hoptrio import limits
from hoptrio.control import server
from hoptrio.control.server import serve_control
from hoptrio.service.sockets import listen
from tests.support.certificates import Certificates
from tests.support.controlling import TOKEN

AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Its bounds, so that no test waits for the real ones."""
    monkeypatch.setattr(limits, "CONTROL_GRACE_S", 0.1)
    monkeypatch.setattr(limits, "CONTROL_WRITE_STALL_S", 0.4)
    monkeypatch.setattr(limits, "CONTROL_RESTART_S", 0.01)


@pytest.fixture
async def listening(control, nursery):
    """(address, the event that stops it, the one that it has stopped)."""
    [opened] = listen("127.0.0.1", 0)
    stop, stopped = trio.Event(), trio.Event()

    async def run():
        await serve_control(control.app, [opened], stop)
        stopped.set()

    nursery.start_soon(run)
    yield opened.getsockname(), stop, stopped
    stop.set()
    opened.close()


def url(address):
    return f"http://{address[0]}:{address[1]}"


async def get(address, path="/api/contracts"):
    async with httpx.AsyncClient(headers=AUTHORIZED) as client:
        return await client.get(f"{url(address)}{path}")


async def test_it_answers_until_it_is_stopped(listening):
    address, stop, stopped = listening
    answer = await get(address)
    assert (answer.status_code, "server" in answer.headers) == (200, False)
    stop.set()
    with trio.fail_after(10):
        await stopped.wait()


#: However busy the machine is, and long before the system gives a silent client up.
SOON_S = 20.0


@pytest.fixture
def patient(monkeypatch):
    """A system that keeps silent clients for long."""
    monkeypatch.setattr(limits, "CONTROL_WRITE_STALL_S", 60)


async def test_a_client_that_never_reads_cannot_hold_up_the_end(patient, listening):
    address, stop, stopped = listening
    request = f"GET /api/openapi.json HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with socket.socket() as silent:
        # Before the connection is made, or the window is the system's.
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await trio.to_thread.run_sync(silent.connect, address)
        silent.sendall(request * 400)
        # Others are answered meanwhile: by then the server waits for the silent one.
        for _ in range(20):
            assert (await get(address)).status_code == 200
        stop.set()
        with trio.fail_after(SOON_S):
            await stopped.wait()


async def test_it_ends_within_its_grace_however_long_the_system_waits_for_clients(patient, listening):
    """Many that take nothing, with an answer each, on connections that the kernel would keep."""
    address, stop, stopped = listening
    request = f"GET /api/openapi.json HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    silent = []
    for _ in range(20):
        each = socket.socket()
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        await trio.to_thread.run_sync(each.connect, address)
        each.sendall(request * 20)
        silent.append(each)
    assert (await get(address)).status_code == 200
    stop.set()
    with trio.fail_after(SOON_S):
        await stopped.wait()
    for each in silent:
        each.close()


async def test_connections_beyond_the_limit_are_closed_and_those_before_it_served(listening, monkeypatch):
    address, _, _ = listening
    monkeypatch.setattr(limits, "CONTROL_CONNECTIONS_MAX", 2)
    first, second = [await trio.open_tcp_stream(*address) for _ in range(2)]
    await first.send_all(b"GET /login HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await first.receive_some()).startswith(b"HTTP/1.1 200")
    third = await trio.open_tcp_stream(*address)
    with trio.fail_after(5):
        assert await third.receive_some() == b""
        await second.send_all(b"GET /login HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await second.receive_some()).startswith(b"HTTP/1.1 200")
    for each in (first, second, third):
        await each.aclose()


async def test_clients_that_say_nothing_or_half_cannot_hold_up_the_end(listening):
    address, stop, stopped = listening
    halves = [b"", b"GET / HT", b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc"]
    opened = [await trio.open_tcp_stream(*address) for _ in halves]
    for stream, half in zip(opened, halves, strict=True):
        await stream.send_all(half or b" ")
    assert (await get(address)).status_code == 200
    stop.set()
    with trio.fail_after(10):
        await stopped.wait()
    for stream in opened:
        await stream.aclose()


async def test_an_idle_connection_is_closed(listening, monkeypatch):
    address, _, _ = listening
    assert limits.CONTROL_IDLE_S <= 30
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(b"GET /login HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        received = b""
        with trio.fail_after(10):
            while data := await stream.receive_some():
                received += data
    assert received.startswith(b"HTTP/1.1 200")


async def test_a_server_that_fails_is_started_again(control, nursery, monkeypatch):
    """A bug in hypercorn ends all that it serves, and nothing else."""
    failures = [RuntimeError("a bug"), ExceptionGroup("bugs", [ValueError()])]

    class Failing(server.TCPServer):
        async def run(self):
            if failures:
                raise failures.pop()
            await super().run()

    monkeypatch.setattr(server, "TCPServer", Failing)
    [opened] = listen("127.0.0.1", 0)
    stop = trio.Event()
    nursery.start_soon(serve_control, control.app, [opened], stop)
    with trio.fail_after(10):
        for _ in range(2):
            async with await trio.open_tcp_stream(*opened.getsockname()) as stream:
                with suppress(trio.BrokenResourceError):
                    assert await stream.receive_some() == b""
        assert (await get(opened.getsockname())).status_code == 200
    assert not failures
    stop.set()
    opened.close()


async def test_what_is_no_http_is_no_ones_trouble(listening):
    address, _, _ = listening
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\r\n" * 50,
    ):
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(nonsense)
    assert (await get(address)).status_code == 200


async def test_a_websocket_is_refused(listening):
    address, _, _ = listening
    head = b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    head += b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(head)
        with trio.fail_after(10):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 403")


async def test_an_answer_that_never_comes_cannot_hold_up_the_end_nor_the_others(control, nursery):
    """A bug that waits for what never happens."""
    asked = trio.Event()

    async def hangs(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/hangs":
            asked.set()
            await trio.sleep_forever()
        await control.app(scope, receive, send)

    [opened] = listen("127.0.0.1", 0)
    stop, stopped = trio.Event(), trio.Event()

    async def run():
        await serve_control(hangs, [opened], stop)
        stopped.set()

    nursery.start_soon(run)
    async with await trio.open_tcp_stream(*opened.getsockname()) as stream:
        await stream.send_all(b"GET /hangs HTTP/1.1\r\nhost: x\r\n\r\n")
        with trio.fail_after(10):
            await asked.wait()
            assert (await get(opened.getsockname())).status_code == 200
            stop.set()
            await stopped.wait()
    opened.close()


# -- under TLS -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def secured(control, nursery, tmp_path):
    """(address, the event that stops it, the one that it has stopped, a client's context)."""
    certificates = Certificates(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificates.table.values())
    [opened] = listen("127.0.0.1", 0)
    stop, stopped = trio.Event(), trio.Event()

    async def run():
        await serve_control(control.app, [opened], stop, tls=lambda: context)
        stopped.set()

    nursery.start_soon(run)
    yield opened.getsockname(), stop, stopped, certificates.trusting()
    stop.set()
    opened.close()


@pytest.fixture
def hasty(monkeypatch):
    """One that waits for nobody."""
    monkeypatch.setattr(limits, "CONTROL_IDLE_S", 0.05)


async def test_a_handshake_that_never_ends_is_given_up(hasty, secured):
    address, *_ = secured
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        with trio.fail_after(10):
            assert await stream.receive_some() == b""


@pytest.mark.parametrize("said", [b"GET /login HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01", b""])
async def test_who_speaks_no_tls_is_no_ones_trouble(secured, said):
    address, stop, stopped, trusting = secured
    async with await trio.open_tcp_stream(*address) as stream:
        if said:
            await stream.send_all(said)
        async with httpx.AsyncClient(headers=AUTHORIZED, verify=trusting) as client:
            answer = await client.get(f"https://{address[0]}:{address[1]}/api/contracts")
        assert answer.status_code == 200
        stop.set()
        with trio.fail_after(10):
            await stopped.wait()


async def test_a_client_that_never_reads_cannot_hold_up_the_end_under_tls(patient, secured):
    address, stop, stopped, trusting = secured
    request = f"GET /api/openapi.json HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    plain = trio.socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await plain.connect(address)
    silent = trio.SSLStream(trio.SocketStream(plain), trusting, server_hostname="127.0.0.1")
    await silent.send_all(request * 400)
    async with httpx.AsyncClient(headers=AUTHORIZED, verify=trusting) as client:
        for _ in range(20):
            assert (await client.get(f"https://{address[0]}:{address[1]}/api/contracts")).status_code == 200
    began_at = trio.current_time()
    stop.set()
    with trio.fail_after(10):
        await stopped.wait()
    assert trio.current_time() - began_at < 3
    await trio.aclose_forcefully(silent)


@pytest.mark.parametrize("headers", [AUTHORIZED, {}], ids=["allowed", "refused"])
async def test_a_connection_that_is_over_leaves_nothing_to_the_collector(secured, garbage, headers):
    address, _, _, trusting = secured
    garbage()
    async with httpx.AsyncClient(headers=headers, verify=trusting) as client:
        answer = await client.get(f"https://{address[0]}:{address[1]}/api/contracts")
    assert answer.status_code == (200 if headers else 401)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert garbage("hypercorn", "itsdangerous") == set()
