"""Limits of a key, through the whole gateway: its rate, storms of refused requests, and answers that nobody paid."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio import limits
from hoptrio.ledger.model import RequestFilter
from tests.exchange.test_bad_bodies import PLAIN, each_kind, served
from tests.support.converting import chat_chunk
from tests.support.converting import sse as _data
from tests.support.harness import CHAT_SILENT, PRICES, gateway, settings
from tests.support.provider import Cut, Hang, plain, sse
from tests.support.raw import assert_nothing_held, assert_shape, post
from tests.support.streams import CHAT, SAMPLES

RATE_HEADERS = {
    "messages": ("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining"),
    **dict.fromkeys(("chat", "responses", "gemini"), ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests")),
}


def wall_ms():
    """A wall clock that goes as the virtual one does."""
    return 1_796_000_000_000 + int(trio.current_time() * 1000)


# -- requests a minute -------------------------------------------------------------------------------------------------


@each_kind
async def test_a_key_over_its_rate_is_a_429_that_says_how_long_to_wait(kind, autojump_clock):
    async with gateway(served(kind), now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=2)
        assert (await post(world, kind, PLAIN[kind], secret=secret)).status == 200
        await trio.sleep(20)
        assert (await post(world, kind, PLAIN[kind], secret=secret)).status == 200
        await trio.sleep(10)
        response = await post(world, kind, PLAIN[kind], secret=secret)
        assert_shape(response, kind, 429, "rate_limit_exceeded", retry=True)
        assert response.headers["retry-after"] == "30"
        assert len(world.provider.seen) == 2
        await trio.sleep(30)
        assert (await post(world, kind, PLAIN[kind], secret=secret)).status == 200
        assert (await post(world, kind, PLAIN[kind], secret=secret)).headers["retry-after"] == "20"


@each_kind
async def test_what_is_held_and_what_is_left_is_in_the_headers(kind, autojump_clock):
    async with gateway(served(kind), now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=2)
        limit, remaining = RATE_HEADERS[kind]
        for left in (1, 0):
            before = (await world.ledger.account("acme")).available_nanos
            response = await post(world, kind, PLAIN[kind], secret=secret)
            record = await world.record(response)
            assert float(response.headers["x-hoptrio-hold"]) == record.hold_nanos / 10**9
            assert float(response.headers["x-hoptrio-available"]) == (before - record.hold_nanos) / 10**9
            assert (response.headers[limit], response.headers[remaining]) == ("2", str(left))
        refused = await post(world, kind, PLAIN[kind], secret=secret)
        assert (refused.headers[limit], refused.headers[remaining]) == ("2", "0")
        assert "x-hoptrio-hold" not in refused.headers


async def test_a_stream_and_a_failure_after_the_hold_carry_the_figures_too(autojump_clock):
    async with gateway(sse(*CHAT.events), plain(500, b"{}"), now_ms=wall_ms) as world:
        for status in (200, 502):
            response = await world.call("chat", CHAT_SILENT)
            assert response.status == status
            assert response.headers["x-hoptrio-hold"]
            assert response.headers["x-hoptrio-available"]
            # A key without a rate is told of none.
            assert "x-ratelimit-limit-requests" not in response.headers


async def test_browsers_may_read_no_more_headers_than_before(autojump_clock):
    async with gateway(sse(*CHAT.events)) as world:
        response = await world.call("chat", CHAT_SILENT, headers={"origin": "https://example.com"})
    assert response.headers["access-control-expose-headers"] == "X-Request-Id, Request-Id, Retry-After"


async def test_a_storm_costs_one_question_to_the_ledger_and_one_record(autojump_clock, monkeypatch):
    """An agent in a loop: 500 requests in five seconds with a rate of three."""
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=3)
        place, asked = world.ledger.place, []

        async def counting(hold):
            asked.append(hold)
            return await place(hold)

        monkeypatch.setattr(world.ledger, "place", counting)
        statuses = []
        for _ in range(500):
            response = await world.call("chat", PLAIN["chat"], secret=secret)
            statuses.append(response.status)
            if response.status == 429:
                assert 1 <= int(response.headers["retry-after"]) <= 60
            await trio.sleep(0.01)
        assert statuses == [200] * 3 + [429] * 497
        assert len(asked) == 4
        states = [record.state for record in await world.ledger.requests(RequestFilter())]
        assert sorted(states) == ["captured"] * 3 + ["refused"]
        # Another key of the account is not held up.
        assert (await world.call("chat", PLAIN["chat"])).status == 200


async def test_a_key_that_goes_on_at_its_rate_is_never_refused(autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=6)
        for _ in range(30):
            assert (await world.call("chat", PLAIN["chat"], secret=secret)).status == 200
            await trio.sleep(10)


async def test_what_comes_before_the_limits_is_still_said_first(autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), now_ms=wall_ms) as world:
        key, secret = await world.ledger.create_key("acme", rpm=1)
        for status in (200, 429, 429):
            assert (await world.call("chat", PLAIN["chat"], secret=secret)).status == status
        assert (await world.call("chat", b"{", secret=secret)).status == 400
        assert (await world.call("chat", {**PLAIN["chat"], "model": "nobody"}, secret=secret)).status == 404
        await world.ledger.revoke_key(key.id)
        assert (await world.call("chat", PLAIN["chat"], secret=secret)).status == 401


# -- storms of other refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 402])
async def test_a_storm_of_refusals_is_answered_alike_and_kept_up_to_a_bound(status, autojump_clock, monkeypatch):
    monkeypatch.setattr("hoptrio.exchange.refusals.REFUSALS_KEPT_MAX", 5)
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), now_ms=wall_ms) as world:
        await world.ledger.create_account("poor")
        _, secret = await world.ledger.create_key("poor")
        body = b"{" if status == 400 else PLAIN["chat"]
        await trio.sleep(60 - wall_ms() / 1000 % 60)
        for _ in range(20):
            assert (await world.call("chat", body, secret=secret)).status == status
        assert len(await world.ledger.requests(RequestFilter())) == 5
        await trio.sleep(60)
        assert (await world.call("chat", body, secret=secret)).status == status
        assert len(await world.ledger.requests(RequestFilter())) == 6
        assert (await world.call("chat", b"{")).status == 400
        assert len(await world.ledger.requests(RequestFilter())) == 7
        await assert_nothing_held(world)


# -- output that ended in a release ------------------------------------------------------------------------------------

GOOD = sse(*CHAT.events)
PROVOKED = {
    "provider_error": sse(*CHAT.opening, *CHAT.answer, CHAT.error),
    "stalled": sse(*CHAT.opening, *CHAT.answer, Hang()),
    "deadline": sse(*CHAT.opening, *CHAT.answer, Hang()),
}
CONFIG = settings(
    models={"m": PRICES, "n": PRICES},
    channels={"one": settings()["channels"]["one"] | {"models": ["m", "n"]}},
    server={"released_output_limit": 2},
    contracts={
        "hasty": {"preset": "hoptrio", "stall": False, "deadline_seconds": 5},
        "paid": {"preset": "hoptrio", "interrupted": "charge"},
    },
)


class Callers:
    """Two accounts on one channel: "honest", whose answers end well, and "greedy"."""

    def __init__(self, world, contract):
        self.world, self.contract = world, contract

    async def open(self):
        for name in ("honest", "greedy"):
            await self.world.ledger.create_account(name, deposit_nanos=10**12)
        _, self.honest = await self.world.ledger.create_key("honest")
        _, self.greedy = await self.world.ledger.create_key("greedy", contract=self.contract)
        return self

    async def call(self, secret, script, model="m"):
        """One stream that goes as `script` says."""
        self.world.provider.scripts = [script]
        return await self.world.call("chat", {**CHAT_SILENT, "model": model}, secret=secret)


@pytest.mark.parametrize("reason", PROVOKED)
async def test_a_key_whose_output_is_released_again_and_again_is_a_429_for_a_while(reason, autojump_clock):
    contract = "hasty" if reason == "deadline" else "hoptrio"
    async with gateway(config=CONFIG, now_ms=wall_ms) as world:
        callers = await Callers(world, contract).open()
        await callers.call(callers.honest, GOOD)
        for _ in range(2):
            response = await callers.call(callers.greedy, PROVOKED[reason])
            assert (await world.record(response)).reason == reason
        response = await callers.call(callers.greedy, GOOD)
        assert_shape(response, "chat", 429, "rate_limit_exceeded", retry=True)
        assert response.headers["retry-after"] == "60"
        assert (await world.record(response)).state == "refused"
        assert (await callers.call(callers.honest, GOOD)).status == 200
        assert (await callers.call(callers.greedy, GOOD, model="n")).status == 200
        await trio.sleep(limits.RELEASED_WINDOW_S)
        assert (await callers.call(callers.greedy, GOOD)).status == 200


async def test_output_that_the_clients_protocol_cannot_express_counts_too(autojump_clock):
    """An image comes last, so that all the text before it was had for nothing."""
    drawn = {"images": [{"image_url": {"url": "data:image/png;base64,AA=="}}]}
    image = sse(*CHAT.opening, *CHAT.answer, _data([chat_chunk(drawn)]), *CHAT.closing, *CHAT.terminal)
    channel = CONFIG["channels"]["one"] | {"protocols": ["chat"]}
    async with gateway(config=CONFIG | {"channels": {"one": channel}}, now_ms=wall_ms) as world:
        callers = await Callers(world, "hoptrio").open()
        await callers.call(callers.honest, GOOD)
        for _ in range(2):
            world.provider.scripts = [image]
            response = await world.call("messages", secret=callers.greedy)
            record = await world.record(response)
            assert b"Hel" in response.body
            assert (record.state, record.reason) == ("released", "unconvertible")
        response = await world.call("messages", secret=callers.greedy)
        assert_shape(response, "messages", 429, "rate_limit_exceeded", retry=True)


async def test_while_nobody_fares_better_on_the_channel_nobody_is_blamed(autojump_clock):
    async with gateway(config=CONFIG, now_ms=wall_ms) as world:
        callers = await Callers(world, "hoptrio").open()
        for _ in range(6):
            # A channel in trouble, and then one key alone on it.
            assert (await callers.call(callers.honest, PROVOKED["provider_error"])).status == 200
            assert (await callers.call(callers.greedy, PROVOKED["provider_error"])).status == 200
        await trio.sleep(3 * limits.RELEASED_WINDOW_S)
        for _ in range(6):
            assert (await callers.call(callers.greedy, PROVOKED["provider_error"])).status == 200


async def test_what_is_paid_or_had_no_output_or_broke_off_does_not_count(autojump_clock):
    async with gateway(config=CONFIG, now_ms=wall_ms) as world:
        callers = await Callers(world, "hoptrio").open()
        await callers.call(callers.honest, GOOD)
        for script in (GOOD, plain(500, b"{}"), sse(CHAT.error), sse(*CHAT.opening, *CHAT.answer, Cut(), end=False)):
            for _ in range(4):
                assert (await callers.call(callers.greedy, script)).status != 429


async def test_under_a_contract_that_charges_it_nothing_is_released(autojump_clock):
    async with gateway(config=CONFIG, now_ms=wall_ms) as world:
        callers = await Callers(world, "paid").open()
        await callers.call(callers.honest, GOOD)
        for _ in range(6):
            assert (await callers.call(callers.greedy, PROVOKED["provider_error"])).status == 200


async def test_without_a_limit_nothing_is_counted(autojump_clock):
    config = CONFIG | {"server": {"released_output_limit": 0}}
    async with gateway(config=config, now_ms=wall_ms) as world:
        callers = await Callers(world, "hoptrio").open()
        await callers.call(callers.honest, GOOD)
        for _ in range(30):
            assert (await callers.call(callers.greedy, PROVOKED["provider_error"])).status == 200


async def test_by_default_it_is_the_twentieth(autojump_clock):
    config = {name: table for name, table in CONFIG.items() if name != "server"}
    async with gateway(config=config, now_ms=wall_ms) as world:
        callers = await Callers(world, "hoptrio").open()
        await callers.call(callers.honest, GOOD)
        statuses = [(await callers.call(callers.greedy, PROVOKED["provider_error"])).status for _ in range(22)]
    assert statuses == [200] * 20 + [429] * 2


@pytest.mark.parametrize("kind", list(SAMPLES))
async def test_in_each_protocols_shape(kind, autojump_clock):
    config = CONFIG | {"server": {"released_output_limit": 1}}
    sample = SAMPLES[kind]
    async with gateway(sse(*sample.events), config=config, now_ms=wall_ms) as world:
        await world.call(kind)
        _, secret = await world.ledger.create_key("acme")
        world.provider.scripts = [sse(*sample.opening, *sample.answer, sample.error)]
        await world.call(kind, secret=secret)
        response = await world.call(kind, secret=secret)
    assert_shape(response, kind, 429, "rate_limit_exceeded", retry=True)
    assert 1 <= int(response.headers["retry-after"]) <= 60
