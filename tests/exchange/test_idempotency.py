"""A POST with an Idempotency-Key that was used before: one request upstream, one hold, one charge, one answer."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio import limits
from hoptrio.admission.health import Fault
from hoptrio.contract import Reason
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger.model import RequestFilter
from hoptrio.spool.spool import Caps
from tests.exchange.test_reattach import KINDS, assert_gone, paced, sample_of, wall_ms
from tests.support.harness import BODIES, CHAT, CHAT_SILENT, gateway
from tests.support.provider import Cut, Pause, plain, sse
from tests.support.streams import CHAT as CHAT_SAMPLE
from tests.support.streams import SAMPLES

each_kind = pytest.mark.parametrize("kind", KINDS)
KEY = {"idempotency-key": "order-1"}


async def charges(world):
    """What was charged, hold by hold, oldest first."""
    records = reversed(await world.ledger.requests(RequestFilter()))
    return [record.charge_nanos for record in records if record.state != "refused"]


async def assert_one(world, kind="chat"):
    """One request upstream, one hold, one charge; and the books are right."""
    assert len(world.provider.seen) == 1
    assert await charges(world) == [sample_of(kind).charge_nanos]
    assert (await world.ledger.account("acme")).held_nanos == 0
    assert (await world.ledger.audit()).ok


@each_kind
async def test_a_retry_after_the_end_gets_the_same_bytes(kind, autojump_clock, tmp_path):
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        first = await world.call(kind, headers=KEY)
        second = await world.call(kind, headers=KEY)
        assert (second.status, second.body, second.clean) == (200, first.body, True)
        assert second.headers["x-request-id"] == first.headers["x-request-id"]
        assert second.headers["content-type"] == first.headers["content-type"]
        assert second.headers["idempotent-replayed"] == "true"
        assert "idempotent-replayed" not in first.headers
        await assert_one(world, kind)


@each_kind
async def test_a_retry_in_the_middle_joins_from_the_first_event(kind, autojump_clock, tmp_path):
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        left = await world.start(kind, headers=KEY)
        await trio.sleep(2.5)
        await left.leave()
        response = await world.call(kind, headers=KEY)
        assert response.clean
        uncut = await world.call(kind, headers=KEY)
        assert response.body == uncut.body
        await assert_one(world, kind)


async def test_ten_at_once_are_one(autojump_clock, tmp_path):
    async with gateway(paced(CHAT_SAMPLE.events), spool=tmp_path) as world:
        clients = [await world.start("chat", headers=KEY) for _ in range(10)]
        bodies = {(await client.read()).body for client in clients}
        assert len(bodies) == 1
        await assert_one(world)


@pytest.mark.parametrize("kind", list(SAMPLES))
async def test_a_plain_answer_is_kept_and_waited_for(kind, autojump_clock, tmp_path):
    sample = SAMPLES[kind]
    path = "/v1beta/models/m:generateContent" if kind == "gemini" else None
    body = {name: value for name, value in BODIES[kind].items() if name not in ("stream", "stream_options")}
    answer = json.dumps(sample.body).encode()
    async with gateway([Pause(5), *plain(200, answer)], spool=tmp_path) as world:
        client = await world.start(kind, body, path=path, headers=KEY)
        await trio.sleep(1)
        joined = await world.call(kind, body, path=path, headers=KEY)
        first = await client.read()
        later = await world.call(kind, body, path=path, headers=KEY)
        assert first.body == joined.body == later.body == answer
        assert {each.headers["x-request-id"] for each in (first, joined, later)} == {first.headers["x-request-id"]}
        assert len(world.provider.seen) == 1


async def test_a_retry_shares_a_failure_that_it_waited_for(autojump_clock, tmp_path):
    async with gateway([Pause(5), *plain(429, b'{"error": {"message": "slow"}}')], spool=tmp_path) as world:
        client = await world.start("chat", headers=KEY)
        await trio.sleep(1)
        joined = await world.call("chat", headers=KEY)
        first = await client.read()
        assert (joined.status, joined.body) == (first.status, first.body) == (429, first.body)
        assert joined.headers.get("retry-after") == first.headers.get("retry-after")


@each_kind
async def test_another_body_under_the_key_is_a_409(kind, autojump_clock, tmp_path):
    async with gateway(paced(sample_of(kind).events), spool=tmp_path) as world:
        await world.call(kind, headers=KEY)
        other = {**BODIES[kind], "temperature": 0.5} if not kind.startswith("gemini") else {**BODIES[kind], "x": 1}
        response = await world.call(kind, other, headers=KEY)
        assert response.status == 409
        assert response.headers["x-should-retry"] == "false"
        await assert_one(world, kind)


async def test_what_is_wrong_with_a_request_is_said_before(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        await world.call("chat", headers=KEY)
        for body, status in (({**CHAT, "messages": 1}, 400), ({**CHAT, "model": "no"}, 404), (b"{", 400)):
            assert (await world.call("chat", body, headers=KEY)).status == status
        assert (await world.call("chat", headers=KEY, secret="sk-wrong")).status == 401
        assert len(world.provider.seen) == 1


async def test_limits_balance_and_channels_matter_to_the_first_alone(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path, now_ms=wall_ms) as world:
        _, secret = await world.ledger.create_key("acme", rpm=1, max_streams=1)
        first = await world.call("chat", headers=KEY, secret=secret)
        assert (await world.call("chat", secret=secret)).status == 429
        balance = (await world.ledger.account("acme")).balance_nanos
        await world.ledger.adjust("acme", -balance, "spent elsewhere")
        for _ in range(limits.FAILURES_IN_A_ROW):
            world.gateway.router.breakers.failed("one", "m", Fault.FAILED, 0.0)
        joined = await world.call("chat", headers=KEY, secret=secret)
        assert (joined.status, joined.body) == (200, first.body)
        assert len(world.provider.seen) == 1


async def test_a_revoked_key_joins_nothing(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        await world.call("chat", headers=KEY)
        await world.ledger.revoke_key(world.key.id)
        assert (await world.call("chat", headers=KEY)).status == 401


async def test_after_a_released_one_it_is_a_new_request_under_the_key(autojump_clock, tmp_path):
    cut = sse(*CHAT_SAMPLE.opening, *CHAT_SAMPLE.answer, Cut())
    async with gateway(cut, sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        failed = await world.call("chat", headers=KEY)
        assert not failed.clean
        second = await world.call("chat", headers=KEY)
        assert second.clean
        assert second.headers["x-request-id"] != failed.headers["x-request-id"]
        third = await world.call("chat", headers=KEY)
        assert (third.body, third.headers["x-request-id"]) == (second.body, second.headers["x-request-id"])
        assert len(world.provider.seen) == 2
        assert await charges(world) == [0, CHAT_SAMPLE.charge_nanos]


async def test_after_a_refused_one_it_is_a_new_request_whatever_its_body(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), deposit="0", spool=tmp_path) as world:
        assert (await world.call("chat", headers=KEY)).status == 402
        await world.ledger.deposit("acme", 10**12)
        assert (await world.call("chat", CHAT_SILENT, headers=KEY)).clean
        assert len(world.provider.seen) == 1


async def test_keys_of_one_account_do_not_share_their_idempotency_keys(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        _, secret = await world.ledger.create_key("acme")
        first = await world.call("chat", headers=KEY)
        second = await world.call("chat", headers=KEY, secret=secret)
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        assert len(world.provider.seen) == 2


async def test_after_the_window_the_key_is_free_again(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path, now_ms=wall_ms) as world:
        await world.call("chat", headers=KEY)
        await trio.sleep(limits.SPOOL_KEPT_S - 5)
        assert (await world.call("chat", headers=KEY)).headers["idempotent-replayed"] == "true"
        await trio.sleep(10)
        assert "idempotent-replayed" not in (await world.call("chat", headers=KEY)).headers
        assert len(world.provider.seen) == 2


@pytest.mark.parametrize("contract", ["hopbase", "anypath"])
async def test_under_a_contract_without_it_the_header_says_nothing(contract, autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), contract=contract, spool=tmp_path) as world:
        for _ in range(2):
            assert "idempotent-replayed" not in (await world.call("chat", headers=KEY)).headers
        assert len(world.provider.seen) == 2


async def test_a_key_of_no_or_too_many_characters_is_a_400(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        for key in ("", "x" * 256):
            response = await world.call("chat", headers={"idempotency-key": key})
            assert (response.status, response.json["error"]["param"]) == (400, "idempotency-key")
        assert (await world.call("chat", headers={"idempotency-key": "x" * 255})).status == 200


@pytest.mark.parametrize("second", ["order-1", "order-2"])
async def test_more_than_one_key_is_a_400(second, autojump_clock, tmp_path):
    async with gateway(sse(*CHAT_SAMPLE.events), spool=tmp_path) as world:
        response = await world.call("chat", headers={"idempotency-key": "order-1", "Idempotency-Key": second})
        assert (response.status, response.json["error"]["param"]) == (400, "idempotency-key")
        assert not world.provider.seen


@each_kind
async def test_a_captured_answer_beyond_the_cap_is_gone_and_not_made_again(kind, autojump_clock, tmp_path):
    caps = Caps(kept_s=600, stream_bytes_max=100)
    async with gateway(paced(sample_of(kind).events), spool=tmp_path, caps=caps) as world:
        await world.call(kind, headers=KEY)
        assert_gone(await world.call(kind, headers=KEY), kind)
        await assert_one(world, kind)


async def test_one_that_runs_out_of_reach_is_a_409_that_may_be_tried_again(autojump_clock, tmp_path):
    """On another node, or of a process that was killed: as if this one's spool knew nothing of it."""
    async with gateway(paced(CHAT_SAMPLE.events), spool=tmp_path) as world:
        client = await world.start("chat", headers=KEY)
        await trio.sleep(1.5)
        own = world.gateway.spools.own
        own._transcripts, kept = {}, own._transcripts
        response = await world.call("chat", headers=KEY)
        assert (response.status, response.json["error"]["code"]) == (409, "idempotency_key_in_use")
        assert response.headers["retry-after"] == str(limits.CLAIM_RETRY_S)
        assert "x-should-retry" not in response.headers
        own._transcripts = kept
        assert (await client.read()).clean
        await assert_one(world)


