"""Lockstep: a whole gateway, its provider and its client in one thread, one event at a time, so that everything that is
counted is counted the same again.

The gateway is the product's own, on real sockets of the loopback; its ledger is the one without threads. An event is
written to the provider's socket, and nothing else happens until the client has it: so each costs a gateway one reading
and one writing, whatever else the machine does. The naive relay and no gateway at all go through the same steps; what
no gateway costs is the harness's own part.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
import tracemalloc
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from bench.asked import Asked, line
from bench.contestants.naive import relay
from bench.dialogs import DIALOGS, request
from bench.templates import template
from hoptrio import limits
from hoptrio.config import build
from hoptrio.downstream.listener import Listener
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.protocols.events import Protocol
from hoptrio.spool.scribe import InlineScribe
from hoptrio.spool.segments import Segments
from hoptrio.spool.spool import Caps, Spool
from hoptrio.spool.spools import Spools
from hoptrio.upstream.client import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from bench.templates import Frames

__all__ = ["Counts", "Measured", "World", "count_all", "direct", "gateway", "least", "paced", "relayed"]

_READ_BYTES = 64 * 1024
_PATIENCE_S = 20.0
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"\r\n0\r\n\r\n"
#: Enough for a share of 1 % to be some calls, and few enough for the test.
EVENTS = 100
BURSTS, BURST = 10, 16
STREAMS = 8
IDLE = 40
RETAINED_EVENTS = 300
REPEATED = 3


class Counts(NamedTuple):
    """What one way costs, the harness's own part taken off. Calls are Python functions and C functions entered."""

    calls_per_paced_event: float
    calls_per_burst_event: float
    calls_per_stream: float
    calls_per_converted_event: float
    blocks_per_idle_stream: float
    bytes_per_idle_stream: float
    #: Blocks of memory that an event leaves behind in a stream that goes on.
    blocks_kept_per_event: float


class World:
    """A provider and a way to it: the client connects to `port`; `asked` has the connections of requests to answer."""

    def __init__(self, provider_port: int, asked: trio.MemoryReceiveChannel[trio.SocketStream], key: str) -> None:
        self.provider_port = self.port = provider_port
        self.key = key
        self._asked = asked

    async def open(self, client_protocol: str = "chat") -> Open:
        """A stream of a Chat channel that has its head and its first event."""
        frames = template(Protocol.CHAT, EVENTS, 40, 10, EVENTS, True)
        client = await trio.open_tcp_stream("127.0.0.1", self.port)
        await client.send_all(_request(client_protocol, self.key))
        opened = Open(client, await self._asked.receive(), frames, DIALOGS[client_protocol].stamp.search)
        opened.send(_HEAD + frames.opening + frames.events[0].at(1))
        await opened.receive_event()
        return opened


class Open(NamedTuple):
    """An open stream, event by event."""

    client: trio.SocketStream
    provider: trio.SocketStream
    frames: Frames
    find: Callable[[bytes], Any]

    def send(self, data: bytes) -> None:
        """From the provider, without a turn of the loop; the kernel has room for it."""
        if os.write(self.provider.socket.fileno(), data) != len(data):
            raise RuntimeError("the socket did not take it at once")

    async def receive_event(self) -> None:
        """Read until an event is there."""
        data = b""
        while not self.find(data):
            data += await self._receive()

    async def step(self) -> None:
        """One event from the provider to the client."""
        self.send(self.frames.events[1].at(1))
        await self.receive_event()

    async def burst(self, events: int) -> None:
        """So many in one write."""
        self.send(self.frames.events[1].at(1) * events)
        got = 0
        while got < events:
            got += (await self._receive()).count(b"data: ")

    async def end(self) -> None:
        """The rest of the answer, and the client's close."""
        self.send(b"".join(self.frames.closing))
        data = b""
        while not data.endswith(_END):
            data += await self._receive()
        await trio.aclose_forcefully(self.client)

    async def _receive(self) -> bytes:
        data = bytes(await self.client.receive_some(_READ_BYTES))
        if not data:
            raise RuntimeError("the stream ended in the middle")
        return data


