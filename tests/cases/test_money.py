"""Faults of other gateways in what they charged: races, clients that leave, holds that leak, balances below zero."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.contract import PRESETS, Reason
from hoptrio.ledger.model import RequestFilter
from tests.contract.test_cells import payloads
from tests.support.harness import CHAT as CHAT_BODY
from tests.support.harness import CHAT_SILENT, gateway
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.raw import assert_nothing_held
from tests.support.streams import CHAT, RESPONSES, SAMPLES

each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)


async def kept(world):
    """The records of all requests."""
    return await world.ledger.requests(RequestFilter())


async def test_case_22_a_dead_provider_does_not_become_an_empty_answer(autojump_clock):
    async with gateway(sse(CHAT.opening[0], Cut(), end=False)) as world:
        response = await world.call("chat")
        assert response.data[:-1] == payloads(CHAT.opening[0])
        assert b"[DONE]" not in response.body
        await assert_nothing_held(world)


async def test_case_24_a_completed_response_needs_no_done(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world:
        response = await world.call("responses")
        assert (response.status, response.clean) == (200, True)
        assert (await world.record(response)).state == "captured"


@pytest.mark.parametrize("step", range(100))
async def test_case_44_a_client_that_closes_in_the_moment_of_the_terminal_is_charged_once(step, autojump_clock):
    """A hundred moments around the terminal, a millisecond apart."""
    script = sse(*CHAT.events[:-1], Pause(0.05), CHAT.events[-1])
    async with gateway(script) as world:
        client = await world.start("chat")
        with trio.move_on_after(step / 1000):
            await client.read()
        await client.leave()
        await trio.sleep(20)
        assert (await world.only_record()).charge_nanos == CHAT.charge_nanos
        await assert_nothing_held(world, charged_nanos=CHAT.charge_nanos)


async def test_case_47_a_retry_behind_a_released_stream_is_the_only_charge(autojump_clock):
    broken = sse(*RESPONSES.opening, *RESPONSES.answer)
    async with gateway(broken, sse(*RESPONSES.events)) as world:
        first, second = await world.call("responses"), await world.call("responses")
        assert not first.clean
        assert second.clean
        await assert_nothing_held(world, charged_nanos=RESPONSES.charge_nanos)


def leaves(seconds):
    """A client that goes away after so many seconds."""

    async def act(world, client):
        await trio.sleep(seconds)
        await client.leave()

    return act


async def stays(world, client):
    await client.read()


async def is_shut_down(world, client):
    await trio.sleep(1)
    world.gateway.registry.stop_all(Reason.SHUTDOWN)
    await client.read()


async def is_killed(world, client):
    await trio.sleep(1)
    world.connections.cancel_scope.cancel()


#: How a stream can end -> (what the provider does with a sample, what the client or the operator does).
EXITS = {
    "complete": (lambda each: sse(*each.events), stays),
    "no usage": (lambda each: sse(*each.opening, *each.answer), stays),
    "cut": (lambda each: sse(*each.opening, *each.answer, Cut(), end=False), stays),
    "cut at once": (lambda each: [Cut()], stays),
    "error event": (lambda each: sse(*each.opening, *each.answer, each.error), stays),
    "error first": (lambda each: sse(each.error), stays),
    "refused": (lambda each: plain(429, b"{}"), stays),
    "html": (lambda each: plain(200, b"<html>", b"text/html"), stays),
    "silent": (lambda each: sse(*each.opening, each.answer[0], Hang()), stays),
    "headless": (lambda each: [Hang()], stays),
    "left before the head": (lambda each: [Pause(5), *sse(*each.events)], leaves(1)),
    "left in the middle": (lambda each: sse(*each.opening, Pause(5), *each.events[len(each.opening) :]), leaves(1)),
    "left a silent one": (lambda each: sse(*each.opening, Hang()), leaves(1)),
    "shut down": (lambda each: sse(*each.opening, each.answer[0], Hang()), is_shut_down),
    "killed": (lambda each: sse(*each.opening, each.answer[0], Hang()), is_killed),
}
CHARGED = {"complete", "left before the head", "left in the middle"}


@each_sample
@pytest.mark.parametrize("contract", list(PRESETS))
@pytest.mark.parametrize("name", EXITS)
async def test_case_72_on_every_path_out_a_hold_is_resolved_exactly_once(name, contract, sample, autojump_clock):
    """And cases 50 and 95: every request has a record, and every place is given back."""
    if sample.kind not in PRESETS[contract].protocols:
        return
    script, act = EXITS[name]
    async with gateway(script(sample), contract=contract) as world:
        client = await world.start(sample.kind)
        await act(world, client)
        await trio.sleep(1300)
        record = await world.only_record()
        assert record.state in ("captured", "released")
        assert (record.state == "captured") or record.reason
        assert len(world.gateway.registry) == 0
        assert world.gateway.load.running("one") == 0
        if name in CHARGED:
            assert record.charge_nanos == sample.charge_nanos
        await assert_nothing_held(world, charged_nanos=record.charge_nanos)


async def test_case_51_a_cancelled_server_settles_what_was_complete(autojump_clock, monkeypatch):
    """The settlement is shielded: the server's end cannot skip it."""
    async with gateway(sse(*CHAT.events)) as world:
        settle = world.ledger.settle

        async def slow(resolution):
            await trio.sleep(3)
            return await settle(resolution)

        monkeypatch.setattr(world.ledger, "settle", slow)
        await world.start("chat")
        await trio.sleep(1)
        world.connections.cancel_scope.cancel()
        await trio.sleep(5)
        record = await world.only_record()
        assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
        await assert_nothing_held(world, charged_nanos=CHAT.charge_nanos)


