"""Channels in trouble, through the whole gateway: who is asked then, what callers are told, and how they come back."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from hoptrio import limits
from hoptrio.admission.health import Standing
from hoptrio.ledger.model import RequestFilter
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.server import serve
from tests.exchange.test_attempts import asked, payloads, status, whole
from tests.support.harness import CHAT_SILENT, channels, gateway
from tests.support.provider import Cut, Hang, Pause, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, data

ONE = channels("a")
TWO = channels("a", "b")
CUT = sse(*CHAT.opening, Cut(), end=False)
STALL = sse(*CHAT.opening, Hang())


def standing(world, channel="a"):
    return world.gateway.router.breakers.condition(channel, "m").standing


async def statuses(world, count, kind="chat"):
    return [(await world.call(kind)).status for _ in range(count)]


def told(response):
    """(code, whether SDKs are told not to retry, after how many seconds they may)."""
    return (
        response.json["error"]["code"],
        response.headers.get("x-should-retry") == "false",
        response.headers.get("retry-after"),
    )


def first_choice(name, *others):
    """A config in which one channel is asked before all others."""
    config = channels(name, *others)
    config["channels"][name]["priority"] = 1
    return config


async def test_three_failures_in_a_row_close_a_channel_until_one_stream_proves_it(autojump_clock):
    config = first_choice("a", "b")
    async with gateway(config=config, hosts={"a": [status(500)] * 3 + [whole(CHAT)], "b": [whole(CHAT)]}) as world:
        for failures in range(3):
            assert standing(world) is not Standing.COOLING
            assert await statuses(world, 2) == [502, 200]
            assert asked(world) == {"a": failures + 1, "b": failures + 1}
            await trio.sleep(limits.COOLDOWN_MIN_S - 0.1)
            assert await statuses(world, 1) == [200]
            world.hosts["b"].seen.pop()
            await trio.sleep(0.1)
        # Two doubts ran out; the cool-down has, too, and the next stream is its trial.
        assert standing(world) is Standing.DUE
        assert await statuses(world, 3) == [200, 200, 200]
        assert standing(world) is Standing.GOOD
        assert asked(world) == {"a": 6, "b": 3}


async def test_the_only_channel_is_asked_though_it_is_closed_and_a_success_opens_it(autojump_clock):
    async with gateway(config=ONE, hosts={"a": [status(500)] * 5 + [whole(CHAT)]}) as world:
        assert await statuses(world, 3) == [502] * 3
        assert standing(world) is Standing.COOLING
        assert await statuses(world, 3) == [502, 502, 200]
        assert standing(world) is Standing.GOOD


async def test_the_only_channel_is_asked_again_for_a_request_that_it_failed_though_it_is_closed(autojump_clock):
    async with gateway(config=ONE, contract="hopbase", hosts={"a": [status(503)]}) as world:
        records = [await world.record(await world.call("chat")) for _ in range(5)]
        assert standing(world) is Standing.COOLING
    assert [record.attempts for record in records] == [2] * 5


async def test_attempts_on_the_only_channel_end_where_it_is_left_alone(autojump_clock):
    """One that said no so often is not asked at all, not even by the request that it said no to last."""
    async with gateway(config=ONE, contract="hopbase", hosts={"a": [status(500), status(429)]}) as world:
        assert await statuses(world, 12) == [429] * 11 + [503]
        assert asked(world) == {"a": 1 + limits.LAST_RESORTS_MAX}


@pytest.mark.parametrize("failure", [CUT, STALL, [Cut()], [Hang()]], ids=["cut", "stall", "closed", "no head"])
async def test_each_failure_before_output_counts(failure, autojump_clock):
    async with gateway(config=ONE, hosts={"a": [failure]}) as world:
        for _ in range(limits.FAILURES_IN_A_ROW):
            assert standing(world) is not Standing.COOLING
            await world.call("chat")
        assert standing(world) is Standing.COOLING


async def test_failures_are_counted_by_model_and_an_address_that_is_not_reached_for_all_of_them(autojump_clock):
    config = channels("a", models=["m", "n"])
    config["models"]["n"] = config["models"]["m"]
    async with gateway(config=config, hosts={"a": [status(429, retry_after=b"50"), whole(CHAT)]}) as world:
        assert await statuses(world, 2) == [429, 503]
        other = {**CHAT_SILENT, "model": "n"}
        assert (await world.call("chat", other)).status == 200
        world.hosts["a"].connect_s = None
        await trio.sleep(1000)
        for _ in range(limits.FAILURES_IN_A_ROW):
            assert standing(world) is not Standing.COOLING
            assert (await world.call("chat", other)).status == 502
        assert standing(world) is Standing.COOLING


async def test_a_stall_in_the_midst_of_an_answer_counts_and_a_cut_there_does_not(autojump_clock):
    midway = [*CHAT.opening, CHAT.answer[0]]
    async with gateway(config=ONE, hosts={"a": [sse(*midway, Cut(), end=False)]}) as world:
        await statuses(world, 5)
        assert standing(world) is Standing.GOOD
        world.hosts["a"].scripts = [sse(*midway, Hang())]
        await statuses(world, 3)
        assert standing(world) is Standing.COOLING


@pytest.mark.parametrize(("deadline_s", "counts"), [(60, False), (600, True)])
async def test_silence_until_the_deadline_counts_if_that_is_as_long_as_a_stall(deadline_s, counts, autojump_clock):
    config = channels("a")
    config["contracts"] = {"mine": {"preset": "anypath", "deadline_seconds": deadline_s}}
    async with gateway(config=config, contract="mine", hosts={"a": [[Hang()]]}) as world:
        assert await statuses(world, 3) == [504] * 3
        assert (standing(world) is Standing.COOLING) == counts


async def test_silence_in_what_another_attempt_left_of_the_time_does_not_count(autojump_clock):
    config = channels("a", "b")
    config["contracts"] = {"mine": {"preset": "hopbase", "deadline_seconds": 130}}
    async with gateway(config=config, contract="mine", hosts={"a": [[Hang()]], "b": [[Hang()]]}) as world:
        record = await world.record(await world.call("chat"))
        board = world.gateway.router.breakers.board
        assert [board.get(name, "m") is None for name in "ab"] == [False, True]
    assert (record.reason, record.attempts) == ("header_timeout", 2)


async def test_after_one_failure_the_others_are_asked_first_for_a_while(autojump_clock):
    config = channels("a", "b")
    config["channels"]["a"]["priority"] = 9
    async with gateway(config=config, hosts={"a": [CUT, whole(CHAT)], "b": [whole(CHAT)]}) as world:
        await statuses(world, 4)
        assert asked(world) == {"a": 1, "b": 3}
        await trio.sleep(limits.COOLDOWN_MIN_S)
        await statuses(world, 2)
        assert asked(world) == {"a": 3, "b": 3}


@pytest.mark.parametrize("wait_s", [2, 37])
async def test_a_rate_limit_closes_at_once_for_as_long_as_the_provider_says(wait_s, autojump_clock):
    hosts = {"a": [status(429, retry_after=b"%d" % wait_s), whole(CHAT)]}
    async with gateway(config=ONE, hosts=hosts) as world:
        assert await statuses(world, 1) == [429]
        start = trio.current_time()
        response = await world.call("chat")
        assert (response.status, told(response)) == (503, ("model_unavailable", False, str(wait_s)))
        assert response.json["error"]["message"] == "The channels of the model 'm' are cooling down after failures."
        (record,) = await world.ledger.requests(RequestFilter(state="refused"))
        assert (record.reason, record.hold_nanos) == ("model_unavailable", 0)
        await trio.sleep_until(start + wait_s - 0.1)
        assert await statuses(world, 1) == [503]
        await trio.sleep(0.1)
        assert asked(world) == {"a": 1}
        assert await statuses(world, 1) == [200]


async def test_a_rate_limit_that_does_not_say_how_long_closes_the_channel_while_there_are_others(autojump_clock):
    config = first_choice("a", "b")
    async with gateway(config=config, hosts={"a": [status(429), whole(CHAT)], "b": [whole(CHAT)]}) as world:
        assert await statuses(world, 3) == [429, 200, 200]
        assert asked(world) == {"a": 1, "b": 2}
        await trio.sleep(limits.COOLDOWN_MIN_S)
        await statuses(world, 1)
        assert asked(world) == {"a": 2, "b": 2}


#: A date says something beside the provider's own.
TOMORROW = b"Tue, 01 Dec 2026 10:00:00 GMT\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize("retry_after", [b"86400", TOMORROW], ids=["seconds", "date"])
async def test_a_long_retry_after_is_honoured_for_an_hour_and_no_client_waits_for_it(retry_after, autojump_clock):
    hosts = {"a": [status(429, retry_after=retry_after), whole(CHAT)]}
    async with gateway(config=ONE, hosts=hosts) as world:
        await world.call("chat")
        response = await world.call("chat")
        assert (response.status, told(response)) == (503, ("model_unavailable", True, None))
        await trio.sleep(limits.COOLDOWN_ASKED_MAX_S - 1)
        assert standing(world) is Standing.COOLING
        await trio.sleep(1)
        assert await statuses(world, 1) == [200]


async def test_one_stream_tries_a_channel_and_the_others_go_elsewhere(autojump_clock):
    config = first_choice("a", "b")
    hosts = {"a": [status(429), [Pause(3), *whole(CHAT)]], "b": [whole(CHAT)]}
    async with gateway(config=config, hosts=hosts) as world:
        await world.call("chat")
        await trio.sleep(limits.COOLDOWN_MIN_S)
        trial = await world.start("chat")
        await trio.sleep(1)
        assert await statuses(world, 3) == [200] * 3
        assert asked(world) == {"a": 2, "b": 3}
        assert (await trial.read()).status == 200
        await statuses(world, 1)
        assert asked(world) == {"a": 3, "b": 3}


async def test_a_trial_that_fails_doubles_the_cool_down(autojump_clock):
    async with gateway(config=ONE, hosts={"a": [status(429), CUT, CUT, whole(CHAT)]}) as world:
        await world.call("chat")
        for wait_s in (5, 10, 20):
            await trio.sleep(wait_s - 0.1)
            assert standing(world) is Standing.COOLING
            await trio.sleep(0.1)
            assert standing(world) is Standing.DUE
            await world.call("chat")
        assert standing(world) is Standing.GOOD


async def test_a_trial_that_is_refused_its_hold_leaves_the_channel_to_the_next(autojump_clock):
    async with gateway(config=ONE, hosts={"a": [status(429), whole(CHAT)]}) as world:
        await world.ledger.create_account("poor", deposit_nanos=1)
        _, poor = await world.ledger.create_key("poor")
        await world.call("chat")
        await trio.sleep(limits.COOLDOWN_MIN_S)
        assert (await world.call("chat", secret=poor)).status == 402
        assert world.gateway.load.running("a") == 0
        world.gateway.max_streams = 0
        assert (await world.call("chat")).json["error"]["code"] == "server_is_overloaded"
        world.gateway.max_streams = 9
        assert await statuses(world, 1) == [200]


async def test_a_trial_that_the_provider_refuses_for_its_request_leaves_the_channel_to_the_next(autojump_clock):
    async with gateway(config=ONE, hosts={"a": [status(429), status(400), whole(CHAT)]}) as world:
        await world.call("chat")
        await trio.sleep(limits.COOLDOWN_MIN_S)
        assert await statuses(world, 2) == [400, 200]


async def test_a_trial_goes_on_behind_a_client_that_left(autojump_clock):
    """The provider is read to its end in any case, and what it proves is proven."""
    async with gateway(config=ONE, hosts={"a": [status(429), [Pause(3), *whole(CHAT)]]}) as world:
        await world.call("chat")
        await trio.sleep(limits.COOLDOWN_MIN_S)
        client = await world.start("chat")
        await trio.sleep(1)
        await client.leave()
        await trio.sleep(10)
        assert standing(world) is Standing.GOOD


async def test_under_several_attempts_a_channel_in_trouble_costs_one_attempt_and_then_none(autojump_clock):
    async with gateway(config=TWO, contract="hopbase", hosts={"a": [status(429)], "b": [whole(CHAT)]}) as world:
        responses = [await world.call("chat") for _ in range(10)]
        records = [await world.record(response) for response in responses]
    assert [response.status for response in responses] == [200] * 10
    assert [record.attempts for record in records] == [2] + [1] * 9
    # Ten streams pass in one virtual moment, less than the cool-down.
    assert asked(world) == {"a": 1, "b": 10}


# -- three channels: one cuts, one stalls, one works -------------------------------------------------------------------

KINDS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GEMINI}


class Simulated:
    """The product's own simulated provider at each host, in virtual time."""

    def __init__(self, nursery, **scripts):
        self.nursery = nursery
        self.by_host = {host: SimulatedProvider(default=parse_directive(script)) for host, script in scripts.items()}

    async def connect(self, origin):
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(serve, self.by_host[origin.host], ours)
        return theirs

    def asked(self):
        return {host: len(provider.seen) for host, provider in self.by_host.items()}


