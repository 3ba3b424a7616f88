"""A TLS connection that is closed is freed with its last reference, on every side, and not by the collector."""

from __future__ import annotations

import gc
import ssl
import weakref
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
import trustme

from hoptrio import tls
from hoptrio.downstream.wire import Wire as DownstreamWire
from hoptrio.upstream.wire import Wire as UpstreamWire

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def connected() -> tuple[trio.SSLStream, trio.SSLStream]:
    """Both ends of a connection with TLS, the client's first, hands shaken."""
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(theirs)
    authority.issue_cert("x").configure_cert(ours)
    one, other = trio.testing.memory_stream_pair()
    client = trio.SSLStream(one, theirs, server_hostname="x", https_compatible=True)
    server = trio.SSLStream(other, ours, server_side=True, https_compatible=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


async def test_trio_s_stream_needs_to_be_cut() -> None:
    client, server = await connected()
    await client.aclose()
    await server.aclose()
    cut, left = weakref.ref(client), weakref.ref(server)
    tls.cut(client)
    del client, server
    assert cut() is None
    assert left() is not None, "trio's TLS stream is no cycle any more: hoptrio.tls is not needed"


async def test_a_client_s_connection_is_freed_when_it_is_closed() -> None:
    client, server = await connected()
    wire, ref = DownstreamWire(server), weakref.ref(server)
    await wire.close()
    del wire, server
    assert ref() is None
    await client.aclose()


async def test_a_provider_s_connection_is_freed_when_it_is_closed() -> None:
    client, server = await connected()
    wire, ref = UpstreamWire(client), weakref.ref(client)
    wire.close()
    wire.close()
    del wire, client
    assert ref() is None
    await server.aclose()


async def test_whoever_uses_a_connection_that_was_closed_is_told_so() -> None:
    client, server = await connected()
    UpstreamWire(client).close()
    with pytest.raises(trio.ClosedResourceError):
        await client.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await client.receive_some()
    await server.aclose()


async def test_a_stream_without_tls_is_left_as_it_is() -> None:
    one, other = trio.testing.memory_stream_pair()
    tls.cut(one)
    await one.send_all(b"x")
    assert await other.receive_some() == b"x"
