"""Who is refused, with what, and which refusal comes first when several apply."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from tests.exchange.test_bad_bodies import PLAIN, each_kind, served
from tests.support.harness import CHAT_SILENT, PRICES, gateway, settings
from tests.support.provider import Hang, Pause, plain, sse
from tests.support.raw import POST_PATHS, ask, assert_nothing_held, assert_shape, post, request
from tests.support.streams import CHAT, SAMPLES

DAY_MS = 86_400_000


# -- keys --------------------------------------------------------------------------------------------------------------

NO_KEYS = {
    "none": {},
    "empty": {"authorization": ""},
    "a bare scheme": {"authorization": "Bearer"},
    "an empty bearer": {"authorization": "Bearer   "},
    "another scheme": {"authorization": "Basic c2s6"},
    "an unknown secret": {"authorization": "Bearer sk-unknown"},
    "beyond ASCII": {"authorization": "Bearer sk-\xe9\xff"},
    "too long for any": {"authorization": "Bearer " + "x" * 10_000},
    "an unknown x-api-key": {"x-api-key": "sk-unknown"},
    "an empty x-api-key": {"x-api-key": ""},
    "a provider's key": {"authorization": "Bearer sk-provider-secret"},
}


@each_kind
@pytest.mark.parametrize("name", NO_KEYS)
async def test_without_a_valid_key_a_call_is_a_401(kind, name, autojump_clock):
    async with gateway(served(kind)) as world:
        body = json.dumps(PLAIN[kind]).encode()
        response = await ask(world, request("POST", POST_PATHS[kind], NO_KEYS[name], body))
        assert_shape(response, kind, 401, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"
        assert not world.provider.seen
        await assert_nothing_held(world)


@each_kind
async def test_a_key_is_taken_from_every_header_that_sdks_use(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        body = json.dumps(PLAIN[kind]).encode()
        for headers in (
            {"authorization": f"Bearer {world.secret}"},
            {"authorization": f"bearer  {world.secret} "},
            {"x-api-key": world.secret},
            {"x-goog-api-key": world.secret},
            {"x-api-key": "", "authorization": f"Bearer {world.secret}"},
        ):
            assert (await ask(world, request("POST", POST_PATHS[kind], headers, body))).status == 200
        for seen in world.provider.seen:
            assert world.secret.encode() not in seen.head


@each_kind
async def test_a_key_in_the_query_is_geminis_alone(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        target = f"{POST_PATHS[kind]}?key={world.secret}"
        response = await ask(world, request("POST", target, {}, json.dumps(PLAIN[kind]).encode()))
        assert response.status == (200 if kind == "gemini" else 401)
        assert not any(world.secret.encode() in seen.head for seen in world.provider.seen)


@each_kind
async def test_a_revoked_an_expired_and_a_disabled_accounts_key_are_401s(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        ledger = world.ledger
        revoked, revoked_secret = await ledger.create_key("acme")
        await ledger.revoke_key(revoked.id)
        _, expired_secret = await ledger.create_key("acme", expires_at_ms=ledger.now_ms() - 1)
        _, valid_secret = await ledger.create_key("acme", expires_at_ms=ledger.now_ms() + DAY_MS)
        await ledger.create_account("gone", deposit_nanos=10**12)
        _, disabled_secret = await ledger.create_key("gone")
        await ledger.disable("gone")
        for secret in (revoked_secret, expired_secret, disabled_secret):
            assert_shape(await post(world, kind, PLAIN[kind], secret=secret), kind, 401, "invalid_api_key")
        await assert_nothing_held(world)
        assert (await post(world, kind, PLAIN[kind], secret=valid_secret)).status == 200


async def test_a_key_that_is_revoked_while_its_stream_runs_lets_it_end(autojump_clock):
    async with gateway(sse(CHAT.events[0], Pause(5), *CHAT.events[1:])) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        await world.ledger.revoke_key(world.key.id)
        response = await client.read()
        assert (response.status, response.clean) == (200, True)
        assert (await world.call("chat")).status == 401


# -- 403, 402, 429, 503 ------------------------------------------------------------------------------------------------


@each_kind
async def test_a_model_outside_the_keys_list_is_a_403(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        _, secret = await world.ledger.create_key("acme", models=["other"])
        assert_shape(await post(world, kind, PLAIN[kind], secret=secret), kind, 403, "permission_denied")
        assert not world.provider.seen
        await assert_nothing_held(world)


@each_kind
async def test_case_70_a_balance_below_the_hold_is_a_402_that_names_both(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        await world.ledger.create_account("poor", deposit_nanos=1)
        _, secret = await world.ledger.create_key("poor")
        response = await post(world, kind, PLAIN[kind], secret=secret)
        assert_shape(response, kind, 402, "credit_balance_exhausted")
        message = response.json["error"]["message"]
        assert "0.000000001 USD" in message
        needed = message.split("a hold of ")[1].split(" ")[0]
        assert 0.0001 < float(needed) < 0.002
        assert not world.provider.seen
        told = await world.get(f"/v1/requests/{response.headers['x-request-id']}", secret=secret)
        assert (told.json["state"], told.json["hold"]) == ("refused", "0")
        await assert_nothing_held(world)


@each_kind
async def test_a_budget_below_the_hold_is_a_402_that_says_so(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        _, secret = await world.ledger.create_key("acme", budget_nanos=5, budget_per="day")
        response = await post(world, kind, PLAIN[kind], secret=secret)
        assert_shape(response, kind, 402, "credit_balance_exhausted")
        assert "0.000000005 USD of the key's budget" in response.json["error"]["message"]
        await assert_nothing_held(world)


@each_kind
async def test_more_streams_than_the_key_may_run_are_a_429_with_a_wait(kind, autojump_clock):
    async with gateway([Hang()]) as world:
        _, secret = await world.ledger.create_key("acme", max_streams=1)
        client = await world.start(kind, secret=secret)
        await trio.sleep(1)
        response = await world.call(kind, secret=secret)
        assert_shape(response, kind, 429, "rate_limit_exceeded", retry=True)
        assert 1 <= int(response.headers["retry-after"]) <= 60
        assert (await world.call(kind, secret="sk-wrong")).status == 401
        await client.leave()
        await trio.sleep(700)
        await assert_nothing_held(world)
        world.provider.scripts = [sse(*SAMPLES[kind].events)]
        assert (await world.call(kind, secret=secret)).status == 200


@each_kind
async def test_a_ledger_that_cannot_take_a_hold_is_a_503_and_nothing_is_sent(kind, autojump_clock, monkeypatch):
    from hoptrio.errors import LedgerUnavailable

    async def down(hold):
        raise LedgerUnavailable("the ledger does not answer", retry_after_s=1)

    async with gateway(served(kind)) as world:
        monkeypatch.setattr(world.ledger, "place", down)
        response = await post(world, kind, PLAIN[kind])
        assert_shape(response, kind, 503, "ledger_unavailable", retry=True)
        assert response.headers["retry-after"] == "1"
        assert not world.provider.seen
        await assert_nothing_held(world)


@each_kind
async def test_a_full_and_a_draining_process_are_503s_with_a_wait(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        world.gateway.max_streams = 0
        response = await post(world, kind, PLAIN[kind])
        assert_shape(response, kind, 503, "server_is_overloaded", retry=True)
        assert response.headers["retry-after"] == "1"
        world.gateway.draining = True
        assert_shape(await post(world, kind, PLAIN[kind]), kind, 503, "server_shutting_down", retry=True)
        await assert_nothing_held(world)


@each_kind
async def test_a_model_that_no_channel_offers_is_a_503_that_a_retry_does_not_mend(kind, autojump_clock):
    async with gateway(served(kind), config=ORDER_CONFIG) as world:
        body = {**PLAIN[kind], "model": "lonely"}
        response = await post(world, kind, body, target=POST_PATHS[kind].replace("/m:", "/lonely:"))
        assert_shape(response, kind, 503, "model_unavailable")
        await assert_nothing_held(world)


async def test_a_channel_at_its_limit_is_a_503_that_a_retry_may_mend(autojump_clock):
    config = settings()
    config["channels"]["one"]["max_streams"] = 1
    async with gateway([Hang()], config=config) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        response = await world.call("chat")
        assert_shape(response, "chat", 503, "model_unavailable", retry=True)
        await client.leave()


# -- the order ---------------------------------------------------------------------------------------------------------

#: "m" is sold; "lonely" is configured, and no channel has it.
ORDER_CONFIG = settings(models={"m": PRICES, "lonely": PRICES})


@dataclass(frozen=True)
class Wrong:
    """One thing that can be wrong with a request: what it changes, and what it is answered with alone."""

    status: int
    body: dict[str, Any] = field(default_factory=dict)
    #: Arguments for `create_key`.
    key: dict[str, Any] = field(default_factory=dict)
    secret: str | None = None
    contract: str = "hoptrio"
    balance_nanos: int = 10**12
    full: bool = False


#: In the contract page's order.
WRONGS = {
    "key": Wrong(401, secret="sk-wrong"),
    "shape": Wrong(400, {"max_tokens": 0}),
    "model": Wrong(404, {"model": "nobody"}),
    "key may not": Wrong(403, key={"models": ["other"]}),
    "contract": Wrong(400, {"stream": True}, contract="anypath"),
    "route": Wrong(503, {"model": "lonely"}),
    "process": Wrong(503, full=True),
    "limit": Wrong(429, key={"max_streams": 0}),
    "rate": Wrong(429, key={"rpm": 0}),
    "balance": Wrong(402, balance_nanos=0),
}


async def refused_by(world, *names):
    """The status of a request that is wrong in each of these ways."""
    wrongs = [WRONGS[name] for name in names]
    body: dict[str, Any] = {**CHAT_SILENT, "stream": False}
    options: dict[str, Any] = {"contract": "hoptrio"}
    for wrong in reversed(wrongs):
        body |= wrong.body
        options |= wrong.key
    options["contract"] = next((wrong.contract for wrong in wrongs if wrong.contract != "hoptrio"), "hoptrio")
    balance_nanos = min(wrong.balance_nanos for wrong in wrongs)
    account = await world.ledger.create_account("-".join(names), deposit_nanos=balance_nanos)
    _, secret = await world.ledger.create_key(account.name, **options)
    world.gateway.max_streams = 0 if any(wrong.full for wrong in wrongs) else 10
    secret = next((wrong.secret for wrong in wrongs if wrong.secret), secret)
    return await post(world, "chat", body, secret=secret)


@pytest.mark.parametrize("name", WRONGS)
async def test_each_refusal_alone(name, autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), config=ORDER_CONFIG) as world:
        assert (await refused_by(world, name)).status == WRONGS[name].status
        assert not world.provider.seen
        await assert_nothing_held(world)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(WRONGS, 2)))
async def test_of_two_refusals_the_first_in_the_contracts_order_is_the_answer(first, second, autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), config=ORDER_CONFIG) as world:
        response = await refused_by(world, first, second)
        assert response.status == WRONGS[first].status
        if first == "shape":
            assert response.json["error"]["param"] == "max_tokens"
        if first == "contract":
            assert response.json["error"]["param"] == "stream_options.include_usage"
        assert not world.provider.seen
        await assert_nothing_held(world)


async def test_a_request_that_is_wrong_in_every_way_is_refused_for_its_key(autojump_clock):
    async with gateway(plain(200, b"{}"), config=ORDER_CONFIG) as world:
        assert (await refused_by(world, *WRONGS)).status == 401
