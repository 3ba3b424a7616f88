"""The database goes away and comes back under a whole gateway with a journal: nobody whose stream runs notices."""

from __future__ import annotations

import json

import trio

from hoptrio import limits
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import HoldState
from hoptrio.ledger.shelf_memory import MemoryShelf
from hoptrio.ledger.store import StoreUnavailable
from tests.support.harness import CHAT_SILENT, gateway
from tests.support.provider import Pause, plain, sse
from tests.support.streams import CHAT, SAMPLES


def slow_stream(pause_s=20.0):
    return sse(*CHAT.opening, *CHAT.answer, Pause(pause_s), *CHAT.closing, *CHAT.terminal)


async def test_running_streams_end_cleanly_new_ones_get_503_and_all_is_applied_in_the_end(autojump_clock):
    store = MemoryStore()
    async with gateway(slow_stream(), slow_stream(), store=store, shelf=MemoryShelf()) as world:
        clients = [await world.start("chat") for _ in range(2)]
        await trio.sleep(5)
        store.outage = StoreUnavailable("no route to host")
        began = trio.current_time()
        responses = [await client.read() for client in clients]
        assert trio.current_time() - began < 20, "nobody waited for the database"
        assert all(seen.clean and seen.data[-1] == b"[DONE]" for seen in responses)
        assert len(world.provider.seen) == 2
        assert (await world.get("/readyz")).status == 503
        assert (await world.call("chat")).status == 503
        assert len(world.provider.seen) == 2, "nothing was dispatched"
        store.outage = None
        for response in responses:
            told = (await world.get(f"/v1/requests/{response.headers['x-request-id']}")).json
            assert (told["state"], told["evidence"]) == ("captured", "sse_terminal")
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        assert (await world.get("/readyz")).status == 200
        assert {(await world.record(response)).state for response in responses} == {"captured"}
        assert (await world.ledger.account("acme")).held_nanos == 0
        assert (await world.ledger.audit()).violations == ()


async def test_a_plain_call_is_answered_too(autojump_clock):
    store = MemoryStore()
    body = json.dumps(SAMPLES["chat"].body).encode()
    async with gateway([Pause(5), *plain(200, body)], store=store, shelf=MemoryShelf()) as world:
        client = await world.start("chat", {**CHAT_SILENT, "stream": False})
        await trio.sleep(1)
        store.outage = StoreUnavailable("no route to host")
        assert (await client.read()).status == 200
        store.outage = None


async def test_with_a_full_disk_as_well_the_stream_fails_and_the_evidence_still_counts(autojump_clock):
    store, shelf = MemoryStore(), MemoryShelf()
    async with gateway(slow_stream(), store=store, shelf=shelf) as world:
        client = await world.start("chat")
        await trio.sleep(5)
        store.outage, shelf.full = StoreUnavailable("no route to host"), True
        response = await client.read()
        assert not response.clean
        assert b"[DONE]" not in response.body
        store.outage, shelf.full = None, False
        await trio.sleep(limits.LEDGER_RETRY_MAX_S)
        [hold] = [await world.ledger.hold("hold_" + (await world.record(response)).id.removeprefix("req_"))]
        assert hold.state is HoldState.CAPTURED
