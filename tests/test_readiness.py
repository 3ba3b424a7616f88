"""Reading by calls, over real sockets."""

from __future__ import annotations

import select
import socket

import pytest
import structlog
import trio
import trio.lowlevel

from hoptrio.readiness import readiness

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no set without epoll")


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def until(condition):
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


async def turns():
    """Enough of them for a call that must not come."""
    for _ in range(20):
        await trio.lowlevel.checkpoint()


async def test_there_is_one_set_for_a_run(pair):
    assert readiness() is readiness()


async def test_each_read_is_called_until_it_says_so(pair):
    ours, theirs = pair
    seen = []

    def read():
        seen.append(ours.recv(1))
        return seen[-1] == b"!"

    theirs.send(b"ab!c")
    await readiness().each(ours.fileno(), read)
    assert seen == [b"a", b"b", b"!"]
    await turns()
    assert ours.recv(9) == b"c"


async def test_what_a_read_raises_is_raised_to_whom_it_serves_alone(pair):
    ours, theirs = pair
    other, peer = socket.socketpair()
    with other, peer:
        seen = []
        readiness().add(other.fileno(), lambda: seen.append(other.recv(9)))
        theirs.send(b"x")
        with pytest.raises(ZeroDivisionError):
            await readiness().each(ours.fileno(), lambda: 1 // 0 == 0)
        peer.send(b"y")
        await until(lambda: seen == [b"y"])
        readiness().remove(other.fileno())


async def test_a_bug_in_a_call_ends_that_call_alone(pair):
    ours, theirs = pair
    with structlog.testing.capture_logs() as logs:
        readiness().add(ours.fileno(), lambda: 1 // 0)
        theirs.send(b"x")
        await until(lambda: logs)
        await turns()
    assert [each["error"] for each in logs] == ["ZeroDivisionError"]
    assert await echo(ours, theirs)


async def echo(ours, theirs):
    """Whether the set still serves."""
    await readiness().each(ours.fileno(), lambda: bool(ours.recv(9)))
    return True


async def test_cancelling_loses_no_byte(pair):
    ours, theirs = pair
    with trio.move_on_after(0):
        await readiness().each(ours.fileno(), lambda: bool(ours.recv(9)))
    theirs.send(b"x")
    await turns()
    assert ours.recv(9) == b"x"


async def test_who_reads_what_is_closed_is_told(pair):
    ours, _ = pair
    open_ = True

    def read():
        if not open_:
            raise trio.ClosedResourceError
        return False

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def reader():
            with pytest.raises(trio.ClosedResourceError):
                await readiness().each(ours.fileno(), read)

        await turns()
        open_ = False
        readiness().closing(ours.fileno())


async def test_one_that_is_removed_by_an_earlier_call_of_the_same_turn_is_not_called(pair):
    ours, theirs = pair
    other, peer = socket.socketpair()
    with other, peer:
        called = []

        def take(mine, another):
            called.append(mine)
            readiness().remove(mine)
            readiness().remove(another)

        theirs.send(b"x")
        peer.send(b"x")
        readiness().add(ours.fileno(), lambda: take(ours.fileno(), other.fileno()))
        readiness().add(other.fileno(), lambda: take(other.fileno(), ours.fileno()))
        await until(lambda: called)
        await turns()
        assert len(called) == 1