async def test_case_68_fifty_calls_at_once_with_a_balance_for_three(autojump_clock):
    async with gateway(sse(CHAT.events[0], Pause(5), *CHAT.events[1:])) as world:
        await world.call("chat")
        hold_nanos = (await world.only_record()).hold_nanos
        await world.ledger.create_account("few", deposit_nanos=3 * hold_nanos)
        _, secret = await world.ledger.create_key("few")
        statuses = []

        async def call():
            statuses.append((await world.call("chat", secret=secret)).status)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(call)
        assert sorted(statuses) == [200] * 3 + [402] * 47
        assert (await world.ledger.account("few")).balance_nanos == 3 * hold_nanos - 3 * CHAT.charge_nanos
        await assert_nothing_held(world, charged_nanos=4 * CHAT.charge_nanos)


async def test_case_77_a_balance_is_spent_to_its_last_hold_and_never_below_zero(autojump_clock):
    """Each answer claims far more than was held for."""
    usage = {"prompt_tokens": 10**6, "completion_tokens": 10**6, "total_tokens": 2 * 10**6}
    body = {**CHAT.body, "usage": usage}
    async with gateway(plain(200, json.dumps(body).encode())) as world:
        await world.ledger.create_account("few", deposit_nanos=10**6)
        _, secret = await world.ledger.create_key("few")
        statuses = [
            (await world.call("chat", {**CHAT_SILENT, "stream": False}, secret=secret)).status for _ in range(9)
        ]
        assert statuses == sorted(statuses)
        assert set(statuses) == {200, 402}
        assert 0 <= (await world.ledger.account("few")).balance_nanos < 10**6
        report = await world.ledger.audit()
        assert (report.ok, report.held_nanos) == (True, 0)


async def test_case_95_places_of_a_key_come_back_after_a_mix_of_ends(autojump_clock):
    scripts = [script(CHAT) for script, act in EXITS.values() if act is stays]
    async with gateway(*scripts) as world:
        _, secret = await world.ledger.create_key("acme", max_streams=1)
        for _ in scripts:
            response = await world.call("chat", CHAT_BODY, secret=secret)
            assert b"as many streams" not in response.body
        await world.settled()  # behind an abort the connection is read on for a while
        assert len(await kept(world)) == len(scripts)
        assert world.gateway.load.running("one") == 0