def everything(*_):
    return True


BROKEN_TWO = {"cuts": "events=3 fail=cut@open", "stalls": "events=3 fail=silence@open", "works": "events=3 pace=10ms"}


async def play(contract, *, count, config, together=False, certified=everything):
    """(responses, records, requests at each host, the audit, the account's balance)"""
    responses = []
    async with trio.open_nursery() as nursery:
        simulated = Simulated(nursery, **BROKEN_TWO)
        async with gateway(config=config, contract=contract, connect=simulated.connect) as world:
            world.gateway.router.certified = certified

            async def call():
                responses.append(await world.call("chat"))

            async with trio.open_nursery() as clients:
                for _ in range(count):
                    if together:
                        clients.start_soon(call)
                    else:
                        await call()
            await world.settled()
            records = [await world.record(response) for response in responses]
            report = await world.ledger.audit()
            balance_nanos = (await world.ledger.account("acme")).balance_nanos
        nursery.cancel_scope.cancel()
    return responses, records, simulated.asked(), report, balance_nanos


@pytest.mark.parametrize("together", [False, True], ids=["one after another", "together"])
@pytest.mark.parametrize("attempts", [2, 3])
async def test_of_three_channels_one_cuts_one_stalls_and_clients_see_whole_answers(attempts, together, autojump_clock):
    """With two attempts each second one goes to the channel that is certified; three need no certificate."""
    config = channels(*BROKEN_TWO)
    config["contracts"] = {"mine": {"preset": "hopbase", "attempts": attempts}}
    certified = everything if attempts == 3 else lambda channel, *_: channel.name == "works"
    responses, records, requests, report, balance_nanos = await play(
        "mine", count=30, config=config, together=together, certified=certified
    )
    for response, record in zip(responses, records, strict=True):
        assert (response.status, response.clean) == (200, True)
        assert response.data[-1] == b"[DONE]"
        assert sum(b'"role"' in each for each in response.data) == 1
        assert (record.state, record.channel) == ("captured", "works")
        failed = [event for _, event in record.timeline if event.startswith("attempt_failed")]
        assert record.attempts == len(failed) + 1
        assert set(failed) <= {"attempt_failed truncated cuts", "attempt_failed stalled stalls"}
    assert report.ok
    assert (report.captured, report.open_holds) == (30, 0)
    assert balance_nanos == 1000 * 10**9 - sum(record.charge_nanos for record in records)
    assert requests["works"] == 30
    assert sum(requests.values()) == sum(record.attempts for record in records)
    if not together:
        # Trouble is noticed: most requests never meet it.
        assert requests["cuts"] + requests["stalls"] <= 12


