"""Whatever step a connection is cancelled at, it is closed, nothing waits any more, and no body looks complete."""

from __future__ import annotations

import pytest
import trio
import trio.testing

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
EVENT = b"9\r\ndata: 1\n\n\r\n"


class CancelAt(trio.abc.Instrument):
    """Cancels `scope` before the `step`-th step of any task."""

    def __init__(self, scope, step):
        self.scope = scope
        self.left = step

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


async def handler(exchange):
    await exchange.read_body()
    exchange.writer.start()
    try:
        exchange.writer.head(200, [])
        for _ in range(3):
            exchange.writer.write(b"data: 1\n\n")
            await trio.lowlevel.checkpoint()
        await exchange.writer.end()
    finally:
        exchange.writer.stop()


async def run(gateway, step):
    """One exchange, its connection cancelled at `step`; what the client received and whether the step came."""
    ours, theirs = trio.testing.memory_stream_pair()
    client = gateway.client(ours)
    with trio.CancelScope() as scope:
        instrument = CancelAt(scope, step)
        trio.lowlevel.add_instrument(instrument)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gateway.serve, theirs, handler)
            nursery.start_soon(ask, ours)
    trio.lowlevel.remove_instrument(instrument)
    assert gateway.closed.is_set() or scope.cancelled_caught
    return await client.all(), instrument.left <= 0


async def ask(stream):
    await stream.send_all(REQUEST)
    await stream.send_all(b"abc")
    await stream.send_eof()


async def test_cancelled_at_every_step(gateway):
    for step in range(1, 1000):
        received, came = await run(gateway, step)
        assert gateway.backlogs.bytes == 0
        body = received.rpartition(b"chunked\r\n\r\n")[2] if b"chunked" in received else b""
        assert (EVENT * 3 + b"0\r\n\r\n").startswith(body)
        if not came:
            assert body == EVENT * 3 + b"0\r\n\r\n"
            return
    pytest.fail("the exchange never ended")