async def test_an_original_cut_off_by_a_shutdown_is_no_original(autojump_clock, tmp_path):
    async with gateway(paced(CHAT_SAMPLE.events), spool=tmp_path) as world:
        client = await world.start("chat", headers=KEY)
        await trio.sleep(2.5)
        world.gateway.registry.stop_all(Reason.SHUTDOWN)
        await client.read()
        assert (await world.call("chat", headers=KEY)).clean
        assert await charges(world) == [0, CHAT_SAMPLE.charge_nanos]


PLAIN = {name: value for name, value in CHAT.items() if name not in ("stream", "stream_options")}
both_ways = pytest.mark.parametrize("body", [CHAT, PLAIN], ids=["stream", "plain"])


def answers(body):
    return paced(CHAT_SAMPLE.events) if body is CHAT else [Pause(2), *plain(200, json.dumps(CHAT_SAMPLE.body).encode())]


@both_ways
@pytest.mark.parametrize("joiners", [1, 5])
async def test_an_original_that_left_before_its_dispatch_stands_for_nobody(body, joiners, autojump_clock, tmp_path):
    """Of those who waited for it one makes the request, the others join that one."""
    async with gateway(answers(body), spool=tmp_path) as world:
        world.provider.connect_s = 2
        first = await world.start("chat", body, headers=KEY)
        await trio.sleep(0.5)
        waiting = [await world.start("chat", body, headers=KEY) for _ in range(joiners)]
        await trio.sleep(0.5)
        await first.leave()
        told = [await client.read() for client in waiting]
        assert {(each.status, each.clean) for each in told} == {(200, True)}
        assert len({each.body for each in told}) == 1
        assert len({each.headers["x-request-id"] for each in told}) == 1
        assert sum("idempotent-replayed" not in each.headers for each in told) == 1
        assert len(world.provider.seen) == 1
        assert await charges(world) == [0, CHAT_SAMPLE.charge_nanos]
        assert (await world.ledger.account("acme")).held_nanos == 0
        assert (await world.ledger.audit()).ok


