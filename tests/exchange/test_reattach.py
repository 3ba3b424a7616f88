"""A client that comes back to its stream gets what it missed, and the original's end."""

from __future__ import annotations

import re

import pytest
import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import RequestFilter
from hoptrio.ledger.store import StoreUnavailable
from hoptrio.spool.spool import Caps
from tests.exchange.test_conversion import ASKED, golden, on
from tests.support.converting import DIRECTIONS
from tests.support.files import bytes_on_disk
from tests.support.harness import BODIES, CHAT_SILENT, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.slow import slow_client
from tests.support.streams import CHAT, GEMINI, SAMPLES, data

KINDS = ["chat", "responses", "messages", "gemini", "gemini_array"]
each_kind = pytest.mark.parametrize("kind", KINDS)
each_sse_kind = pytest.mark.parametrize("kind", KINDS[:4])


def wall_ms():
    """A wall clock that goes as the virtual one does."""
    return 1_796_000_000_000 + int(trio.current_time() * 1000)


def sample_of(kind):
    return SAMPLES[kind.removesuffix("_array")]


def paced(events):
    """Events a second apart, the first after one."""
    return sse(*[step for event in events for step in (Pause(1), event)])


def told(response):
    """The events of an answer to .../events, as (number, data)."""
    found = []
    for block in response.blocks:
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line and not line.startswith(b":"))
        if fields:
            found.append((int(fields[b"id"]), fields[b"data"]))
    return found


def payloads(kind):
    return [event.split(b"data: ")[1].removesuffix(b"\n\n") for event in sample_of(kind).events]


async def last_request(world):
    """The id of the newest one."""
    return (await world.ledger.requests(RequestFilter(limit=1)))[0].id


async def again(world, request_id, after=None, **options):
    query = "" if after is None else f"?after={after}"
    return await world.get(f"/v1/requests/{request_id}/events{query}", **options)


# -- what is missing, and nothing else ---------------------------------------------------------------------------------


@each_kind
async def test_all_events_come_again_numbered_from_one(kind, autojump_clock, tmp_path):
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        original = await world.call(kind)
        response = await again(world, original.headers["x-request-id"])
    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-request-id"] == original.headers["x-request-id"]
    assert told(response) == list(enumerate(payloads(kind), 1))
    assert response.clean


@each_kind
async def test_cut_at_every_event_the_rest_comes_and_the_charge_is_that_of_an_uncut_stream(
    kind, autojump_clock, tmp_path
):
    events = payloads(kind)
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        for cut in range(len(events) + 1):
            client = await world.start(kind)
            await trio.sleep(cut + 0.5)
            request_id = await last_request(world)
            await client.leave()
            response = await again(world, request_id, cut)
            assert told(response) == list(enumerate(events, 1))[cut:]
            assert response.clean
            await world.settled()
            record = await world.ledger.request(request_id)
            assert (record.state, record.charge_nanos) == ("captured", sample_of(kind).charge_nanos)
        assert len(world.provider.seen) == len(events) + 1
        assert (await world.ledger.audit()).ok


def nameless(payload):
    """An event without what a conversion makes up anew for each stream."""
    return re.sub(rb'"((resp|msg|rs|fc|call|toolu)_[^"]+|[a-z]*-?[0-9a-f]{16,})"', b'"id"', payload)


@pytest.mark.parametrize(("channel", "client"), DIRECTIONS)
async def test_converted_and_cut_at_every_event_the_rest_comes(channel, client, autojump_clock, tmp_path):
    async with gateway(paced(golden(channel)), config=on(channel), spool=tmp_path, now_ms=lambda: 10**12) as world:
        uncut = await world.call(client, ASKED[client])
        charge = (await world.record(uncut)).charge_nanos
        request_id = uncut.headers["x-request-id"]
        assert [each for _, each in told(await again(world, request_id))] == uncut.data
        for cut in range(len(uncut.data)):
            left = await world.start(client, ASKED[client])
            seen = await left.read(events=cut) if cut else None
            if not cut:
                await trio.sleep(0.5)
            request_id = await last_request(world)
            await left.leave()
            before = [] if seen is None else seen.data
            rest = [each for _, each in told(await again(world, request_id, len(before)))]
            assert list(map(nameless, before + rest)) == list(map(nameless, uncut.data))
            await world.settled()
            assert (await world.ledger.request(request_id)).charge_nanos == charge


