"""Clients that lag: the provider is read at its own pace, the settlement waits for nobody, what waits is bounded."""

from __future__ import annotations

import pytest
import trio

from hoptrio import limits
from tests.contract.test_cells import payloads
from tests.support.harness import gateway
from tests.support.provider import Pause, sse
from tests.support.slow import slow_client
from tests.support.streams import CHAT, data

#: Two hundred events of 200 bytes, half a second apart: a hundred seconds.
PIECES = [data({"choices": [{"index": 0, "delta": {"content": f"{at:0130d}"}}]}) for at in range(200)]
#: One of them on the wire, in its chunk.
PIECE_BYTES = len(PIECES[0]) + len(b"c8\r\n\r\n")
WHOLE = [*CHAT.opening, *PIECES, *CHAT.closing, *CHAT.terminal]


def paced(pause_s):
    return [step for event in PIECES for step in (Pause(pause_s), event)]


def settled_at(record):
    """Seconds after the request came."""
    return next(at for at, event in record.timeline if event == "ended") / 1000


async def test_a_client_that_reads_an_event_in_three_seconds_gets_all_and_is_settled_at_the_providers_end(
    autojump_clock,
):
    """The kernel says for minutes that there is no room, while the client reads all along."""
    start = trio.current_time()
    async with gateway(sse(*CHAT.opening, *paced(0.5), *CHAT.closing, *CHAT.terminal)) as world:
        client = slow_client(world, every_s=3, max_bytes=PIECE_BYTES)
        await world.start(client=client)
        response = await client.read()
        await client.leave()
        record = await world.record(response)
        assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
        assert settled_at(record) == pytest.approx(100, abs=1)
    assert response.clean
    assert response.data == payloads(*WHOLE)
    assert trio.current_time() - start > 590


async def test_case_94_a_client_that_never_reads_has_left_after_half_a_minute_and_is_settled(autojump_clock):
    async with gateway(sse(*CHAT.opening, *paced(0.5), *CHAT.closing, *CHAT.terminal)) as world:
        client = slow_client(world, buffer_bytes=4608)
        await world.start(client=client)
        await trio.sleep(20)
        assert world.backlogs.bytes > 0
        await trio.sleep(45)
        assert world.backlogs.bytes == 0
        assert len(world.gateway.registry) == 1
        await world.settled()
        record = await world.only_record()
        await client.leave()
    assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
    assert settled_at(record) == pytest.approx(100, abs=1)
    gone = next(at for at, event in record.timeline if event.startswith("client_gone")) / 1000
    assert 30 < gone < 50


async def test_what_is_undelivered_a_minute_after_the_deadline_is_dropped_and_the_connection_aborted(autojump_clock):
    """The client reads two large events in 12 s, and would be done after twenty minutes."""
    start = trio.current_time()
    large = [step for event in PIECES for step in (Pause(0.5), event.replace(b"0" * 100, b"0" * 4000))]
    async with gateway(sse(*CHAT.opening, *large, *CHAT.closing, *CHAT.terminal)) as world:
        client = slow_client(world, every_s=12, max_bytes=8192, buffer_bytes=4608)
        await world.start(client=client)
        waiting = []

        async def look():
            for _ in range(2):
                await trio.sleep_until(start + limits.DEADLINE_S + limits.DELIVERY_GRACE_S - 1 + 2 * len(waiting))
                waiting.append((world.backlogs.bytes > 0, len(world.gateway.registry)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            response = await client.read()
        assert waiting == [(True, 1), (False, 0)]
        record = await world.only_record()
        await client.leave()
    assert not response.clean
    assert b"[DONE]" not in response.body
    assert settled_at(record) == pytest.approx(100, abs=1)


async def test_when_all_backlogs_together_are_too_large_the_largest_goes_first(autojump_clock):
    """The one that lags most has left; the other two get everything once they read."""
    async with gateway(sse(*CHAT.opening, *paced(0.05), *CHAT.closing, *CHAT.terminal)) as world:
        clients = []
        for _ in range(3):
            clients.append(slow_client(world, buffer_bytes=4608))
            await world.start(client=clients[-1])
            await trio.sleep(1)
        world.backlogs.bytes_max = 90_000
        await trio.sleep(20)
        responses = [await client.read() for client in clients]
        for client in clients:
            await client.leave()
    assert [response.clean for response in responses] == [False, True, True]
    assert all(response.data == payloads(*WHOLE) for response in responses[1:])
