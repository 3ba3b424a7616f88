"""Attempts by the contract: when a request goes to another channel, and what client, money and record see of it."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.contract import Reason
from hoptrio.ledger.model import EntryKind
from hoptrio.limits import OPENING_BYTES_MAX
from tests.support.harness import CHAT_SILENT, channels, gateway
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data

THREE = [CHAT, RESPONSES, MESSAGES]
each_sample = pytest.mark.parametrize("sample", THREE, ids=lambda sample: sample.kind)

ERROR = json.dumps({"error": {"message": "boom", "type": "server_error", "code": None}}).encode()


def status(code, *, retry_after=None, error=ERROR):
    """An HTTP error of the provider."""
    more = b"" if retry_after is None else b"retry-after: %b\r\n" % retry_after
    head = b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n" % (code, more, len(error))
    return [head + error]


def whole(sample):
    return sse(*sample.events)


def payloads(*events):
    return [b"\n".join(line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")) for event in events]


def asked(world):
    """How often each host was asked."""
    return {host: len(provider.seen) for host, provider in world.hosts.items()}


def events_of(record):
    return [event for _, event in record.timeline]


#: Ways to fail before any output that another channel mends.
MENDABLE = {
    "500": lambda sample: status(500),
    "503": lambda sample: status(503),
    "429": lambda sample: status(429, retry_after=b"7"),
    "401": lambda sample: status(401),
    "403": lambda sample: status(403),
    "closed before the head": lambda sample: [Cut()],
    "not HTTP": lambda sample: [b"SSH-2.0-x\r\n", Cut()],
    "a page": lambda sample: plain(200, b"<html>", b"text/html"),
    "an error with status 200": lambda sample: plain(200, ERROR),
    "an empty stream": lambda sample: sse(),
    "cut after the opening": lambda sample: sse(*sample.opening, Cut(), end=False),
    "an error event after the opening": lambda sample: sse(*sample.opening, sample.error),
    "silence after the opening": lambda sample: sse(*sample.opening, Hang()),
    "no head": lambda sample: [Hang()],
}


@each_sample
@pytest.mark.parametrize("failure", MENDABLE)
async def test_a_failure_before_output_is_mended_by_another_channel(sample, failure, autojump_clock):
    hosts = {"a": [MENDABLE[failure](sample)], "b": [whole(sample)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    assert (response.status, response.clean) == (200, True)
    assert response.data == payloads(*sample.events)
    assert asked(world) == {"a": 1, "b": 1}
    assert (record.state, record.channel, record.attempts) == ("captured", "b", 2)
    assert record.charge_nanos == sample.charge_nanos
    assert sum(event.startswith("attempt_failed") and event.endswith(" a") for event in events_of(record)) == 1
    assert events_of(record).count("dispatched") == 2


@pytest.mark.parametrize("failure", ["500", "closed before the head", "cut after the opening", "no head"])
async def test_a_plain_call_is_tried_again_too(failure, autojump_clock):
    good = plain(200, json.dumps(CHAT.body).encode())
    # Without an event there is nothing but the deadline for a call that does not answer.
    bad = {"no head": status(502), "cut after the opening": [good[0][:-10], Cut()]}.get(
        failure, MENDABLE[failure](CHAT)
    )
    hosts = {"a": [bad], "b": [good]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call("chat", {**CHAT_SILENT, "stream": False})
        record = await world.record(response)
    assert response.status == 200
    assert response.json == CHAT.body
    assert (record.state, record.channel, record.attempts) == ("captured", "b", 2)


@pytest.mark.parametrize("code", [400, 404, 413, 422])
async def test_what_speaks_of_the_request_is_not_tried_again(code, autojump_clock):
    refused = [status(code)]
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts={"a": refused, "b": refused}) as world:
        response = await world.call("chat")
        assert response.status == code
        assert asked(world) == {"a": 1, "b": 0}
        assert (await world.record(response)).attempts == 1
        for _ in range(5):
            await world.call("chat")
        assert asked(world) == {"a": 3, "b": 3}


@each_sample
@pytest.mark.parametrize("contract", ["anypath", "hoptrio"])
@pytest.mark.parametrize("failure", ["500", "429", "closed before the head", "cut after the opening"])
async def test_other_contracts_make_exactly_one_request(sample, contract, failure, autojump_clock):
    hosts = {"a": [MENDABLE[failure](sample)], "b": [whole(sample)]}
    async with gateway(config=channels("a", "b"), contract=contract, hosts=hosts) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
        await trio.sleep(30)
    assert asked(world) == {"a": 1, "b": 0}
    assert (record.state, record.attempts, record.channel) == ("released", 1, "a")


@each_sample
async def test_once_output_was_seen_nothing_is_tried_again(sample, autojump_clock):
    hosts = {"a": [sse(*sample.opening, sample.answer[0], Cut(), end=False)], "b": [whole(sample)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert asked(world) == {"a": 1, "b": 0}
    assert (record.reason, record.attempts) == ("truncated", 1)
    assert response.data[: len(sample.opening) + 1] == payloads(*sample.opening, sample.answer[0])


@each_sample
async def test_an_attempt_after_an_early_200_with_keepalives(sample, autojump_clock):
    hosts = {"a": [sse(*sample.opening, Pause(25), Cut(), end=False)], "b": [whole(sample)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call(sample.kind)
    assert len(response.keepalives) == 2
    assert (response.status, response.clean) == (200, True)
    assert response.data == payloads(*sample.events)


@each_sample
@pytest.mark.parametrize("last", [False, True], ids=["another is possible", "the last attempt"])
async def test_openings_wait_for_the_answer_while_another_attempt_is_possible(sample, last, autojump_clock):
    """On the last attempt they leave as they come."""
    start = trio.current_time()
    slow = sse(*sample.opening, Pause(3), *sample.events[len(sample.opening) :])
    hosts = {"a": [status(500) if last else slow], "b": [slow]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call(sample.kind)
    assert response.data == payloads(*sample.events)
    assert round(response.pieces[0][0] - start) == (0 if last else 3)


@each_sample
async def test_a_failed_last_attempt_tells_its_own_error_and_is_released(sample, autojump_clock):
    hosts = {"a": [status(500)], "b": [sse(*sample.opening, Cut(), end=False)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
        account = await world.ledger.account("acme")
    # The last attempt's opening went out as it came, so the status is out, too.
    assert response.status == 200
    assert response.data[: len(sample.opening)] == payloads(*sample.opening)
    assert (record.state, record.reason, record.charge_nanos, record.attempts) == ("released", "truncated", 0, 2)
    assert account.held_nanos == 0


async def test_a_responses_client_whose_openings_were_kept_gets_them_before_the_failure(autojump_clock):
    """Its one channel is paused by the time it fails, so that there is no other attempt; the status is out."""
    failed = json.loads(RESPONSES.error.split(b"data: ")[1])
    failed["response"]["error"] = {"code": "rate_limit_exceeded", "message": "slow down"}
    error = b"event: response.failed\n" + data(failed)
    async with gateway(
        config=channels("a"), contract="hopbase", hosts={"a": [sse(*RESPONSES.opening, Pause(11), error)]}
    ) as world:
        client = await world.start("responses")
        await trio.sleep(1)
        world.gateway.router.paused = {"a"}.__contains__
        response = await client.read()
    assert asked(world) == {"a": 1}
    assert response.data == payloads(*RESPONSES.opening, error)


async def test_an_answer_without_any_output_is_complete_and_whole(autojump_clock):
    events = [*CHAT.opening, *CHAT.closing, *CHAT.terminal]
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts={"a": [sse(*events)], "b": []}) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert response.data == payloads(*events)
    assert response.clean
    assert (record.state, record.attempts) == ("captured", 1)


async def test_the_same_channel_is_tried_again_where_there_is_no_other(autojump_clock):
    hosts = {"a": [status(500), whole(CHAT)]}
    async with gateway(config=channels("a"), contract="hopbase", hosts=hosts) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert response.data == payloads(*CHAT.events)
    assert (record.channel, record.attempts) == ("a", 2)
    assert asked(world) == {"a": 2}


@pytest.mark.parametrize("code", [401, 429])
async def test_the_same_channel_is_tried_again_though_it_said_no_unless_it_said_for_how_long(code, autojump_clock):
    hosts = {"a": [status(code), whole(CHAT), status(code, retry_after=b"7"), whole(CHAT)]}
    async with gateway(config=channels("a"), contract="hopbase", hosts=hosts) as world:
        first, second = await world.call("chat"), await world.call("chat")
    assert (first.status, second.status) == (200, {401: 502, 429: 429}[code])
    assert asked(world) == {"a": 3}


async def test_a_channel_that_cannot_be_reached_is_passed_by(autojump_clock):
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts={"a": [], "b": [whole(CHAT)]}) as world:
        world.hosts["a"].connect_s = None
        response = await world.call("chat")
        record = await world.record(response)
    assert response.data == payloads(*CHAT.events)
    # Only what left counts as asked; the record lists both.
    assert record.attempts == 1
    assert "attempt_failed provider_error a" in events_of(record)


async def test_a_whole_answer_with_an_error_is_mended_and_not_charged(autojump_clock):
    """Nothing of it has reached the client, and only the last attempt is charged."""
    given_up = plain(200, json.dumps({**CHAT.body, "error": {"message": "boom"}}).encode())
    for second, state in ((plain(200, json.dumps(CHAT.body).encode()), "captured"), (status(500), "released")):
        hosts = {"a": [given_up], "b": [second]}
        async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
            response = await world.call("chat", {**CHAT_SILENT, "stream": False})
            record = await world.record(response)
        assert asked(world) == {"a": 1, "b": 1}
        assert (record.state, record.channel, record.attempts) == (state, "b", 2)
        assert record.charge_nanos == (CHAT.charge_nanos if state == "captured" else 0)


async def test_a_last_attempt_with_an_error_is_charged_as_the_only_one(autojump_clock):
    given_up = plain(200, json.dumps({**CHAT.body, "error": {"message": "boom"}}).encode())
    hosts = {"a": [given_up], "b": [given_up]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call("chat", {**CHAT_SILENT, "stream": False})
        record = await world.record(response)
    assert response.status == 502
    assert (record.state, record.reason, record.attempts) == ("captured", "provider_error", 2)
    assert record.charge_nanos == CHAT.charge_nanos


@pytest.mark.parametrize("attempts", range(1, 6))
async def test_attempts_are_the_contracts(attempts, autojump_clock):
    config = channels(*"abcdef")
    config["contracts"] = {"mine": {"preset": "hopbase", "attempts": attempts}}
    async with gateway(config=config, contract="mine", hosts={name: [status(500)] for name in "abcdef"}) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert response.status == 502
    assert sorted(asked(world).values(), reverse=True) == [1] * attempts + [0] * (6 - attempts)
    assert record.attempts == attempts
    assert sum(event.startswith("attempt_failed") for event in events_of(record)) == attempts - 1


async def test_no_attempt_once_the_client_has_left(autojump_clock):
    hosts = {"a": [[Pause(5), *status(500)]], "b": [whole(CHAT)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        await client.leave()
        await trio.sleep(30)
        record = await world.only_record()
    assert asked(world) == {"a": 1, "b": 0}
    assert (record.state, record.reason, record.attempts) == ("released", "provider_error", 1)
    assert not any(event.startswith("attempt_failed") for event in events_of(record))


async def test_a_client_that_leaves_while_the_next_channel_is_reached_is_not_sent_there(autojump_clock):
    hosts = {"a": [status(500)], "b": [whole(CHAT)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        world.hosts["b"].connect_s = 5
        client = await world.start("chat")
        await trio.sleep(1)
        await client.leave()
        await trio.sleep(30)
        record = await world.only_record()
        assert world.gateway.load.running("b") == 0
        breakers = world.gateway.router.breakers
        # Never asked, b is not held to account for what a did.
        assert [breakers.board.get(name, "m") is None for name in "ab"] == [False, True]
    assert asked(world) == {"a": 1, "b": 0}
    # What the hold is resolved by is the attempt that was made.
    assert (record.state, record.reason, record.attempts) == ("released", "provider_error", 1)
    assert record.channel == "a"


async def test_the_deadline_counts_from_the_first_dispatch(autojump_clock):
    config = channels("a", "b")
    config["contracts"] = {"short": {"preset": "hopbase", "deadline_seconds": 200}}
    start = trio.current_time()
    hosts = {
        "a": [[Hang()]],
        "b": [sse(*CHAT.opening, *[each for _ in range(9) for each in (CHAT.answer[0], Pause(50))])],
    }
    async with gateway(config=config, contract="short", hosts=hosts) as world:
        record = await world.record(await world.call("chat"))
        assert world.gateway.router.breakers.board.get("b", "m") is None
    # 120 s of silence on a, then b until 200 s after the first dispatch.
    assert (record.reason, record.attempts) == ("deadline", 2)
    assert 199 < trio.current_time() - start < 202


async def test_each_attempt_has_the_stall_limit_anew(autojump_clock):
    start = trio.current_time()
    hosts = {"a": [sse(Pause(100), *CHAT.opening, Hang())], "b": [sse(Pause(100), *CHAT.events)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call("chat")
    assert response.data == payloads(*CHAT.events)
    assert 219 < trio.current_time() - start < 222


async def test_openings_beyond_the_limit_leave_at_once_and_end_the_attempts(autojump_clock):
    ping = b"data: " + b" " * (OPENING_BYTES_MAX // 4) + CHAT.opening[0].removeprefix(b"data: ")
    hosts = {"a": [sse(*[ping] * 5, Cut(), end=False)], "b": [whole(CHAT)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert len(response.body) > OPENING_BYTES_MAX
    assert (record.reason, record.attempts) == ("truncated", 1)
    assert asked(world) == {"a": 1, "b": 0}


async def test_a_shutdown_ends_a_stream_between_its_attempts(autojump_clock):
    hosts = {"a": [status(500)], "b": [whole(CHAT)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        world.hosts["b"].connect_s = 5
        client = await world.start("chat")
        await trio.sleep(1)
        world.gateway.registry.stop_all(Reason.SHUTDOWN)
        response = await client.read()
        record = await world.record(response)
    assert (response.status, record.reason, record.charge_nanos) == (503, "shutdown", 0)
    assert asked(world) == {"a": 1, "b": 0}


async def test_an_array_begins_once_whatever_was_tried_before(autojump_clock):
    config = channels("a", "b")
    config["contracts"] = {"mine": {"preset": "hoptrio", "attempts": 2}}
    usage = data({"usageMetadata": {"promptTokenCount": 5}})
    hosts = {"a": [sse(usage, Pause(11), Cut(), end=False)], "b": [whole(GEMINI)]}
    async with gateway(config=config, contract="mine", hosts=hosts) as world:
        response = await world.call("gemini_array")
    assert [json.dumps(each) for each in response.json] == [
        json.dumps(json.loads(each)) for each in payloads(*GEMINI.events)
    ]


# -- money -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("long_first", [True, False], ids=["the longer first", "the shorter first"])
async def test_one_hold_covers_every_channel_the_request_may_go_to(long_first, autojump_clock):
    """Input is bounded by the bytes of the body, and the provider's own name of the model is in it."""
    config = channels("a", "b")
    config["models"] = {"m": {**config["models"]["m"], "max_input_tokens": 10_000}}
    long = {"name": "m", "upstream": "x" * 200}
    config["channels"]["a" if long_first else "b"]["models"] = [long]
    async with gateway(config=config, contract="hopbase", hosts={"a": [whole(CHAT)], "b": []}) as world:
        record = await world.record(await world.call("chat"))
        _, secret = await world.ledger.create_key("acme", contract="hoptrio")
        world.hosts["b"].scripts = [whole(CHAT)]
        single = await world.record(await world.call("chat", secret=secret))
    assert single.channel == "b"
    assert record.hold_nanos - single.hold_nanos == (199_000 if long_first else 0)


