"""Idle connections: the last in is the first out, and none that has become readable is used."""

from __future__ import annotations

import pytest
import trio

from hoptrio import limits
from hoptrio.upstream.answer import Origin
from hoptrio.upstream.pool import Pool

A = Origin("https", "a.test", 443)
B = Origin("https", "b.test", 443)


class FakeWire:
    def __init__(self):
        self.is_readable = False

    def readable(self):
        return self.is_readable


class FakeConnection:
    def __init__(self, origin=A):
        self.origin = origin
        self.wire = FakeWire()
        self.born_at = self.idle_since = trio.current_time()
        self.is_closed = False

    def close(self):
        self.is_closed = True


@pytest.fixture
async def pool():
    return Pool()


async def test_the_last_one_kept_is_the_first_one_taken(pool):
    first, second = FakeConnection(), FakeConnection()
    pool.keep(first)
    pool.keep(second)
    assert [pool.take(A), pool.take(A), pool.take(A)] == [second, first, None]


async def test_origins_do_not_mix(pool):
    connection = FakeConnection(A)
    pool.keep(connection)
    assert pool.take(B) is None
    assert pool.take(Origin("https", "a.test", 443, "http://proxy.test:3128")) is None
    assert pool.take(Origin("https", "a.test", 443)) is connection


async def test_case_20_a_readable_idle_connection_is_closed_and_never_used(pool):
    sound, stale = FakeConnection(), FakeConnection()
    pool.keep(sound)
    pool.keep(stale)
    stale.wire.is_readable = True
    assert pool.take(A) is sound
    assert stale.is_closed


async def test_an_idle_connection_expires(pool, autojump_clock):
    connection = FakeConnection()
    pool.keep(connection)
    await trio.sleep(limits.POOL_IDLE_S)
    assert pool.take(A) is None
    assert connection.is_closed


async def test_a_busy_connection_grows_too_old(pool, autojump_clock):
    connection = FakeConnection()
    for _ in range(int(limits.POOL_AGE_S / 40)):
        pool.keep(connection)
        await trio.sleep(40)
        taken = pool.take(A)
    assert taken is None
    assert connection.is_closed


async def test_beyond_the_limit_the_longest_idle_one_is_closed(pool):
    connections = [FakeConnection() for _ in range(limits.POOL_IDLE_MAX + 1)]
    for connection in connections:
        pool.keep(connection)
    assert [connection.is_closed for connection in connections[:2]] == [True, False]
    assert len(pool) == limits.POOL_IDLE_MAX


async def test_the_sweep_closes_what_nobody_asks_for(pool, autojump_clock):
    old, stale, sound = FakeConnection(A), FakeConnection(B), FakeConnection(A)
    pool.keep(old)
    await trio.sleep(limits.POOL_IDLE_S)
    pool.keep(stale)
    pool.keep(sound)
    stale.wire.is_readable = True
    pool.sweep()
    assert [old.is_closed, stale.is_closed, sound.is_closed] == [True, True, False]
    assert repr(pool) == "<Pool idle=1 origins=1>"


async def test_a_closed_pool_keeps_nothing(pool):
    idle, late = FakeConnection(), FakeConnection()
    pool.keep(idle)
    pool.close()
    pool.keep(late)
    assert idle.is_closed
    assert late.is_closed
    assert repr(pool) == "<Pool idle=0 origins=0>"
