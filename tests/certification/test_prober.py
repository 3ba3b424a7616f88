"""The prober of a gateway in virtual time: who is probed when, and who gets streams."""

from __future__ import annotations

import pytest
import structlog
import trio

from hoptrio import limits
from hoptrio.certification.finding import Finding
from hoptrio.config import build
from hoptrio.ledger.model import Probed, RequestFilter
from hoptrio.ledger.operations import BeginProbe, EndProbe
from hoptrio.ledger.store import StoreUnavailable
from tests.certification.conftest import SILENT, WORKS, channel
from tests.support.harness import CHAT, PRICES, settings

DAY_S = 86_400.0
NOT_STREAMING = {key: value for key, value in CHAT.items() if key not in ("stream", "stream_options")}
MESSAGES = {"model": "m", "stream": True, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def long(monkeypatch):
    """For tests of days, which a look every two seconds makes slow."""
    monkeypatch.setattr(limits, "CERTIFICATES_S", 30.0)


async def ready(process):
    response = await process.world.get("/readyz")
    return response.status, response.json["probing"]


async def findings(process):
    return {row.probed.channel: row.finding for row in await process.world.ledger.probes()}


# -- who gets streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", ["hoptrio", "anypath"])
async def test_an_uncertified_channel_never_receives_a_stream_on_a_shared_route(site, contract, autojump_clock):
    site.plays(good=WORKS, silent=SILENT)
    channels = {"good": channel("good.test"), "silent": channel("silent.test", priority=9, weight=100)}
    async with site.process(contract, **channels) as process:
        await process.round()
        assert await process.streams(20) == [200] * 20
    assert (site.asked("good"), site.asked("silent")) == (1 + 20, 1)


async def test_under_a_contract_that_does_not_ask_for_certificates_it_may(site, autojump_clock):
    site.plays(silent=SILENT)
    async with site.process("hopbase", silent=channel("silent.test")) as process:
        await process.round()
        assert await process.streams(5) == [200] * 5
    assert site.asked("silent") == 1 + 5


async def test_where_no_channel_is_certified_nothing_is_asked(site, autojump_clock):
    site.plays(silent=SILENT)
    async with site.process(silent=channel("silent.test")) as process:
        await process.round()
        response = await process.world.call()
        assert (response.status, response.json["error"]["code"]) == (503, "model_unavailable")
        assert response.headers["x-should-retry"] == "false"
        assert "certified" in response.json["error"]["message"]
        assert (await process.world.only_record()).state == "refused"
    assert site.asked("silent") == 1


async def test_a_stream_before_the_first_probe_is_over_goes_nowhere(site, autojump_clock):
    site.plays(good="events=3 pace=1s")
    async with site.process(good=channel("good.test")) as process:
        await trio.sleep(0.5)
        response = await process.world.call()
        assert (response.status, response.json["error"]["code"]) == (503, "model_unavailable")
        assert response.json["error"]["message"] == "The channels of the model 'm' are not certified yet."
        assert ("x-should-retry" in response.headers, response.headers["retry-after"]) == (False, "3")
        await process.round()
        assert await process.streams() == [200]
    assert site.asked("good") == 2


async def test_what_does_not_stream_needs_no_certificate(site, autojump_clock):
    site.plays(silent=SILENT)
    async with site.process(silent=channel("silent.test")) as process:
        await process.round()
        assert await process.streams(body=NOT_STREAMING) != [503]
    assert site.asked("silent") == 2


async def test_a_dedicated_route_needs_none_and_is_not_probed(site, autojump_clock):
    site.plays(silent=SILENT)
    async with site.process(silent=channel("silent.test", route="dedicated", accounts=["acme"])) as process:
        await process.round()
        assert site.asked("silent") == 0
        assert await process.streams(3) == [200] * 3


async def test_usage_in_one_protocol_proves_nothing_of_another(site, autojump_clock):
    site.plays(good=WORKS, silent=SILENT)
    urls = {"chat": "http://silent.test/v1", "messages": "http://good.test"}
    async with site.process(both=channel("x", protocols=["chat", "messages"], base_url=urls)) as process:
        await process.round()
        assert await process.streams(3) == [503] * 3
        assert await process.streams(3, kind="messages", body=MESSAGES) == [200] * 3
    assert (site.asked("silent"), site.asked("good")) == (1, 1 + 3)


# -- the first round ----------------------------------------------------------------------------------------------


async def test_a_gateway_is_ready_once_its_first_round_is_over(site, autojump_clock):
    site.plays(good="events=3 pace=1s", silent=SILENT)
    async with site.process(good=channel("good.test"), silent=channel("silent.test")) as process:
        await trio.sleep(1)
        assert await ready(process) == (503, True)
        await process.round()
        assert await ready(process) == (200, False)
        assert 2 < trio.current_time() < 5


async def test_told_not_to_it_probes_nothing_and_is_ready_at_once(site, long, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(unasked=False, good=channel("good.test")) as process:
        await process.round()
        assert trio.current_time() < 1
        assert await ready(process) == (200, False)
        assert await process.streams() == [503]
        await trio.sleep(2 * DAY_S)
    assert site.asked("good") == 0


async def test_a_probe_costs_nobody_anything(site, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(good=channel("good.test", supplier="acme", revenue_share="0.5")) as process:
        await process.round()
        report = await process.world.ledger.audit()
        assert (report.ok, report.entries, report.open_holds, report.captured, report.released) == (True, 1, 0, 0, 0)
        assert await process.world.ledger.requests(RequestFilter()) == []
        (row,) = await process.world.ledger.usage_evidence()
    assert (row.probed, row.kind) == (Probed("good", "m", "chat"), "sse_terminal")
    assert '"completion_tokens":3' in row.evidence
    assert row.target == "m at http://good.test/v1"


async def test_processes_of_one_ledger_probe_once_and_all_wait_for_it(site, autojump_clock):
    site.plays(good="events=3 pace=1s", silent=SILENT)
    channels = {"good": channel("good.test"), "silent": channel("silent.test")}
    async with site.process(**channels) as one, site.process(**channels) as two, site.process(**channels) as three:
        await trio.sleep(1)
        assert [(await ready(each))[0] for each in (one, two, three)] == [503] * 3
        for each in (one, two, three):
            await each.round()
        assert trio.current_time() < 3
        assert [await each.streams() for each in (one, two, three)] == [[200]] * 3
    assert (site.asked("good"), site.asked("silent")) == (1 + 3, 1)


async def test_a_round_is_not_over_before_what_another_process_proved_is_known(site, monkeypatch, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(good=channel("good.test")) as process:
        await process.round()
        (probe,), (proven,) = site.store.probes(), site.store.usage_evidence()
    site.store.apply([EndProbe(probed=probe.probed, probe=probe.probe, finding="", revokes=True)])
    claim = BeginProbe(probed=probe.probed, probe="theirs", owner="another machine", setup=probe.setup, every_ms=0)
    end = EndProbe(
        probed=probe.probed,
        probe="theirs",
        finding=Finding.CERTIFIED,
        target=proven.target,
        evidence="{}",
        valid_ms=1000 * int(DAY_S),
    )
    assert site.store.apply([claim]) == [True]
    ended = []

    def ends_after(read):
        def reading():
            rows = read()
            if not ended:
                ended.extend(site.store.apply([end]))
            return rows

        return reading

    async with site.process(good=channel("good.test")) as process:
        monkeypatch.setattr(site.store, "probes", ends_after(site.store.probes))
        monkeypatch.setattr(site.store, "usage_evidence", ends_after(site.store.usage_evidence))
        await process.round()
        assert await process.streams() == [200]
    assert ended


async def test_a_process_that_stops_leaves_its_probe_to_the_next(site, autojump_clock):
    site.plays(good="events=3 pace=1s")
    async with site.process(good=channel("good.test")):
        await trio.sleep(1)
    site.plays(good=WORKS)
    async with site.process(good=channel("good.test")) as process:
        await process.round()
        assert trio.current_time() < 3
        assert await process.streams() == [200]
    assert site.asked("good") == 3


async def test_a_probe_whose_process_vanished_holds_the_round_up_only_for_so_long(site, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(good=channel("good.test")) as process:
        await process.round()
        (row,) = await process.world.ledger.probes()
        await process.world.ledger.end_probe(EndProbe(probed=row.probed, probe="by hand", finding="", revokes=True))
        await process.world.ledger.begin_probe(
            BeginProbe(probed=row.probed, probe="lost", owner="another machine", setup=row.setup, every_ms=0)
        )
    lost_at = trio.current_time()
    async with site.process(good=channel("good.test")) as process:
        await trio.sleep(limits.PROBE_CLAIM_S - 1)
        assert await ready(process) == (503, True)
        await trio.sleep(2)
        assert await ready(process) == (200, False)
        assert trio.current_time() < lost_at + limits.PROBE_CLAIM_S + 2
    assert site.asked("good") == 2


async def test_no_ledger_no_round(site, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(good=channel("good.test")) as process:
        site.store.outage = StoreUnavailable("gone")
        with structlog.testing.capture_logs() as logged:
            await trio.sleep(5)
            assert process.world.gateway.probing
            assert site.asked("good") == 0
            site.store.outage = None
            await trio.sleep(3)
        assert await process.streams() == [200]
        said = [line["event"] for line in logged if line["event"].startswith("certificates")]
        assert said == [
            "certificates cannot be read now; those that are known stand",
            "certificates can be read again",
        ]


async def test_a_config_is_taken_over_though_the_ledger_is_away(site, autojump_clock):
    """A reload in an outage is not lost: whoever waits for the round waits so long and no longer."""
    site.plays(good=WORKS, new=WORKS)
    async with site.process(good=channel("good.test")) as process:
        await process.round()
        site.store.outage = StoreUnavailable("gone")
        began_at = trio.current_time()
        await process.prober.prepare(process.world.gateway.catalogue)
        assert trio.current_time() == pytest.approx(began_at + limits.ROUND_S, abs=0.5)
        site.store.outage = None
        await trio.sleep(limits.CERTIFICATES_S + 1)
        assert await ready(process) == (200, False)


@pytest.mark.parametrize("script", ["fail=no-head", "fail=pings@2"])
async def test_a_provider_that_hangs_does_not_hold_up_the_start_for_ever(site, script, autojump_clock):
    site.plays(good=WORKS, bad=script)
    async with site.process(good=channel("good.test"), bad=channel("bad.test")) as process:
        await process.round()
        assert trio.current_time() == pytest.approx(limits.ROUND_S, abs=0.5)
        assert await process.streams() == [200]
        assert process.world.gateway.probing
        await trio.sleep(limits.PROBE_S)
        assert await ready(process) == (200, False)


# -- again and again ----------------------------------------------------------------------------------------------


async def test_a_certificate_is_renewed_before_it_runs_out(site, long, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(valid_days=1, good=channel("good.test")) as process:
        await process.round()
        for days in range(1, 4):
            await trio.sleep(DAY_S - trio.current_time() % DAY_S)
            assert site.asked("good") == 2 * days
            assert await process.streams() == [200]


async def test_a_renewal_that_meets_a_rate_limit_costs_the_channel_nothing_until_it_expires(site, long, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(valid_days=1, good=channel("good.test")) as process:
        await process.round()
        site.plays(good="fail=status:429")
        await trio.sleep(0.95 * DAY_S)
        assert await findings(process) == {"good": Finding.RATE_LIMITED}
        assert await process.streams() == [429]
        await trio.sleep(0.05 * DAY_S)
        assert await process.streams() == [503]
        site.plays(good=WORKS)
        await trio.sleep(limits.PROBE_EVERY_S + 35)
        assert await process.streams() == [200]


async def test_a_renewal_that_finds_no_usage_ends_it_at_once(site, long, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(valid_days=1, good=channel("good.test")) as process:
        await process.round()
        site.plays(good=SILENT)
        await trio.sleep(0.91 * DAY_S)
        assert await findings(process) == {"good": Finding.NO_USAGE}
        assert await process.streams() == [503]


async def test_a_renewal_that_breaks_off_is_one_bad_moment(site, long, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(valid_days=1, good=channel("good.test")) as process:
        await process.round()
        site.plays(good="fail=cut@1")
        await trio.sleep(0.91 * DAY_S)
        assert await findings(process) == {"good": Finding.CUT}
        site.plays(good=WORKS)
        assert await process.streams() == [200]


@pytest.mark.parametrize(
    ("script", "wait_s"),
    [("fail=status:503", limits.PROBE_EVERY_S), ("fail=cut@1", limits.PROBE_EVERY_S), (SILENT, limits.PROBE_PROVEN_S)],
)
async def test_what_failed_is_probed_again_later(site, script, wait_s, autojump_clock):
    site.plays(bad=script)
    async with site.process(bad=channel("bad.test")) as process:
        await process.round()
        site.plays(bad=WORKS)
        await trio.sleep(wait_s - 10)
        assert (site.asked("bad"), await process.streams()) == (1, [503])
        await trio.sleep(20)
        assert await process.streams() == [200]


async def test_a_provider_that_starts_after_its_gateway_is_found_soon(site, autojump_clock):
    async with site.process(late=channel("late.test")) as process:
        await process.round()
        assert await findings(process) == {"late": Finding.UNREACHED}
        site.plays(late=WORKS)
        await trio.sleep(limits.PROBE_UNREACHED_S + limits.CERTIFICATES_S + 1)
        assert await process.streams() == [200]


@pytest.mark.parametrize(("max_streams", "at_once"), [(2, 2), (500, limits.PROBES_OF_CHANNEL_MAX)])
async def test_a_channel_is_probed_by_no_more_streams_than_it_may_run(site, max_streams, at_once, autojump_clock):
    site.plays(one="events=2 pace=1s")
    names = [f"m{number}" for number in range(16)]
    models = {name: PRICES for name in ("m", *names)}
    async with site.process(models=models, one=channel("one.test", models=names, max_streams=max_streams)) as process:
        await trio.sleep(0.9)
        assert site.asked("one") == at_once
        await process.round()
        assert site.asked("one") == 16


async def test_a_certificate_of_another_process_is_felt_within_seconds(site, autojump_clock):
    site.plays(good=WORKS)
    async with site.process(unasked=False, good=channel("good.test")) as told_not_to:
        assert await told_not_to.streams() == [503]
        async with site.process(good=channel("good.test")) as other:
            await other.round()
        await trio.sleep(limits.CERTIFICATES_S + 0.1)
        assert await told_not_to.streams() == [200]


# -- what the config says -----------------------------------------------------------------------------------------


async def test_a_channel_at_another_address_is_uncertified_again(site, autojump_clock):
    site.plays(good=WORKS, silent=SILENT)
    async with site.process(one=channel("good.test")) as process:
        await process.round()
    async with site.process(one=channel("silent.test")) as process:
        await process.round()
        assert await process.streams() == [503]
    assert (site.asked("good"), site.asked("silent")) == (1, 1)


async def test_another_key_is_probed_at_once_where_the_old_one_was_refused(site, autojump_clock):
    site.plays(one="fail=status:401")
    async with site.process(one=channel("one.test")) as process:
        await process.round()
        assert await findings(process) == {"one": Finding.AUTH_REFUSED}
    site.plays(one=WORKS)
    async with site.process(one=channel("one.test", api_key="sk-the-right-one")) as process:
        await process.round()
        assert await process.streams() == [200]


async def test_a_new_config_is_probed_before_it_is_taken_over(site, autojump_clock):
    site.plays(good=WORKS, new="events=3 pace=1s")
    catalogue = build(settings(channels={"new": channel("new.test")})).catalogue
    async with site.process(good=channel("good.test")) as process:
        await process.round()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.prober.prepare, catalogue)
            await trio.sleep(1)
            assert await process.streams() == [200]
        process.world.gateway.catalogue = catalogue
        assert await process.streams() == [200]
    assert site.asked("new") == 1 + 1, "a probe and a stream"


# -- live streams -------------------------------------------------------------------------------------------------


async def two_accounts(process):
    await process.world.ledger.create_account("other", deposit_nanos=10**12)
    _, secret = await process.world.ledger.create_key("other", contract="hoptrio")
    return secret


async def test_live_streams_without_evidence_make_a_probe_decide(site, autojump_clock):
    site.plays(one=WORKS)
    async with site.process(one=channel("one.test")) as process:
        await process.round()
        other = await two_accounts(process)
        await trio.sleep(limits.PROBE_EVERY_S)
        site.plays(one=SILENT)
        assert await process.streams(2) == [200] * 2
        await trio.sleep(10)
        assert site.asked("one") == 1 + 2, "two are not enough"
        assert await process.streams(secret=other) == [200]
        await trio.sleep(limits.CERTIFICATES_S + 1)
        assert await findings(process) == {"one": Finding.NO_USAGE}
        assert await process.streams(3) == [503] * 3
    assert site.asked("one") == 1 + 3 + 1, "and the probe that decided"


async def test_ten_from_one_account_are_enough(site, autojump_clock):
    site.plays(one=WORKS)
    async with site.process(one=channel("one.test")) as process:
        await process.round()
        await trio.sleep(limits.PROBE_EVERY_S)
        site.plays(one="events=3 pace=1ms output=0")
        assert await process.streams(9) == [200] * 9
        await trio.sleep(10)
        assert site.asked("one") == 1 + 9
        await process.streams()
        await trio.sleep(limits.CERTIFICATES_S + 1)
        assert await findings(process) == {"one": Finding.ZERO_USAGE}
        assert await process.streams() == [503]


async def test_a_probe_that_succeeds_keeps_the_channel_and_comes_once_in_ten_minutes(site, autojump_clock):
    site.plays(one=WORKS)
    async with site.process(one=channel("one.test")) as process:
        await process.round()
        await trio.sleep(limits.PROBE_EVERY_S)
        provider = site.network.providers["one.test"]
        silent = {**CHAT, "messages": [{"role": "user", "content": f"sim: {SILENT}"}]}
        for minute in range(30):
            assert await process.streams(10, body=silent) == [200] * 10
            await trio.sleep(60)
            probes = provider.seen.count - 1 - 10 * (minute + 1)
            assert 1 <= probes <= 1 + minute // 10
        assert await process.streams() == [200]


async def test_a_doubt_is_enough_where_live_streams_have_one_and_a_rate_limit_is_not(site, autojump_clock):
    site.plays(one=WORKS)
    async with site.process(one=channel("one.test")) as process:
        await process.round()
        await trio.sleep(limits.PROBE_EVERY_S)
        site.plays(one="fail=cut@2 pace=1ms")
        await process.streams(10)
        site.plays(one="fail=status:429")
        await trio.sleep(limits.CERTIFICATES_S + 1)
        assert await findings(process) == {"one": Finding.RATE_LIMITED}
        assert await process.streams() == [429]
        site.plays(one="fail=cut@2 pace=1ms")
        await trio.sleep(limits.PROBE_EVERY_S)
        assert await findings(process) == {"one": Finding.CUT}
        assert await process.streams() == [503]
        site.plays(one=WORKS)
        await trio.sleep(limits.PROBE_EVERY_S + 35)
        assert await process.streams() == [200]
