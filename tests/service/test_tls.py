"""HTTPS on both listeners, over real sockets, and what becomes of it when certificates are renewed."""

from __future__ import annotations

import errno
import os
import signal
import ssl
import warnings
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import structlog
import trio
import trio.testing

from hoptrio.config import build
from hoptrio.service.run import serve
from hoptrio.service.tls import Identities
from tests.support.certificates import Certificates

ENTRANCES = ("data", "control")
TOKEN = "a-control-token"


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


class Gateway:
    """One in this process. SIGHUP reads `tables` again."""

    def __init__(self, folder, tls):
        self.folder = folder
        self.read = build
        self.tables = {
            "server": {"listen": "127.0.0.1:0"} | tls,
            "control": {"listen": "127.0.0.1:0", "token": TOKEN} | tls,
            "ledger": {"url": "sqlite:///l.db"},
        }

    def config(self):
        """What a reload reads."""
        return self.read(self.tables, directory=self.folder)

    @asynccontextmanager
    async def running(self):
        async with trio.open_nursery() as nursery:
            self.listening = await nursery.start(partial(serve, self.config(), reload=self.config))
            yield self
            os.kill(os.getpid(), signal.SIGTERM)

    def place(self, entrance):
        url = httpx.URL(getattr(self.listening, entrance)[0])
        return url.host, url.port

    def reload(self):
        os.kill(os.getpid(), signal.SIGHUP)


@pytest.fixture
async def gateway(certificates):
    async with Gateway(certificates.folder, certificates.table).running() as running:
        yield running


@asynccontextmanager
async def connected(gateway, entrance, trusting):
    """A TLS connection on which the handshake is made."""
    stream = await trio.open_ssl_over_tcp_stream(*gateway.place(entrance), ssl_context=trusting, https_compatible=True)
    async with stream:
        await stream.do_handshake()
        yield stream


async def shown(gateway, entrance, trusting):
    """The certificate that a new connection is shown."""
    async with connected(gateway, entrance, trusting) as stream:
        return stream.getpeercert(binary_form=True)


async def says(stream):
    """The first line of an answer on this connection, which is read to its end."""
    await stream.send_all(b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        more = await stream.receive_some()
        assert more, "the connection ended"
        received += more
    return received.partition(b"\r\n")[0]


async def until(true):
    """Poll until `await true()`: who is told by a signal does not answer it."""
    with trio.fail_after(10):
        while not await true():  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_both_listeners_speak_https_where_a_certificate_is_configured(gateway, certificates):
    (data,), (control,) = gateway.listening
    async with httpx.AsyncClient(verify=certificates.trusting()) as client:
        assert (await client.get(f"{data}/healthz")).json() == {"status": "ok"}
        assert (await client.get(f"{data}/readyz")).json()["ready"] is True
        token = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get(f"{control}/api/contracts", headers=token)).status_code == 200


async def test_a_session_of_https_is_never_sent_in_the_clear(gateway, certificates):
    (control,) = gateway.listening.control
    ours = {"sec-fetch-site": "same-origin", "accept": "text/html"}
    async with httpx.AsyncClient(verify=certificates.trusting(), headers=ours) as client:
        entered = await client.post(f"{control}/login", data={"token": TOKEN})
        assert "; secure" in entered.headers["set-cookie"].lower()
        # It would hold for every port of the host, the data plane's too.
        assert "strict-transport-security" not in entered.headers


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_a_renewed_certificate_is_shown_after_a_reload_and_open_connections_go_on(
    gateway, certificates, entrance
):
    trusting, old = certificates.trusting(), certificates.der
    async with connected(gateway, entrance, trusting) as stream:
        before = await says(stream)
        new = certificates.renew()
        assert await shown(gateway, entrance, trusting) == old
        gateway.reload()

        async def renewed():
            return await shown(gateway, entrance, trusting) == new

        await until(renewed)
        assert stream.getpeercert(binary_form=True) == old
        assert await says(stream) == before


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_a_broken_pair_is_refused_and_the_one_before_stays(gateway, certificates, entrance):
    """The certificate is renewed and its key is not there yet, as in the middle of a renewal."""
    trusting, old = certificates.trusting(), certificates.der
    old_key = (certificates.folder / "key.pem").read_bytes()
    new = certificates.renew()
    new_key = (certificates.folder / "key.pem").read_bytes()
    (certificates.folder / "key.pem").write_bytes(old_key)
    with structlog.testing.capture_logs() as logged:
        gateway.reload()

        async def refused():
            return any(each["event"] == "reload refused" for each in logged)

        await until(refused)
    [line] = [each for each in logged if each["event"] == "reload refused"]
    assert "server.tls_key: this is not the key of tls_certificate" in line["error"]
    assert "control.tls_key: this is not the key of tls_certificate" in line["error"]
    assert await shown(gateway, entrance, trusting) == old
    (certificates.folder / "key.pem").write_bytes(new_key)
    gateway.reload()

    async def renewed():
        return await shown(gateway, entrance, trusting) == new

    await until(renewed)


