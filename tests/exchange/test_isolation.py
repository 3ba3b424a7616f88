"""What one account has, another cannot see, join, continue or tell from what never was, by whatever way it asks."""

from __future__ import annotations

import hashlib
import json
from contextlib import asynccontextmanager

import pytest
import trio

from hoptrio.ledger.memory import MemoryStore
from tests.support.harness import RESPONSES, gateway
from tests.support.provider import Pause, sse
from tests.support.streams import RESPONSES as SAMPLE

NEVER = {"request": "req_00000000000000000000000000", "response": "resp_never"}
#: Ways to what a request left: (whose id, the path, further headers).
WAYS = {
    "the record": ("request", "/v1/requests/{}", {}),
    "its events": ("request", "/v1/requests/{}/events", {}),
    "its events from a number on": ("request", "/v1/requests/{}/events?after=1", {}),
    "its events behind the last seen": ("request", "/v1/requests/{}/events", {"last-event-id": "1"}),
    "the response": ("response", "/v1/responses/{}", {}),
    "the response as a stream": ("response", "/v1/responses/{}?stream=true", {}),
    "the response from a number on": ("response", "/v1/responses/{}?stream=true&starting_after=1", {}),
}


@asynccontextmanager
async def two_accounts(spool, *scripts):
    """(the gateway, the secret of a second account with money)."""
    async with gateway(*scripts, spool=spool) as world:
        await world.ledger.create_account("other", deposit_nanos=10**12)
        yield world, (await world.ledger.create_key("other"))[1]


async def seen(world, path, secret, headers):
    """All that a caller can tell one answer from another by."""
    response = await world.get(path, secret=secret, headers=headers)
    own = ("date", "x-request-id", "request-id")
    told = {name: value for name, value in response.headers.items() if name not in own}
    return response.status, told, response.body


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_anothers_and_what_never_was_look_the_same(way, autojump_clock, tmp_path):
    whose, path, headers = WAYS[way]
    async with two_accounts(tmp_path, sse(*SAMPLE.events)) as (world, stranger):
        first = await world.call("responses")
        name = {"request": first.headers["x-request-id"], "response": "resp_1"}[whose]
        status, told, body = await seen(world, path.format(name), stranger, headers)
        never = await seen(world, path.format(NEVER[whose]), stranger, headers)
        assert status == 404
        assert (status, told["content-type"]) == (never[0], never[1]["content-type"])
        assert body.replace(name.encode(), b"ID") == never[2].replace(NEVER[whose].encode(), b"ID")
        assert (await world.get(path.format(name), headers=headers)).status == 200, "its own account's"


@pytest.mark.parametrize("way", WAYS)
async def test_a_stream_that_runs_is_its_own_accounts_alone(way, autojump_clock, tmp_path):
    whose, path, headers = WAYS[way]
    first, *rest = SAMPLE.events
    async with two_accounts(tmp_path, sse(first, Pause(5), *rest)) as (world, stranger):
        client = await world.start("responses", RESPONSES)
        await trio.sleep(1)
        name = {"request": (await world.only_record()).id, "response": "resp_1"}[whose]
        status, _, body = await seen(world, path.format(name), stranger, headers)
        assert status == 404
        assert b"data:" not in body
        await client.leave()
        await world.settled()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_idempotency_key_that_another_account_used_joins_nothing(stream, autojump_clock, tmp_path):
    """Not even with the same body: the answer, and its charge, are each account's own."""
    headers = {"idempotency-key": "order-1"}
    async with two_accounts(tmp_path, sse(*SAMPLE.events)) as (world, stranger):
        mine = await world.call("responses", RESPONSES, headers=headers)
        theirs = await world.call("responses", RESPONSES, headers=headers, secret=stranger)
        again = await world.call("responses", RESPONSES, headers=headers)
        assert (mine.status, theirs.status) == (200, 200)
        assert len(world.provider.seen) == 2
        assert again.headers["x-request-id"] == mine.headers["x-request-id"] != theirs.headers["x-request-id"]
        for name, charged in (("acme", 1), ("other", 1)):
            entries = await world.ledger.entries((await world.ledger.account(name)).id)
            assert sum(entry.kind.value == "capture" for entry in entries) == charged


async def test_an_account_is_told_of_itself_alone(autojump_clock, tmp_path):
    async with two_accounts(tmp_path, sse(*SAMPLE.events)) as (world, stranger):
        await world.call("responses")
        told = json.loads((await world.get("/v1/account", secret=stranger)).body)
        assert (told["name"], told["balance"]) == ("other", "1000")
        assert "acme" not in json.dumps(told)


async def test_a_key_is_looked_up_by_its_digest_and_compared_nowhere(autojump_clock):
    """Whoever guesses chooses no byte of what is compared, so the time of a comparison tells nothing."""
    store = MemoryStore()
    async with gateway(sse(*SAMPLE.events), store=store) as world:
        found, asked = store.find_key, []

        def find_key(given):
            asked.append(given)
            return found(given)

        store.find_key = find_key
        for secret in (world.secret, world.secret[:-1], "sk-wrong"):
            response = await world.get("/v1/account", secret=secret)
            assert response.status == (200 if secret == world.secret else 401)
            assert asked.pop() == hashlib.sha256(secret.encode()).hexdigest()
            assert not asked