def _request(client_protocol: str, key: str) -> bytes:
    return request(
        client_protocol,
        base="",
        host="x",
        key=key,
        model="bench-chat",
        prompt=line(Asked()),
        call="check",
        usage_asked=True,
    )


# -- ways ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def direct() -> AsyncIterator[World]:
    """Nothing in between."""
    async with _provided("none") as world:
        yield world


@asynccontextmanager
async def relayed() -> AsyncIterator[World]:
    """The naive relay."""
    async with _provided("none") as world, trio.open_nursery() as nursery:
        handle = partial(_relay, port=world.provider_port)
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        world.port = int(listener.socket.getsockname()[1])
        yield world
        nursery.cancel_scope.cancel()


async def _relay(client: trio.SocketStream, *, port: int) -> None:
    try:
        await relay(client, "127.0.0.1", port)
    except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        pass


@asynccontextmanager
async def gateway() -> AsyncIterator[World]:
    """hoptrio, from the accept to the settlement."""
    with tempfile.TemporaryDirectory() as spool:
        async with _gateway_keeping(Path(spool)) as world:
            yield world


@asynccontextmanager
async def _gateway_keeping(directory: Path) -> AsyncIterator[World]:
    async with _provided("") as world, memory_ledger() as ledger, Upstream() as upstream:
        scribe = InlineScribe()
        segments = Segments(directory, scribe, bytes_max=limits.SPOOL_BYTES_MAX)
        caps = Caps(kept_s=limits.SPOOL_KEPT_S, stream_bytes_max=limits.SPOOL_STREAM_BYTES_MAX)
        config = build(_config(world.provider_port))
        made = Gateway(
            ledger=ledger,
            upstream=upstream,
            catalogue=config.catalogue,
            contracts=config.contracts,
            contract=config.server.contract,
            max_streams=config.server.max_streams,
            cors_origins=config.server.cors_origins,
            currency=config.ledger.currency,
            released_output_limit=config.server.released_output_limit,
            spools=Spools(Spool(caps, segments, scribe, ledger.now_ms)),
        )
        await ledger.create_account("check", deposit_nanos=10**17)
        _, world.key = await ledger.create_key("check")
        handler = Handler(made)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        world.port = int(listeners[0].socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Listener(handler.handle, refuse=handler.refuse).serve, listeners)
            yield world
            nursery.cancel_scope.cancel()


def _config(provider_port: int) -> dict[str, Any]:
    prices = {"input": "1", "output": "2", "max_input_tokens": 1000, "max_output_tokens": 1000}
    channel = {
        "protocols": ["chat"],
        "base_url": f"http://127.0.0.1:{provider_port}/v1",
        "api_key": "sk-bench",
        "models": ["bench-chat"],
    }
    return {
        "server": {"contract": "check"},
        # No probe stands between the start and the first stream here.
        "contracts": {"check": {"preset": "hoptrio", "certified_only": False}},
        "models": {"bench-chat": prices},
        "channels": {"chat": channel},
    }


@asynccontextmanager
async def _provided(key: str) -> AsyncIterator[World]:
    tell, asked = trio.open_memory_channel[trio.SocketStream](IDLE)

    async def take(connection: trio.SocketStream) -> None:
        try:
            while await connection.receive_some(_READ_BYTES):
                tell.send_nowait(connection)
        except trio.BrokenResourceError:
            pass

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, take, 0, host="127.0.0.1"))
        with trio.fail_after(_PATIENCE_S):
            yield World(int(listener.socket.getsockname()[1]), asked, key)
        nursery.cancel_scope.cancel()


# -- counting --------------------------------------------------------------------------------------------------------


async def calls_of(act: Callable[[], Awaitable[None]]) -> int:
    """Functions entered in this thread while `act` runs."""
    entered = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal entered
        if event in ("call", "c_call"):
            entered += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await act()
    finally:
        sys.setprofile(before)
    return entered