@both_ways
async def test_clients_that_leave_before_the_dispatch_one_after_the_other_end_in_an_answer(
    body, autojump_clock, tmp_path
):
    async with gateway(answers(body), spool=tmp_path) as world:
        world.provider.connect_s = 2
        clients = [await world.start("chat", body, headers=KEY) for _ in range(limits.CLAIM_ROUNDS_MAX)]
        await trio.sleep(0.5)
        for client in clients[:-1]:
            await client.leave()
        assert (await clients[-1].read()).clean
        assert len(world.provider.seen) == 1
        assert sum(await charges(world)) == CHAT_SAMPLE.charge_nanos
        assert (await world.ledger.audit()).ok


async def test_a_retry_of_one_whose_hold_was_not_answered_in_time_is_a_new_request(
    autojump_clock, tmp_path, monkeypatch
):
    async with gateway(paced(CHAT_SAMPLE.events), spool=tmp_path) as world:
        place, late = world.ledger.place, []

        async def slow(hold):
            placed = await place(hold)
            if late:
                return placed
            late.append(hold)
            await trio.sleep(5)
            await world.ledger.release(hold.id, "not_dispatched")
            raise LedgerUnavailable("the ledger did not answer in time", retry_after_s=1)

        monkeypatch.setattr(world.ledger, "place", slow)
        first = await world.start("chat", headers=KEY)
        await trio.sleep(1)
        joined = await world.call("chat", headers=KEY)
        assert (await first.read()).status == 503
        assert (joined.status, joined.clean) == (200, True)
        assert await charges(world) == [0, CHAT_SAMPLE.charge_nanos]
