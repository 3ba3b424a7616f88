"""Probes and their evidence, on every engine: one prober at a time, and rows that come, go and expire."""

from __future__ import annotations

import trio

from hoptrio.ledger.model import Probed, ProbeRow, UsageEvidence
from hoptrio.ledger.operations import BeginProbe, EndProbe
from tests.ledger.conftest import START_MS

CHAT = Probed("one", "m", "chat")
RESPONSES = Probed("one", "m", "responses")
EVERY_MS = 600_000
USAGE = '{"prompt_tokens":5,"completion_tokens":7}'


def begin(probe, probed=CHAT, **changes):
    return BeginProbe(
        **{"probed": probed, "probe": probe, "owner": "gateway", "setup": "s", "every_ms": EVERY_MS} | changes
    )


def end(probe, probed=CHAT, **changes):
    return EndProbe(**{"probed": probed, "probe": probe, "finding": "certified", "target": "t"} | changes)


def proof(probe, probed=CHAT, at_ms=START_MS, **changes):
    row = {"probed": probed, "target": "t", "evidence": USAGE, "observed_at_ms": at_ms, "probe": probe}
    return UsageEvidence(**row | {"expires_at_ms": at_ms + 1000} | changes)


async def test_a_probe_is_one_process_s_until_its_time_has_passed(engine, wall):
    async with engine.open("first") as one, engine.open("second") as two:
        assert await one.begin_probe(begin("a", owner="first"))
        assert not await two.begin_probe(begin("b", owner="second"))
        assert await two.begin_probe(begin("b", RESPONSES, owner="second"))
        wall.at_ms += EVERY_MS - 1
        assert not await two.begin_probe(begin("c"))
        wall.at_ms += 1
        assert await two.begin_probe(begin("c"))
        assert not await one.begin_probe(begin("d"))


async def test_a_claim_that_is_repeated_is_the_same_claim(ledger, wall):
    assert await ledger.begin_probe(begin("a"))
    wall.at_ms += 5
    assert await ledger.begin_probe(begin("a"))
    assert await ledger.probes() == [ProbeRow(probed=CHAT, probe="a", owner="gateway", setup="s", began_at_ms=START_MS)]


async def test_a_probe_whose_process_is_gone_does_not_count(ledger):
    await ledger.begin_probe(begin("a"))
    assert not await ledger.begin_probe(begin("b", instead_of="other"))
    assert await ledger.begin_probe(begin("b", instead_of="a"))


async def test_a_channel_that_was_configured_anew_is_probed_at_once(ledger):
    await ledger.begin_probe(begin("a"))
    assert await ledger.begin_probe(begin("b", setup="t"))
    assert not await ledger.begin_probe(begin("c", setup="t"))


async def test_a_probe_on_demand_never_waits(ledger):
    await ledger.begin_probe(begin("a"))
    assert await ledger.begin_probe(begin("b", every_ms=0))


async def test_what_was_seen_is_kept_with_its_probe_and_its_expiry(ledger, wall):
    await ledger.begin_probe(begin("a"))
    wall.at_ms += 300
    await ledger.end_probe(end("a", detail="HTTP 200", evidence=USAGE, valid_ms=1000))
    assert await ledger.usage_evidence() == [proof("a", at_ms=START_MS + 300)]
    (row,) = await ledger.probes()
    assert (row.began_at_ms, row.ended_at_ms, row.finding) == (START_MS, START_MS + 300, "certified")
    assert row.detail == "HTTP 200"


async def test_new_evidence_replaces_the_old_and_touches_no_other_protocol(ledger, wall):
    await ledger.end_probe(end("a", evidence="{}", valid_ms=1000))
    await ledger.end_probe(end("b", RESPONSES, evidence=USAGE, valid_ms=1000))
    wall.at_ms += 300
    await ledger.end_probe(end("c", evidence=USAGE, valid_ms=1000, target="u"))
    assert await ledger.usage_evidence() == [proof("c", at_ms=START_MS + 300, target="u"), proof("b", RESPONSES)]


async def test_only_a_finding_that_revokes_removes_the_row(ledger):
    await ledger.end_probe(end("a", evidence=USAGE, valid_ms=1000))
    await ledger.end_probe(end("b", RESPONSES, evidence=USAGE, valid_ms=1000))
    await ledger.end_probe(end("c", finding="rate_limited"))
    assert len(await ledger.usage_evidence()) == 2
    await ledger.end_probe(end("d", finding="no_usage", revokes=True))
    assert await ledger.usage_evidence() == [proof("b", RESPONSES)]


async def test_the_end_of_a_probe_that_was_overtaken_leaves_the_newer_one_running(ledger):
    await ledger.begin_probe(begin("a"))
    await ledger.begin_probe(begin("b", every_ms=0))
    await ledger.end_probe(end("a", finding="cut"))
    (row,) = await ledger.probes()
    assert (row.probe, row.ended_at_ms, row.finding) == ("b", None, "")


async def test_evidence_outlives_the_process(engine):
    async with engine.open() as ledger:
        await ledger.begin_probe(begin("a"))
        await ledger.end_probe(end("a", evidence=USAGE, valid_ms=1000))
    async with engine.open() as ledger:
        assert await ledger.usage_evidence() == [proof("a")]


async def test_of_many_that_claim_at_once_one_gets_it(engine):
    """Two nodes, eight claims each."""
    got = []

    async def claim(ledger, probe):
        if await ledger.begin_probe(begin(probe)):
            got.append(probe)

    async with engine.open("first") as one, engine.open("second") as two:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(claim, one, f"one {number}")
                nursery.start_soon(claim, two, f"two {number}")
        (row,) = await one.probes()
    assert got == [row.probe]
