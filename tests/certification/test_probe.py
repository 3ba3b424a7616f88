"""Probes against the product's own simulator: every failure that it knows, and the verdict and words on each."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from hoptrio import limits
from hoptrio.certification.finding import Finding, Weight, weight_of, words_for
from hoptrio.certification.probe import probe
from hoptrio.config import build
from hoptrio.protocols.events import Protocol
from hoptrio.upstream.client import Upstream
from tests.support.harness import settings
from tests.support.simulated import Simulated, scripted

each_protocol = pytest.mark.parametrize("protocol", list(Protocol))
NOT_CHAT = frozenset(Protocol) - {Protocol.CHAT}
NOT_GEMINI = frozenset(Protocol) - {Protocol.GEMINI}
NOT_MESSAGES = frozenset(Protocol) - {Protocol.MESSAGES}
ALL = frozenset(Protocol)

#: Script, finding, and the protocols in which it is that.
SCENARIOS = [
    ("events=3", Finding.CERTIFIED, ALL),
    *[(f"usage={kind}", Finding.CERTIFIED, ALL) for kind in ("finish", "running", "twice", "late", "mismatch")],
    ("usage=none", Finding.NO_USAGE, ALL),
    ("usage=null", Finding.NO_USAGE, ALL),
    ("usage=start", Finding.INVALID_USAGE, {Protocol.MESSAGES}),
    ("usage=start", Finding.CERTIFIED, NOT_MESSAGES),
    *[(f"usage={kind}", Finding.INVALID_USAGE, ALL) for kind in ("negative", "huge", "string", "float", "empty")],
    ("usage=zero", Finding.ZERO_USAGE, ALL),
    ("output=0", Finding.ZERO_USAGE, ALL),
    *[(f"finish={kind}", Finding.CERTIFIED, ALL) for kind in ("length", "filter", "block")],
    *[(script, Finding.CERTIFIED, ALL) for script in ("reasoning=3", "tools=1", "events=0", "trickle=3")],
    *[(f"between={kind}", Finding.CERTIFIED, ALL) for kind in ("comment", "blank", "ping")],
    *[(f"wire={kind}", Finding.CERTIFIED, ALL) for kind in ("crlf", "cr", "bom", "unnamed", "ids", "nospace")],
    *[(f"wire={kind}", Finding.CERTIFIED, ALL) for kind in ("unterminated", "split", "close", "done", "gzip")],
    ("wire=gzip-unlabelled", Finding.NO_STREAM, ALL),
    ("fail=status:400", Finding.REFUSED, ALL),
    ("fail=status:401", Finding.AUTH_REFUSED, ALL),
    ("fail=status:403", Finding.AUTH_REFUSED, ALL),
    ("fail=status:404", Finding.MODEL_UNKNOWN, ALL),
    ("fail=status:413", Finding.REFUSED, NOT_GEMINI),
    ("fail=status:422", Finding.REFUSED, NOT_GEMINI),
    ("fail=status:302", Finding.REFUSED, NOT_GEMINI),
    ("fail=status:408", Finding.PROVIDER_FAILED, NOT_GEMINI),
    ("fail=status:429", Finding.RATE_LIMITED, ALL),
    ("fail=status:429 retry_after=3000", Finding.RATE_LIMITED, ALL),
    *[(f"fail=status:{status}", Finding.PROVIDER_FAILED, ALL) for status in (500, 502, 503, 504, 529)],
    ("fail=no-head", Finding.NO_HEAD, ALL),
    ("head_delay=100s", Finding.NO_HEAD, ALL),
    ("fail=close", Finding.UNREACHED, ALL),
    ("fail=not-http", Finding.UNREACHED, ALL),
    ("fail=html", Finding.NO_STREAM, ALL),
    ("fail=json-error", Finding.NO_STREAM, ALL),
    ("fail=empty", Finding.NO_TERMINAL, ALL),
    *[(f"fail={kind}@{when}", Finding.ERROR_EVENT, ALL) for kind in ("error", "failed") for when in (0, "open", 2)],
    ("fail=error@end", Finding.ERROR_EVENT, ALL),
    ("fail=error@done", Finding.CERTIFIED, NOT_GEMINI),
    ("fail=error@2 after=cut", Finding.ERROR_EVENT, ALL),
    ("fail=error@2 after=silence", Finding.ERROR_EVENT, ALL),
    ("fail=error:401@2", Finding.AUTH_REFUSED, NOT_MESSAGES),
    ("fail=error:429@2", Finding.RATE_LIMITED, NOT_MESSAGES),
    ("fail=failed-usage@2", Finding.ERROR_EVENT, ALL),
    ("fail=stray-error@2", Finding.ERROR_EVENT, {Protocol.GEMINI}),
    *[(f"fail={kind}@{when}", Finding.CUT, ALL) for kind in ("cut", "reset", "inside") for when in (0, "open", 2)],
    ("fail=cut@end", Finding.CUT, ALL),
    ("fail=cut@done", Finding.CERTIFIED, ALL),
    *[(f"fail=end@{when}", Finding.NO_TERMINAL, ALL) for when in (0, "open", 2)],
    ("fail=end@end", Finding.NO_TERMINAL, NOT_CHAT),
    ("fail=end@end", Finding.CERTIFIED, {Protocol.CHAT}),
    ("fail=no-terminal", Finding.NO_TERMINAL, NOT_CHAT),
    ("fail=no-terminal", Finding.CERTIFIED, {Protocol.CHAT}),
    ("fail=no-finish", Finding.NO_TERMINAL, NOT_CHAT),
    *[(f"fail={kind}@2", Finding.TOO_SLOW, ALL) for kind in ("silence", "comments", "pings")],
    ("fail=silence@0", Finding.TOO_SLOW, ALL),
    ("fail=silence@end", Finding.TOO_SLOW, ALL),
    ("fail=silence@done", Finding.CERTIFIED, ALL),
    ("events=5 pace=50s", Finding.TOO_SLOW, ALL),
]
ROWS = [
    pytest.param(protocol, script, finding, id=f"{script.replace(' ', '_')}-{protocol}")
    for script, finding, protocols in SCENARIOS
    for protocol in Protocol
    if protocol in protocols
]


@asynccontextmanager
async def simulated(script="events=3", **channel):
    """(a function that probes in a protocol, the simulated network); no connection is left behind."""
    config = settings()
    config["channels"]["one"] |= channel
    catalogue = build(config).catalogue

    async with trio.open_nursery() as nursery:
        network = Simulated(nursery, {"provider.test": scripted(script)})
        async with Upstream(network.connect) as upstream:

            async def run(protocol, **changes):
                used = msgspec.structs.replace(catalogue.channels["one"], **changes)
                return await probe(upstream, used, catalogue.models["m"], protocol)

            yield run, network
            await trio.sleep(limits.POOL_FINISH_S + 0.1)
            assert upstream.busy == 0
        nursery.cancel_scope.cancel()


def bodies(network):
    return [json.loads(seen.body) for seen in network.providers["provider.test"].seen]


@pytest.mark.parametrize(("protocol", "script", "finding"), ROWS)
async def test_each_failure_of_the_simulator_has_its_verdict(protocol, script, finding, autojump_clock):
    async with simulated(script) as (run, _):
        result = await run(protocol)
    assert (result.finding, result.certified) == (finding, finding is Finding.CERTIFIED)
    assert result.words.startswith(words_for(finding))


async def test_a_host_that_refuses_connections_is_told_from_one_that_fails(autojump_clock):
    async with simulated() as (run, network):
        network.providers.clear()
        result = await run(Protocol.CHAT)
    assert (result.finding, result.detail) == (Finding.UNREACHED, "connect: ConnectionRefusedError")


async def test_a_probe_leaves_nothing_to_the_collector(garbage, autojump_clock):
    async with simulated() as (run, _):
        garbage()
        await run(Protocol.CHAT)
        await trio.sleep(limits.POOL_FINISH_S + 0.1)
        assert garbage("hoptrio") == set()


@each_protocol
async def test_the_evidence_is_the_usage_object_as_received(protocol, autojump_clock):
    async with simulated("events=3 input=7 output=5") as (run, _):
        result = await run(protocol)
    assert (result.usage.all_input, result.usage.output) == (7, 5)
    assert {5, 7} <= set(numbers(json.loads(result.evidence)))
    assert result.duration_s < 1


@each_protocol
async def test_a_probe_is_one_small_request(protocol, autojump_clock):
    async with simulated() as (run, network):
        await run(protocol)
        assert network.asked("provider.test") == 1
        (body,) = bodies(network)
    assert list(numbers(body)) == [100], "the model's own limit is lower than a probe's"
    assert len(json.dumps(body)) < 250


def numbers(value):
    for member in value.values() if isinstance(value, dict) else ():
        if isinstance(member, int) and not isinstance(member, bool):
            yield member
        yield from numbers(member)


async def test_chat_tries_the_other_spellings_of_the_limit_where_one_is_refused(autojump_clock):
    async with simulated("fail=status:400") as (run, network):
        result = await run(Protocol.CHAT)
        spelled = [set(body) & {"max_tokens", "max_completion_tokens"} for body in bodies(network)]
    assert spelled == [{"max_completion_tokens"}, {"max_tokens"}, set()]
    assert (result.finding, result.detail) == (Finding.REFUSED, "HTTP 400")


@pytest.mark.parametrize(("include_usage", "finding"), [("ask", Finding.CERTIFIED), ("never", Finding.NO_USAGE)])
async def test_usage_is_asked_for_as_the_channel_says(include_usage, finding, autojump_clock):
    async with simulated() as (run, network):
        result = await run(Protocol.CHAT, include_usage=include_usage)
        (body,) = bodies(network)
    assert ("stream_options" in body) == (include_usage == "ask")
    assert result.finding is finding


async def test_it_is_over_in_time_however_long_the_provider_goes_on(autojump_clock):
    async with simulated("fail=pings@2") as (run, _):
        result = await run(Protocol.MESSAGES)
    assert result.duration_s == limits.PROBE_S


async def test_a_probe_that_is_cancelled_leaves_no_connection(autojump_clock):
    async with simulated("fail=silence@2") as (run, _):
        with trio.move_on_after(5):
            await run(Protocol.CHAT)


@pytest.mark.parametrize("secret", ["sk-provider-secret", "provider.test"])
@pytest.mark.parametrize("script", ["fail=status:401", "fail=status:400", "fail=error@2", "fail=close", "fail=html"])
async def test_no_words_hold_a_secret_an_address_or_a_providers_text(secret, script, autojump_clock):
    async with simulated(script) as (run, _):
        result = await run(Protocol.CHAT)
    assert secret not in result.words
    assert "simulated" not in result.words


def test_only_what_speaks_of_usage_or_of_the_channel_itself_proves_anything():
    proven = {finding for finding in Finding if weight_of(finding) is Weight.PROVES}
    usage = {Finding.NO_USAGE, Finding.INVALID_USAGE, Finding.ZERO_USAGE}
    assert proven == usage | {Finding.AUTH_REFUSED, Finding.MODEL_UNKNOWN}
    passing = {finding for finding in Finding if weight_of(finding) is Weight.PASSES}
    assert passing >= {Finding.RATE_LIMITED, Finding.PROVIDER_FAILED, Finding.UNREACHED, Finding.NO_HEAD}