@each_sse_kind
async def test_two_clients_follow_one_stream_live(kind, autojump_clock, tmp_path):
    events = payloads(kind)
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(1.5)
        began = trio.current_time()
        response = await again(world, await last_request(world))
        original = await client.read()
        assert original.data == events
        assert told(response) == list(enumerate(events, 1))
        assert [round(at - began, 1) for at, _ in response.pieces][:3] == [0.0, 0.5, 1.5], "live, as they come"
        assert len(world.provider.seen) == 1


async def test_an_element_of_an_array_does_not_wait_for_the_next(autojump_clock, tmp_path):
    async with gateway(paced(GEMINI.events), spool=tmp_path) as world:
        await (await world.start("gemini_array")).leave()
        client = await world.start("gemini_array")
        await trio.sleep(0.5)
        began = trio.current_time()
        response = await again(world, await last_request(world))
        assert [round(at - began, 1) for at, _ in response.pieces] == [0.5, 1.5, 2.5]
        assert (await client.read()).clean


async def test_a_number_beyond_the_end_gives_the_end_alone(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        original = await world.call("chat")
        response = await again(world, original.headers["x-request-id"], 999)
    assert (response.status, response.body, response.clean) == (200, b"", True)


async def test_last_event_id_counts_for_more_than_the_query_and_ends_the_asking(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        request_id = (await world.call("chat")).headers["x-request-id"]
        count = len(CHAT.events)
        response = await again(world, request_id, 1, headers={"last-event-id": str(count - 1)})
        assert told(response) == [(count, b"[DONE]")]
        response = await again(world, request_id, headers={"last-event-id": str(count)})
        assert (response.status, response.body) == (204, b""), "an EventSource would come again for ever"


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "", "9" * 16])
async def test_a_number_that_is_none_is_a_400(after, autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        request_id = (await world.call("chat")).headers["x-request-id"]
        assert (await again(world, request_id, after)).status == 400


async def test_the_rest_of_a_large_stream_comes_out_of_files(autojump_clock, tmp_path):
    """A joiner that begins while it grows sees memory turn into files under it."""
    deltas = [data({"choices": [{"index": 0, "delta": {"content": f"{i} " * 2000}}]}) for i in range(60)]
    script = paced([*CHAT.opening, *deltas, *CHAT.closing, *CHAT.terminal])
    async with gateway(script, spool=tmp_path) as world:
        client = await world.start("chat")
        await trio.sleep(20.5)
        request_id = await last_request(world)
        live = await again(world, request_id)
        original = await client.read()
        late = await again(world, request_id, 17)
    assert bytes_on_disk(tmp_path) > 200_000
    assert [each for _, each in told(live)] == original.data
    assert [each for _, each in told(late)] == original.data[17:]
    assert late.clean


async def test_a_slow_reader_of_a_large_stream_is_waited_for(autojump_clock, tmp_path):
    """More than a client's backlog may hold: what lies in files need not be hurried."""
    deltas = [data({"choices": [{"index": 0, "delta": {"content": "x" * 2**20}}]}) for _ in range(7)]
    script = sse(*CHAT.opening, *deltas, *CHAT.closing, *CHAT.terminal)
    async with gateway(script, spool=tmp_path) as world:
        original = await world.call("chat")
        client = slow_client(world, every_s=0.5)
        request_id = original.headers["x-request-id"]
        head = f"GET /v1/requests/{request_id}/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {world.secret}\r\n"
        await client.send(f"{head}\r\n".encode())
        response = await client.read()
        await client.leave()
    assert [each for _, each in told(response)] == original.data
    assert response.clean


# -- the end -----------------------------------------------------------------------------------------------------------


def failing(failure):
    """A contract that keeps streams and fails in this way."""
    return {"contracts": {"mine": {"preset": "hoptrio", "failure": failure}}, "server": {"contract": "mine"}}


FAILURES = ["event", "event_abort", "truncate"]


@each_kind
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("cause", ["cut", "error"])
async def test_a_failed_stream_ends_again_as_it_did(kind, failure, cause, autojump_clock, tmp_path):
    sample = sample_of(kind)
    last = Cut() if cause == "cut" else sample.error
    script = sse(*sample.opening, Pause(1), *sample.answer, Pause(1), last)
    config = settings(**failing(failure))
    async with gateway(script, config=config, contract="mine", spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(1.5)
        live = await again(world, await last_request(world))
        original = await client.read()
        response = await again(world, original.headers["x-request-id"])
        gone = await world.start(kind)
        await trio.sleep(1.5)
        request_id = await last_request(world)
        await gone.leave()
        unseen = await again(world, request_id)
        assert (await world.record(original)).state == "released"
    events = original.data if kind != "gemini_array" else [each for _, each in told(live)]
    for seen in (live, response, unseen):
        assert [each for _, each in told(seen)] == events
        assert seen.clean is (failure == "event" and kind != "gemini_array" and original.clean)


@each_kind
async def test_a_stream_that_failed_with_a_status_fails_with_it_again(kind, autojump_clock, tmp_path):
    async with gateway([Pause(1), *plain(500, b"{}")], spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(0.5)
        request_id = await last_request(world)
        live = await again(world, request_id)
        original = await client.read()
        late = await again(world, request_id)
    assert original.status == 502
    for seen in (live, late):
        assert (seen.status, seen.body) == (502, original.body)
        assert seen.headers["content-type"] == "application/json"


@each_sse_kind
async def test_one_who_has_a_head_by_then_gets_an_error_event_and_an_abort(kind, autojump_clock, tmp_path):
    """The first client left before any byte, so no status was ever written; the one who came back was kept alive."""
    async with gateway([Pause(15), *plain(500, b"{}")], spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(0.5)
        request_id = await last_request(world)
        await client.leave()
        response = await again(world, request_id)
    assert response.status == 200
    assert not response.clean
    assert b"error" in told(response)[-1][1]


@each_sse_kind
async def test_keepalives_come_while_the_stream_is_silent_and_are_not_events(kind, autojump_clock, tmp_path):
    sample = sample_of(kind)
    script = sse(*sample.events[:2], Pause(25), *sample.events[2:])
    async with gateway(script, spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(0.5)
        response = await again(world, await last_request(world), 1)
        assert (await client.read()).clean
    assert told(response) == list(enumerate(payloads(kind), 1))[1:]
    assert [round(at) for at, piece in response.pieces if piece.strip() in (b"", b": hopbase-keepalive")] == [10, 20]


@each_sse_kind
async def test_the_terminal_waits_for_the_settlement_here_too(kind, autojump_clock, tmp_path):
    store, sample = MemoryStore(), sample_of(kind)
    async with gateway(paced(sample.events), store=store, spool=tmp_path) as world:
        client = await world.start(kind)
        await trio.sleep(len(sample.events) - 0.5)
        request_id = await last_request(world)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            seen = []

            async def come_back():
                seen.append(await again(world, request_id))

            nursery.start_soon(come_back)
            await trio.sleep(0.25)
            store.outage = StoreUnavailable("away")
            await trio.sleep(5)
            store.outage = None
        original = await client.read()
    assert seen[0].data == original.data
    assert seen[0].pieces[-1][0] - began >= 5
    assert seen[0].pieces[-2][0] - began < 1


async def test_a_stream_ended_by_a_shutdown_ends_so_for_all(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.opening, *CHAT.answer, Hang()), spool=tmp_path) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            seen = []
            request_id = await last_request(world)

            async def come_back():
                seen.append(await again(world, request_id))

            nursery.start_soon(come_back)
            await trio.sleep(1)
            world.gateway.registry.stop_all(Reason.SHUTDOWN)
        original = await client.read()
    assert seen[0].data == original.data
    assert not seen[0].clean


async def test_openings_of_an_attempt_that_failed_are_in_no_transcript(autojump_clock, tmp_path):
    contract = {"preset": "hoptrio", "attempts": 2}
    config = settings(contracts={"mine": contract})
    scripts = [sse(*CHAT.opening, Cut()), sse(*CHAT.events)]
    async with gateway(*scripts, config=config, contract="mine", spool=tmp_path) as world:
        original = await world.call("chat")
        response = await again(world, original.headers["x-request-id"])
    assert [each for _, each in told(response)] == original.data == payloads("chat")


# -- whose, and how long -----------------------------------------------------------------------------------------------


async def test_another_accounts_stream_is_not_there(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        request_id = (await world.call("chat")).headers["x-request-id"]
        await world.ledger.create_account("other", 1)
        _, secret = await world.ledger.create_key("other")
        _, sibling = await world.ledger.create_key("acme")
        assert (await again(world, request_id, secret=secret)).status == 404
        assert (await again(world, "req_no_such", secret=secret)).body == (
            await again(world, request_id, secret=secret)
        ).body
        assert (await again(world, request_id, secret="sk-wrong")).status == 401
        assert (await again(world, request_id, secret=sibling)).status == 200, "the account's, whichever key"


@each_kind
async def test_a_stream_is_kept_for_ten_minutes_after_its_end(kind, autojump_clock, tmp_path):
    async with gateway(paced(sample_of(kind).events), spool=tmp_path, now_ms=wall_ms) as world:
        request_id = (await world.call(kind)).headers["x-request-id"]
        await trio.sleep(limits.SPOOL_KEPT_S - 5)
        assert told(await again(world, request_id)) == list(enumerate(payloads(kind), 1))
        await trio.sleep(10)
        gone = await again(world, request_id)
        assert_gone(gone, kind)
        assert len(world.gateway.spools.own) == 0
        assert world.gateway.spools.own.memory_bytes == 0


def assert_gone(response, kind):
    """410, as the stream's own protocol has errors."""
    assert response.status == 410
    assert response.headers["x-should-retry"] == "false"
    error = response.json["error"]
    if kind.startswith("gemini"):
        assert error["code"] == 410
    elif kind == "messages":
        assert response.json["type"] == "error"
        assert error["message"].startswith("gone: ")
    else:
        assert (error["code"], error["type"]) == ("gone", "invalid_request_error")


@each_kind
async def test_a_stream_beyond_the_cap_is_a_410_and_its_client_saw_nothing_of_that(kind, autojump_clock, tmp_path):
    caps = Caps(kept_s=600, stream_bytes_max=200)
    async with gateway(paced(sample_of(kind).events), spool=tmp_path, caps=caps) as world:
        original = await world.call(kind)
        assert original.clean
        response = await again(world, original.headers["x-request-id"])
        assert_gone(response, kind)
        assert world.gateway.spools.own.memory_bytes == 0
        assert (await world.record(original)).state == "captured"


async def test_whoever_follows_a_stream_beyond_the_cap_is_cut_off(autojump_clock, tmp_path):
    caps = Caps(kept_s=600, stream_bytes_max=2 * limits.SPOOL_STEP_BYTES)
    deltas = [data({"choices": [{"index": 0, "delta": {"content": "x" * limits.SPOOL_STEP_BYTES}}]})] * 3
    script = paced([*CHAT.opening, *deltas, *CHAT.closing, *CHAT.terminal])
    async with gateway(script, spool=tmp_path, caps=caps) as world:
        client = await world.start("chat")
        await trio.sleep(1.5)
        response = await again(world, await last_request(world))
        assert [number for number, _ in told(response)] == [1, 2]
        assert not response.clean
        assert (await client.read()).clean


@pytest.mark.parametrize("contract", ["hopbase", "anypath"])
async def test_nothing_is_kept_where_the_contract_does_not_say_so(contract, autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), contract=contract, spool=tmp_path) as world:
        original = await world.call("chat")
        response = await again(world, original.headers["x-request-id"])
    assert (response.status, response.json["error"]["code"]) == (404, "not_found")
    assert not list(tmp_path.iterdir())


async def test_where_nothing_is_kept_at_all_it_is_gone(autojump_clock):
    async with gateway(sse(*CHAT.events)) as world:
        response = await again(world, (await world.call("chat")).headers["x-request-id"])
    assert response.status == 410


async def test_refused_and_plain_requests_have_no_events(autojump_clock, tmp_path):
    async with gateway(plain(200, b'{"usage": {}}'), spool=tmp_path) as world:
        refused = await world.call("chat", {**CHAT_SILENT, "max_tokens": "x"})
        response = await again(world, refused.headers["x-request-id"])
        assert (response.status, "refused" in response.json["error"]["message"]) == (404, True)
        whole = await world.call("chat", {**CHAT_SILENT, "stream": False})
        response = await again(world, whole.headers["x-request-id"])
        assert (response.status, "did not stream" in response.json["error"]["message"]) == (404, True)


async def test_events_take_a_get_and_nothing_else(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        response = await world.call("chat", BODIES["chat"], path="/v1/requests/req_1/events")
        assert (response.status, response.headers["allow"]) == (405, "GET")
        assert (await world.get("/v1/requests/req_1/nothing")).status == 404
