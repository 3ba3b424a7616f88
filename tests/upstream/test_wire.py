"""Streams that can be asked and closed without waiting."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
import trio.testing

from hoptrio.upstream.wire import Wire


@pytest.fixture
async def pair():
    """A wire over a real connection, and its peer."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    stream = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
    peer = await listener.accept()
    await listener.aclose()
    wire = Wire(stream)
    yield wire, peer
    wire.close()
    await trio.aclose_forcefully(peer)


async def until_readable(wire):
    with trio.fail_after(5):
        while not wire.readable():
            await trio.lowlevel.checkpoint()


async def test_a_quiet_connection_is_not_readable(pair):
    wire, peer = pair
    assert not wire.readable()
    await peer.send_all(b"x")
    assert await wire.receive() == b"x"
    assert not wire.readable()


async def test_bytes_make_it_readable(pair):
    wire, peer = pair
    await peer.send_all(b"x")
    await until_readable(wire)


async def test_an_end_makes_it_readable(pair):
    wire, peer = pair
    await peer.send_eof()
    await until_readable(wire)
    assert await wire.receive() == b""


async def test_reads_are_handed_on_until_enough_and_no_further(pair):
    wire, peer = pair
    seen = []
    await peer.send_all(b"one")
    await wire.receive_each(lambda data: seen.append(data) or True)
    await peer.send_all(b"two")
    await peer.send_eof()
    await wire.receive_each(lambda data: seen.append(data) or not data)
    assert seen == [b"one", b"two", b""]


async def test_what_takes_the_reads_may_fail_and_the_wire_goes_on(pair):
    wire, peer = pair

    def fail(data):
        raise ZeroDivisionError

    await peer.send_all(b"one")
    with pytest.raises(ZeroDivisionError):
        await wire.receive_each(fail)
    await peer.send_all(b"two")
    assert await wire.receive() == b"two"


async def test_a_reset_breaks_whoever_takes_the_reads(pair):
    wire, peer = pair
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()
    with pytest.raises(trio.BrokenResourceError):
        await wire.receive_each(lambda data: not data)


async def test_closing_is_told_to_whoever_takes_the_reads(pair):
    wire, _ = pair

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def taker():
            with pytest.raises(trio.ClosedResourceError):
                await wire.receive_each(lambda data: not data)

        await trio.testing.wait_all_tasks_blocked()
        wire.close()


async def test_a_reset_makes_it_readable_and_breaks_it(pair):
    wire, peer = pair
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()
    await until_readable(wire)
    with pytest.raises(trio.BrokenResourceError):
        await wire.receive()


async def test_closing_wakes_the_reader(pair, nursery):
    wire, _ = pair
    closed = trio.Event()

    async def read():
        with pytest.raises(trio.ClosedResourceError):
            await wire.receive()
        closed.set()

    nursery.start_soon(read)
    await trio.testing.wait_all_tasks_blocked()
    wire.close()
    wire.close()
    await closed.wait()
    with pytest.raises(trio.ClosedResourceError):
        await wire.receive()
    with pytest.raises(trio.ClosedResourceError):
        await wire.send(b"x")


async def test_a_closed_connection_is_seen_by_the_peer(pair):
    wire, peer = pair
    wire.close()
    assert await peer.receive_some(1) == b""


async def test_memory_streams_are_quiet_unless_they_say_so():
    ours, theirs = trio.testing.memory_stream_pair()
    wire = Wire(ours)
    await theirs.send_all(b"x")
    assert not wire.readable()
    ours.readable = lambda: True
    assert wire.readable()
    wire.close()
    assert await theirs.receive_some(1) == b""