async def test_what_is_shown_is_the_pair_that_was_checked_whatever_becomes_of_its_files(gateway, certificates):
    trusting, new = certificates.trusting(), certificates.renew()

    def breaks(tables, **options):
        checked = build(tables, **options)
        (certificates.folder / "chain.pem").write_text("")
        (certificates.folder / "key.pem").unlink()
        return checked

    gateway.read = breaks
    gateway.reload()
    for entrance in ENTRANCES:

        async def renewed(entrance=entrance):
            return await shown(gateway, entrance, trusting) == new

        await until(renewed)


async def test_a_reload_is_refused_where_a_checked_pair_cannot_be_loaded(gateway, certificates, monkeypatch):
    """Loading takes a descriptor, for one."""
    trusting, old = certificates.trusting(), certificates.der
    checked = gateway.config()
    gateway.read = lambda *_, **__: checked

    def none_left(_name):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with structlog.testing.capture_logs() as logged, monkeypatch.context() as patched:
        patched.setattr(os, "memfd_create", none_left)
        gateway.reload()

        async def refused():
            return any(each["event"] == "reload refused" for each in logged)

        await until(refused)
    assert [each["error"] for each in logged] == [
        f"{certificates.folder}/chain.pem: cannot be used: Too many open files"
    ]
    for entrance in ENTRANCES:
        assert await shown(gateway, entrance, trusting) == old


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_tls_begins_with_a_reload_and_ends_with_one(certificates, entrance):
    gateway = Gateway(certificates.folder, {})
    async with gateway.running():

        async def secured():
            try:
                return await shown(gateway, entrance, certificates.trusting()) == certificates.der
            except trio.BrokenResourceError:
                return False

        async def plain():
            stream = await trio.open_tcp_stream(*gateway.place(entrance))
            async with stream:
                try:
                    return (await says(stream)).startswith(b"HTTP/1.1 ")
                except (trio.BrokenResourceError, AssertionError):
                    return False

        assert not await secured()
        gateway.tables["server"] |= certificates.table
        gateway.tables["control"] |= certificates.table
        gateway.reload()
        await until(secured)
        for table in ("server", "control"):
            gateway.tables[table] = {k: v for k, v in gateway.tables[table].items() if not k.startswith("tls")}
        gateway.reload()
        await until(plain)


def lenient(context):
    """Old TLS is good enough for this context."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


@pytest.fixture
def old(certificates):
    """A client that speaks TLS 1.1 and nothing newer."""
    context = lenient(certificates.trusting())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


async def test_the_old_client_of_these_tests_speaks_tls_1_1_with_whoever_does(old, certificates):
    context = lenient(Identities(Gateway(certificates.folder, certificates.table).config()).server.context)
    ours, theirs = trio.testing.memory_stream_pair()
    client = trio.SSLStream(theirs, old, server_hostname="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.SSLStream(ours, context, server_side=True).do_handshake)
        await client.do_handshake()
    assert client.version() == "TLSv1.1"


@pytest.mark.parametrize("entrance", ENTRANCES)
async def test_old_tls_is_refused(gateway, certificates, old, entrance):
    with pytest.raises(trio.BrokenResourceError):
        await shown(gateway, entrance, old)
    newer = certificates.trusting()
    newer.maximum_version = ssl.TLSVersion.TLSv1_2
    async with connected(gateway, entrance, newer) as stream:
        assert stream.version() == "TLSv1.2"
        assert (await says(stream)).startswith(b"HTTP/1.1 ")