async def paced(world: World) -> float:
    """Calls for an event that comes alone."""
    stream = await world.open()

    async def act() -> None:
        for _ in range(EVENTS):
            await stream.step()

    await stream.step()
    calls = await calls_of(act) / EVENTS
    await stream.end()
    return calls


async def _burst(world: World) -> float:
    stream = await world.open()

    async def act() -> None:
        for _ in range(BURSTS):
            await stream.burst(BURST)

    await stream.burst(BURST)
    calls = await calls_of(act) / (BURSTS * BURST)
    await stream.end()
    return calls


async def _short(world: World) -> float:
    async def act() -> None:
        for _ in range(STREAMS):
            await (await world.open()).end()

    await act()
    return await calls_of(act) / STREAMS


async def _converted(world: World) -> float:
    stream = await world.open("messages")

    async def act() -> None:
        for _ in range(EVENTS):
            await stream.step()

    await stream.step()
    calls = await calls_of(act) / EVENTS
    await stream.end()
    return calls


async def _idle(world: World) -> tuple[float, float]:
    """Blocks and bytes of an open and silent stream."""
    warm = [await world.open() for _ in range(4)]
    for each in warm:
        await each.end()
    gc.collect()
    tracemalloc.start()
    try:
        blocks, size = sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
        opened = [await world.open() for _ in range(IDLE)]
        gc.collect()
        blocks, size = sys.getallocatedblocks() - blocks, tracemalloc.get_traced_memory()[0] - size
    finally:
        tracemalloc.stop()
    for each in opened:
        await each.end()
    return blocks / IDLE, size / IDLE


async def _kept(world: World) -> float:
    stream = await world.open()
    for _ in range(20):
        await stream.step()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(RETAINED_EVENTS):
        await stream.step()
    gc.collect()
    kept = (sys.getallocatedblocks() - blocks) / RETAINED_EVENTS
    await stream.end()
    return kept


async def cpu_per_event_ns(world: World, events: int) -> float:
    """CPU of this thread, unprofiled; the least of several, which is the one that was disturbed least."""
    stream = await world.open()
    best = float("inf")
    for _ in range(REPEATED + 2):
        began = time.thread_time_ns()
        for _ in range(events):
            await stream.step()
        best = min(best, (time.thread_time_ns() - began) / events)
    await stream.end()
    return best


async def least(measure: Callable[[World], Awaitable[float]], world: World) -> float:
    """trio runs tasks that are ready together in an order of its own; the least of a few is always the same."""
    return min([await measure(world) for _ in range(REPEATED)])


class Measured(NamedTuple):
    """hoptrio's counts, the relay's calls for an event, and the ratio of their CPU."""

    hoptrio: Counts
    relay_calls_per_event: float
    cpu_over_relay: float


async def count_all() -> Measured:
    """All of it; some three seconds."""
    async with direct() as world:
        own = [await least(each, world) for each in (paced, _burst, _short)]
        own_blocks, own_bytes = await _idle(world)
        own_ns = await cpu_per_event_ns(world, EVENTS * 4)
    async with relayed() as world:
        relay_calls = await least(paced, world) - own[0]
        relay_ns = await cpu_per_event_ns(world, EVENTS * 4) - own_ns
    async with gateway() as world:
        calls = [await least(each, world) for each in (paced, _burst, _short)]
        converted = await least(_converted, world)
        blocks, size = await _idle(world)
        counts = Counts(
            calls_per_paced_event=calls[0] - own[0],
            calls_per_burst_event=calls[1] - own[1],
            calls_per_stream=calls[2] - own[2],
            calls_per_converted_event=converted - own[0],
            blocks_per_idle_stream=blocks - own_blocks,
            bytes_per_idle_stream=size - own_bytes,
            blocks_kept_per_event=max(0.0, await _kept(world)),
        )
        ratio = (await cpu_per_event_ns(world, EVENTS * 4) - own_ns) / relay_ns
    return Measured(counts, relay_calls, ratio)
