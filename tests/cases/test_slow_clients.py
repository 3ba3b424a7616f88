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


@pytest.mark.parametrize("buffer_bytes", [4608, 65536], ids=["small", "large"])
async def test_a_client_that_reads_an_event_in_three_seconds_gets_all_and_is_settled_at_the_providers_end(
    buffer_bytes, autojump_clock
):
    """However much the kernel holds: it may say for minutes that there is no room, while the client reads all along."""
    start = trio.current_time()
    async with gateway(sse(*CHAT.opening, *paced(0.5), *CHAT.closing, *CHAT.terminal)) as world:
        client = slow_client(world, every_s=3, max_bytes=PIECE_BYTES, buffer_bytes=buffer_bytes)
        await world.start(client=client)
        response = await client.read()
        await client.leave()
        record = await world.record(response)
        assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
        assert settled_at(record) == pytest.approx(100, abs=1)
    assert response.clean
    assert response.data == payloads(*WHOLE)
    assert trio.current_time() - start > 590
