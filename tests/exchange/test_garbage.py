"""What a request leaves behind is freed when it is over, and not by the collector (`tests.support.garbage`)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from hoptrio.limits import SPOOL_KEPT_S
from hoptrio.protocols import convert
from hoptrio.protocols.events import Protocol
from tests.support.converting import GOLDEN
from tests.support.harness import BODIES, CHAT_SILENT, channels, gateway
from tests.support.provider import Cut, Pause, plain, sse
from tests.support.streams import CHAT, RESPONSES
from tests.support.websocket import talk

PLAIN = {name: value for name, value in CHAT_SILENT.items() if name != "stream"}


@pytest.fixture
def left_by(garbage):
    """Classes of ours whose objects only the collector would free, once every connection is over."""

    async def left_by(world):
        await world.settled()
        while world.connections.child_tasks:  # noqa: ASYNC110 - in virtual time a poll costs nothing
            await trio.sleep(0.1)
        await trio.testing.wait_all_tasks_blocked()
        return garbage("hoptrio")

    return left_by


async def test_the_collector_would_find_a_cycle_of_ours(left_by, autojump_clock):
    async with gateway(sse(*CHAT.events)) as world:
        knot = [trio.CancelScope(), world.handler.__class__(world.gateway)]
        knot.append(knot)
        del knot
        assert await left_by(world) == {"Handler"}


@pytest.mark.parametrize("failing", [(), (Cut(),)], ids=["whole", "cut"])
async def test_a_stream_leaves_nothing(failing, left_by, autojump_clock):
    events = CHAT.events[:2] if failing else CHAT.events
    async with gateway(sse(*events, *failing)) as world:
        assert (await world.call()).status == 200
        assert await left_by(world) == set()


async def test_an_answer_in_one_piece_and_a_refusal_leave_nothing(left_by, autojump_clock):
    async with gateway(plain(200, b'{"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}')) as world:
        assert (await world.call(body=PLAIN)).status == 200
        assert (await world.call(secret="sk-nobody")).status == 401
        assert await left_by(world) == set()


async def test_a_client_that_leaves_leaves_nothing(left_by, autojump_clock):
    async with gateway(sse(*CHAT.events[:2], Pause(5), *CHAT.events[2:])) as world:
        client = await world.start()
        await client.read(events=1)
        await client.leave()
        assert await left_by(world) == set()
        assert (await world.only_record()).state == "captured"


async def test_several_requests_on_one_connection_leave_nothing(left_by, autojump_clock):
    async with gateway(sse(*CHAT.events)) as world:
        client = world.connect()
        for _ in range(3):
            await world.start(client=client)
            assert (await client.read()).clean
        await client.leave()
        assert await left_by(world) == set()


async def test_a_turn_on_a_websocket_leaves_nothing(left_by, autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world:
        async with talk(world) as client:
            await client.turn()
            await client.socket.aclose()
        assert await left_by(world) == set()


def _possible(stream):
    pairs = ((client, channel) for client in Protocol for channel in Protocol if client is not channel)
    return [
        (client.value, channel.value) for client, channel in pairs if convert.possible(client, channel, stream=stream)
    ]


@pytest.mark.parametrize(("client", "channel"), _possible(True))
async def test_a_converted_stream_leaves_nothing(client, channel, left_by, autojump_clock):
    events = [block + b"\n\n" for block in GOLDEN[channel].split(b"\n\n")[:-1]]
    async with gateway(hosts={"a": [sse(*events)]}, config=channels("a", protocols=[channel])) as world:
        assert (await world.call(client, BODIES[client])).status == 200
        assert await left_by(world) == set()


async def test_a_client_that_comes_back_or_asks_again_leaves_nothing(left_by, autojump_clock, tmp_path):
    key = {"idempotency-key": "k"}
    async with gateway(sse(*CHAT.events[:2], Pause(5), *CHAT.events[2:]), spool=tmp_path) as world:
        client = await world.start(headers=key)
        first = await client.read(events=1)
        await client.leave()
        again = await world.call(headers=key)
        back = await world.get(f"/v1/requests/{first.headers['x-request-id']}/events?after=1")
        assert (again.clean, back.clean) == (True, True)
        assert again.data[1:] == back.data
        # Not while it is kept for those who may still come.
        await trio.sleep(2 * SPOOL_KEPT_S)
        assert await left_by(world) == set()


async def test_questions_leave_nothing(left_by, autojump_clock):
    async with gateway(plain(200, b'{"input_tokens":7}'), config=channels("a", protocols=["messages"])) as world:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert (await world.call(body=body, path="/v1/messages/count_tokens")).status == 200
        for path in ("/v1/models", "/v1/account", "/readyz", "/nowhere"):
            assert (await world.get(path)).status in (200, 404)
        assert await left_by(world) == set()
