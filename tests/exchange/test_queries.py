"""The reads of the data plane, CORS, and HTTP at the edge: HEAD, HTTP/1.0, pipelining, Expect, Upgrade."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio import limits
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.model import RequestFilter
from hoptrio.ledger.operations import Note
from hoptrio.ledger.store import StoreUnavailable
from tests.exchange.test_bad_bodies import PLAIN, each_kind, served
from tests.support.harness import CHAT as CHAT_BODY
from tests.support.harness import PATHS, PRICES, gateway, settings
from tests.support.provider import Cut, Hang, Pause, sse
from tests.support.raw import POST_PATHS, ask, assert_nothing_held, assert_shape, converse, post, request
from tests.support.streams import CHAT, SAMPLES

ORIGIN = {"origin": "https://app.example"}


def bearer(world):
    return {"authorization": f"Bearer {world.secret}"}


# -- models ------------------------------------------------------------------------------------------------------------

TWO_MODELS = settings(models={"m": PRICES, "ft:gpt-5:acme": PRICES, "org/model": PRICES})
NAMES = ["m", "ft:gpt-5:acme", "org/model"]
#: Whose client asks -> where, with which headers.
CALLERS = {
    "openai": ("/v1/models", {}),
    "anthropic": ("/v1/models", {"anthropic-version": "2023-06-01"}),
    "google": ("/v1beta/models", {}),
    "google v1": ("/v1/models", {"x-goog-api-key": "yes"}),
}


async def models_of(world, caller, name=""):
    path, headers = CALLERS[caller]
    if "x-goog-api-key" in headers:
        headers = {"x-goog-api-key": world.secret}
    return await ask(world, request("GET", path + name, bearer(world) | headers))


async def test_the_list_of_models_has_the_shape_its_caller_reads(autojump_clock):
    async with gateway(config=TWO_MODELS) as world:
        openai = (await models_of(world, "openai")).json
        assert (openai["object"], [each["id"] for each in openai["data"]]) == ("list", NAMES)
        assert all(set(each) == {"id", "object", "created", "owned_by"} for each in openai["data"])
        assert openai["data"][0]["created"] > 1_600_000_000
        anthropic = (await models_of(world, "anthropic")).json
        assert ([each["id"] for each in anthropic["data"]], anthropic["has_more"]) == (NAMES, False)
        for caller in ("google", "google v1"):
            google = (await models_of(world, caller)).json
            assert [each["name"] for each in google["models"]] == [f"models/{name}" for name in NAMES]
            assert google["models"][0]["inputTokenLimit"] == PRICES["max_input_tokens"]


@pytest.mark.parametrize("name", NAMES)
async def test_one_model_has_the_shape_its_caller_reads_whatever_its_name(name, autojump_clock):
    async with gateway(config=TWO_MODELS) as world:
        for path in (f"/{name}", f"/{name.replace('/', '%2F').replace(':', '%3A')}"):
            assert (await models_of(world, "openai", path)).json["id"] == name
            assert (await models_of(world, "anthropic", path)).json["type"] == "model"
            assert (await models_of(world, "google", path)).json["name"] == f"models/{name}"


async def test_an_unknown_model_and_one_the_key_may_not_use_look_the_same(autojump_clock):
    async with gateway(config=TWO_MODELS) as world:
        _, secret = await world.ledger.create_key("acme", models=["m"])
        for caller, kind in (("openai", "chat"), ("anthropic", "messages"), ("google", "gemini")):
            assert_shape(await models_of(world, caller, "/nobody"), kind, 404, "model_not_found")
        response = await world.get("/v1/models/org/model", secret=secret)
        assert_shape(response, "chat", 404, "model_not_found")
        assert [each["id"] for each in (await world.get("/v1/models", secret=secret)).json["data"]] == ["m"]


# -- one's own requests and account ------------------------------------------------------------------------------------

REPORT = {
    *("id", "created_at", "protocol", "model", "contract", "stream", "state", "reason", "evidence", "usage", "hold"),
    *("charge", "currency", "flags", "attempts", "client_request_id", "timeline"),
}


@each_kind
async def test_a_request_is_told_to_its_account_and_to_no_other(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        await world.ledger.create_account("other", deposit_nanos=10**12)
        _, other = await world.ledger.create_key("other")
        response = await post(world, kind, PLAIN[kind], headers={"x-client-request-id": "mine-1"})
        path = f"/v1/requests/{response.headers['x-request-id']}"
        told = (await world.get(path)).json
        assert set(told) == REPORT
        assert (told["state"], told["evidence"], told["client_request_id"]) == ("captured", "json_body", "mine-1")
        assert told["usage"] == {
            "input_tokens": 5,
            "cached_input_tokens": 0,
            "cache_write_tokens": 0,
            "output_tokens": 7,
            "reasoning_tokens": 3 if kind == "gemini" else 0,
        }
        assert [each["event"] for each in told["timeline"]][:2] == ["held", "dispatched"]
        for secret in (other, "sk-wrong"):
            refused = await world.get(path, secret=secret)
            assert refused.status == (404 if secret == other else 401)
        for path in ("/v1/requests/req_nobody", "/v1/requests/", "/v1/requests/a/b"):
            assert (await world.get(path)).status == 404


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"plain", "plain"),
        ("für 日本".encode(), "für 日本"),
        ("für".encode("latin-1"), "für"),
        ("ü".encode() * 200, "ü" * limits.CLIENT_REQUEST_ID_CHARS_MAX),
    ],
    ids=["ASCII", "UTF-8", "Latin-1", "no more than is kept"],
)
async def test_a_callers_own_id_is_kept_as_it_was_written(sent, kept, autojump_clock):
    async with gateway(served("chat")) as world:
        await post(world, "chat", PLAIN["chat"], headers={"x-client-request-id": sent.decode("latin-1")})
        (record,) = await world.ledger.requests(RequestFilter(client_request_id=kept))
    assert record.client_request_id == kept


class LateNotes(MemoryStore):
    """A database whose lock others have whenever a refusal is to be kept."""

    def apply(self, operations):
        if any(isinstance(each, Note) for each in operations):
            raise StoreUnavailable("locked", busy=True)
        return super().apply(operations)


async def test_a_refusal_is_told_to_its_account_and_to_no_other_before_it_is_committed(autojump_clock):
    async with gateway(store=LateNotes()) as world:
        await world.ledger.create_account("other")
        _, stranger = await world.ledger.create_key("other")
        refused = await world.call("chat", {**CHAT_BODY, "model": "nope"})
        path = f"/v1/requests/{refused.headers['x-request-id']}"
        told = await world.get(path)
        assert (told.status, told.json["state"], told.json["reason"]) == (200, "refused", "model_not_found")
        assert (await world.get(path, secret=stranger)).status == 404


async def test_a_running_request_shows_its_timeline_so_far(autojump_clock):
    async with gateway(sse(*CHAT.opening, CHAT.answer[0], Hang())) as world:
        client = await world.start("chat")
        await trio.sleep(3)
        request_id = (await world.only_record()).id
        told = (await world.get(f"/v1/requests/{request_id}")).json
        assert (told["state"], told["usage"], told["charge"], told["attempts"]) == ("running", None, None, 1)
        assert [each["event"] for each in told["timeline"]] == ["held", "dispatched", "headers", "first_event"]
        held = (await world.get("/v1/account")).json
        assert (held["held"], held["balance"]) == (told["hold"], "1000")
        await client.leave()


async def test_an_account_sees_its_balance_and_the_limits_of_its_key(autojump_clock):
    async with gateway() as world:
        _, secret = await world.ledger.create_key(
            "acme", contract="anypath", max_streams=3, rpm=60, budget_nanos=5 * 10**9, budget_per="month", models=["m"]
        )
        told = (await world.get("/v1/account", secret=secret)).json
        key_id = told["key"].pop("id")
        assert key_id.startswith("key_")
        assert told.pop("key") == {
            "contract": "anypath",
            "max_streams": 3,
            "rpm": 60,
            "budget": "5",
            "budget_per": "month",
            "models": ["m"],
        }
        assert told == {"name": "acme", "balance": "1000", "held": "0", "available": "1000", "currency": "USD"}
        assert_shape(await world.get("/v1/account", secret="sk-wrong"), "chat", 401)


async def test_healthz_and_readyz_need_no_key(autojump_clock):
    async with gateway() as world:
        for path in ("/healthz", "/readyz"):
            response = await ask(world, request("GET", path))
            assert (response.status, response.headers["x-request-id"][:4]) == (200, "req_")
        state = response.json
        assert state.pop("tasks") > 0
        assert state == {"ready": True, "ledger": "ok", "draining": False, "probing": False, "streams": 0}


async def test_a_process_that_drains_or_cannot_reach_its_ledger_is_not_ready_and_lives(autojump_clock, monkeypatch):
    async def unreachable(timeout_s=1.0):
        return False

    async with gateway() as world:
        world.gateway.draining = True
        response = await ask(world, request("GET", "/readyz"))
        assert (response.status, response.json["draining"]) == (503, True)
        world.gateway.draining = False
        monkeypatch.setattr(world.ledger, "ping", unreachable)
        response = await ask(world, request("GET", "/readyz"))
        assert (response.status, response.json["ledger"]) == (503, "unreachable")
        assert (await ask(world, request("GET", "/healthz"))).status == 200


READS = ["/v1/models", "/v1/models/m", "/v1beta/models", "/v1beta/models/m", "/v1/account", "/healthz", "/readyz"]


@pytest.mark.parametrize("path", READS)
async def test_head_says_what_get_would_and_sends_no_body(path, autojump_clock):
    async with gateway() as world:
        got = await ask(world, request("GET", path, bearer(world)))
        headed = await converse(world, request("HEAD", path, bearer(world)) * 2)
        heads = headed.split(b"\r\n\r\n")
        assert (got.status, heads.pop(), len(heads)) == (200, b"", 2)
        assert all(f"content-length: {len(got.body)}".encode() in head.lower() for head in heads)


# -- CORS --------------------------------------------------------------------------------------------------------------


@each_kind
async def test_a_preflight_allows_the_headers_it_asked_for_and_needs_no_key(kind, autojump_clock):
    async with gateway() as world:
        asked = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-lang",
        }
        response = await ask(world, request("OPTIONS", POST_PATHS[kind], ORIGIN | asked))
        assert (response.status, response.body) == (204, b"")
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.headers["access-control-allow-headers"] == asked["access-control-request-headers"]
        assert "POST" in response.headers["access-control-allow-methods"]
        assert "x-request-id" in response.headers


def exposed(response):
    return {name.strip().lower() for name in response.headers["access-control-expose-headers"].split(",")}


@each_kind
async def test_a_browser_may_read_every_answer_and_its_ids(kind, autojump_clock):
    """A plain answer, a stream and a refusal alike."""
    async with gateway(served(kind), sse(*SAMPLES[kind].events)) as world:
        answers = [
            await post(world, kind, PLAIN[kind], headers=ORIGIN),
            await world.call(kind, headers=ORIGIN),
            await post(world, kind, b"{", headers=ORIGIN),
            await post(world, kind, PLAIN[kind], headers=ORIGIN, secret="sk-wrong"),
            await ask(world, request("PUT", POST_PATHS[kind], ORIGIN)),
        ]
        assert [answer.status for answer in answers] == [200, 200, 400, 401, 405]
        for answer in answers:
            assert answer.headers["access-control-allow-origin"] == "*"
            assert exposed(answer) >= {"x-request-id", "request-id", "retry-after"}


async def test_a_bug_is_a_500_that_a_browser_may_read(autojump_clock, monkeypatch):
    import hoptrio.exchange.handler as module

    async def broken(gateway, exchange, face, rules):
        raise RuntimeError("a bug")

    async with gateway() as world:
        monkeypatch.setattr(module, "generate", broken)
        response = await post(world, "messages", PLAIN["messages"], headers=ORIGIN)
        assert_shape(response, "messages", 500, "internal_error", retry=True)
        assert b"a bug" not in response.body
        assert response.headers["access-control-allow-origin"] == "*"


async def test_only_the_origins_of_the_config_are_allowed(autojump_clock):
    config = settings(server={"cors_origins": ["https://app.example"]})
    async with gateway(config=config) as world:
        allowed = await ask(world, request("GET", "/healthz", ORIGIN))
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        other = await ask(world, request("GET", "/healthz", {"origin": "https://evil.example"}))
        assert "access-control-allow-origin" not in other.headers
        assert allowed.headers["vary"] == other.headers["vary"] == "Origin"
        preflight = await ask(world, request("OPTIONS", "/v1/messages", {"origin": "https://evil.example"}))
        assert "access-control-allow-origin" not in preflight.headers
        assert "access-control-allow-origin" not in (await ask(world, request("GET", "/healthz"))).headers


# -- HTTP at the edge --------------------------------------------------------------------------------------------------


def http10(world, kind):
    body = json.dumps(CHAT_BODY if kind == "chat" else PLAIN[kind] | {"stream": True}).encode()
    head = f"POST {PATHS[kind]} HTTP/1.0\r\nauthorization: Bearer {world.secret}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("kind", ["chat", "responses", "messages"])
async def test_an_http_1_0_client_gets_a_stream_that_ends_with_the_connection(kind, autojump_clock):
    async with gateway(sse(*SAMPLES[kind].events)) as world:
        response = await ask(world, http10(world, kind))
        assert "transfer-encoding" not in response.headers
        assert response.headers["connection"] == "close"
        assert response.body.endswith(SAMPLES[kind].terminal[-1])
        assert (await world.record(response)).state == "captured"


@pytest.mark.parametrize("kind", ["chat", "responses", "messages"])
async def test_an_http_1_0_client_of_a_broken_stream_sees_no_terminal(kind, autojump_clock):
    sample = SAMPLES[kind]
    async with gateway(sse(*sample.opening, sample.answer[0], Cut(), end=False)) as world:
        response = await ask(world, http10(world, kind))
        assert "error" in json.dumps(json.loads(response.data[-1]))
        assert sample.terminal[-1] not in response.body
        record = await world.record(response)
        assert (record.state, record.reason) == ("released", "truncated")
        await assert_nothing_held(world)


async def test_an_http_1_0_client_gets_refusals_and_plain_answers(autojump_clock):
    async with gateway(served("chat")) as world:
        wrong = await ask(world, b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}")
        assert_shape(wrong, "chat", 401)
        health = await converse(world, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 200")
        assert health.endswith(b'{"status":"ok"}')


async def test_two_pipelined_calls_are_answered_and_charged_in_order(autojump_clock):
    events = sse(CHAT.events[0], Pause(2), *CHAT.events[1:])
    async with gateway(events, served("messages")) as world:
        client = world.connect()
        first = request("POST", "/v1/chat/completions", bearer(world), json.dumps(CHAT_BODY).encode())
        second = request("POST", "/v1/messages", bearer(world), json.dumps(PLAIN["messages"]).encode())
        await client.send(first + second + request("GET", "/healthz"))
        stream, plain_answer, health = await client.read(), await client.read(), await client.read()
        assert (stream.data[-1], plain_answer.json["type"], health.status) == (b"[DONE]", "message", 200)
        await client.leave()
        await assert_nothing_held(world, charged_nanos=CHAT.charge_nanos + SAMPLES["messages"].charge_nanos)


async def test_behind_a_refusal_a_connection_goes_on_where_the_body_was_read(autojump_clock):
    async with gateway(served("chat")) as world:
        client = world.connect()
        bad = request("POST", "/v1/chat/completions", bearer(world), b"{}")
        good = request("POST", "/v1/chat/completions", bearer(world), json.dumps(PLAIN["chat"]).encode())
        await client.send(bad + good)
        assert [(await client.read()).status, (await client.read()).status] == [400, 200]
        await client.leave()


@each_kind
async def test_100_is_sent_to_a_client_that_waits_and_whose_key_is_good(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        body = json.dumps(PLAIN[kind]).encode()
        expect = {"expect": "100-continue", "content-length": str(len(body))}
        client = world.connect()
        await client.send(request("POST", POST_PATHS[kind], bearer(world) | expect))
        assert (await client.stream.receive_some()) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await client.read()).status == 200
        await client.leave()


@each_kind
async def test_a_refused_client_that_waits_is_never_asked_for_its_body(kind, autojump_clock):
    async with gateway(served(kind)) as world:
        for headers, status in (
            ({"authorization": "Bearer sk-wrong", "content-length": "100"}, 401),
            (bearer(world) | {"content-length": str(10**10)}, 413),
            (bearer(world) | {"content-length": "100", "content-encoding": "gzip"}, 415),
        ):
            received = await converse(world, request("POST", POST_PATHS[kind], headers | {"expect": "100-continue"}))
            assert received.startswith(b"HTTP/1.1 %d " % status)
            assert b"100 Continue" not in received
        await assert_nothing_held(world)