async def test_usage_that_a_failed_attempt_reported_is_never_charged(autojump_clock):
    """`message_start` has input; a Chat chunk before any output may have both."""
    usage = data({"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 90, "total_tokens": 990}})
    hosts = {"a": [sse(*CHAT.opening, usage, Cut(), end=False)], "b": [whole(CHAT)]}
    async with gateway(config=channels("a", "b"), contract="hopbase", hosts=hosts) as world:
        record = await world.record(await world.call("chat"))
        account = await world.ledger.account("acme")
    assert record.charge_nanos == CHAT.charge_nanos
    assert account.balance_nanos == 1000 * 10**9 - CHAT.charge_nanos


async def test_the_supplier_of_the_channel_that_answered_is_credited(autojump_clock):
    config = channels("a", "b", "c")
    config["channels"]["a"] |= {"supplier": "first", "revenue_share": "0.50"}
    config["channels"]["b"] |= {"supplier": "second", "revenue_share": "0.80"}
    hosts = {"a": [status(500)], "b": [whole(CHAT)], "c": [whole(CHAT)]}
    async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
        record = await world.record(await world.call("chat"))
        second = await world.ledger.account("second")
        assert await world.ledger.account("first") is None
        (entry,) = await world.ledger.entries(second.id)
        hold = await world.ledger.hold("hold_" + record.id.removeprefix("req_"))
        assert (await world.ledger.audit()).ok
    assert record.channel == "b"
    assert (entry.kind, entry.amount_nanos) == (EntryKind.SHARE, CHAT.charge_nanos * 8 // 10)
    assert (hold.supplier, hold.revenue_share_nanos) == ("second", 800_000_000)


async def test_a_channel_without_a_supplier_credits_nobody_after_one_that_has_one(autojump_clock):
    config = channels("a", "b")
    config["channels"]["a"] |= {"supplier": "first", "revenue_share": "0.50"}
    hosts = {"a": [status(500)], "b": [whole(CHAT)]}
    async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
        record = await world.record(await world.call("chat"))
        assert await world.ledger.account("first") is None
        assert (await world.ledger.audit()).ok
    assert (record.channel, record.charge_nanos) == ("b", CHAT.charge_nanos)


# -- what a channel is told and what it counts -------------------------------------------------------------------------


async def test_each_channel_is_asked_in_its_own_way(autojump_clock):
    """Usage that only one of them is asked for is withheld where it was, and only there."""
    config = channels("a", "b")
    config["channels"]["a"] |= {"include_usage": "never"}
    config["channels"]["b"] |= {"models": [{"name": "m", "upstream": "other"}]}
    async with gateway(config=config, contract="hopbase", hosts={"a": [status(500)], "b": [whole(CHAT)]}) as world:
        response = await world.call("chat", CHAT_SILENT)
        bodies = {host: json.loads(provider.seen[0].body) for host, provider in world.hosts.items()}
    assert bodies["a"]["model"] == "m"
    assert "stream_options" not in bodies["a"]
    assert (bodies["b"]["model"], bodies["b"]["stream_options"]) == ("other", {"include_usage": True})
    assert b"usage" not in response.body


async def test_a_channels_limit_counts_attempts_in_flight(autojump_clock):
    hosts = {"a": [status(500)], "b": [[Hang()]]}
    async with gateway(config=channels("a", "b", max_streams=1), contract="hopbase", hosts=hosts) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        load = world.gateway.load
        assert (load.running("a"), load.running("b")) == (0, 1)
        # The next one's first attempt fails, b is full, and so it is tried on a again.
        other = await world.call("chat")
        assert (other.status, asked(world)) == (502, {"a": 3, "b": 1})
        await client.leave()
        await trio.sleep(700)
        assert (load.running("a"), load.running("b")) == (0, 0)


async def test_a_channel_that_is_full_by_now_gets_no_further_attempt(autojump_clock):
    config = channels("a", "b")
    config["channels"]["a"]["priority"] = 1
    config["channels"]["b"]["max_streams"] = 1
    hosts = {"a": [[Pause(2), *status(500)]], "b": [[Hang()]]}
    async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
        clients = [await world.start("chat") for _ in range(2)]
        await trio.sleep(3)
        assert asked(world) == {"a": 3, "b": 1}
        for client in clients:
            await client.leave()


@pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)
async def test_the_account_sees_its_attempts_and_no_channels(sample, autojump_clock):
    config = channels("a", "b")
    config["contracts"] = {"mine": {"preset": "hoptrio", "attempts": 2}}
    hosts = {"a": [status(500)], "b": [whole(sample)]}
    async with gateway(config=config, contract="mine", hosts=hosts) as world:
        response = await world.call(sample.kind)
        told = (await world.get(f"/v1/requests/{response.headers['x-request-id']}")).json
    assert told["attempts"] == 2
    assert "channel" not in told
    events = [step["event"] for step in told["timeline"]]
    assert events[:4] == ["held", "dispatched", "headers", "attempt_failed provider_error"]