@pytest.mark.parametrize("contract", ["anypath", "hoptrio"])
async def test_of_three_channels_each_request_makes_exactly_one_where_the_contract_says_so(contract, autojump_clock):
    responses, records, requests, report, _ = await play(contract, count=30, config=channels(*BROKEN_TWO))
    dispatched = [record for record in records if record.state != "refused"]
    assert all(record.attempts == 1 for record in dispatched)
    assert sum(requests.values()) == len(dispatched) == 30
    assert report.ok
    assert report.captured == sum(response.data[-1:] == [b"[DONE]"] for response in responses) == requests["works"]
    assert requests["works"] > 15


async def test_the_account_of_a_channel_that_is_not_accepted_is_told_to_operators_and_not_to_callers(autojump_clock):
    hosts = {"a": [status(401, error=json.dumps({"error": {"message": "Incorrect API key: sk-prov"}}).encode())]}
    async with gateway(config=ONE, hosts=hosts) as world:
        first = await world.call("chat")
        assert first.status == 502
        assert "sk-prov" not in first.body.decode()
        second = await world.call("chat")
        assert second.status == 502
        assert "sk-prov" not in second.body.decode()
        condition = world.gateway.router.breakers.condition("a", "m")
    assert condition.fault.name == "CREDENTIALS"


async def test_a_provider_that_says_it_is_limited_within_a_stream_is_left_alone_too(autojump_clock):
    """The first event of a 200 is an error of a rate limit."""
    limited = data({"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}})
    async with gateway(config=TWO, contract="hopbase", hosts={"a": [sse(limited)], "b": [whole(CHAT)]}) as world:
        response = await world.call("chat")
        assert response.data == payloads(*CHAT.events)
        assert standing(world) is Standing.COOLING
