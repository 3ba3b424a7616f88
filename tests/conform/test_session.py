"""Whole runs: hoptrio passes them, and gateways with faults fail the cases that are about these faults."""

from __future__ import annotations

import pytest
import trio

from bench.process import free_port, module, running
from hoptrio.conform.cases import CASES
from hoptrio.conform.preflight import NotReady
from hoptrio.conform.report import has_failed
from hoptrio.conform.run import ACCOUNT
from hoptrio.conform.settings import Settings
from hoptrio.conform.verdict import Verdict
from hoptrio.protocols.events import Protocol
from tests.support.conforming import Place, by_number, hoptrio_at, swallowing, tried

#: For gateways that keep nothing alive.
SHORT = Settings(keepalive_s=1.0)
ALL_CORES = frozenset({0})


def chosen(*numbers):
    return tuple(case for case in CASES if case.number in numbers)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with hoptrio_at(tmp_path_factory.mktemp("conform")) as place:
        yield place


async def test_hoptrio_passes_every_quick_case_on_the_wire_and_in_the_books(ours):
    report = await tried(ours)
    wrong = [row for row in report.rows if row.verdict is not Verdict.PASS or row.money not in (None, Verdict.PASS)]
    assert wrong == []
    assert [row for row in report.rows if row.findings] == []
    assert (report.refused, has_failed(report)) == ({}, False)
    assert len(report.rows) > 140
    assert {row.number for row in report.rows if row.protocol == ACCOUNT} == {50, 72, 77, 78}


async def test_a_byte_relay_fails_what_takes_more_than_relaying():
    port = free_port()
    relay = module("bench.contestants.naive", f"127.0.0.1:{port}")
    with running("relay", relay, cores=ALL_CORES) as process:
        place = Place(f"http://127.0.0.1:{process.await_line(str.strip)}", "none", port)
        report = await tried(place, settings=SHORT)
    assert by_number(report, Verdict.FAIL) == {1, 10, 25, 34, 35, 47, 84, 97}
    assert by_number(report, Verdict.POLICY) == {7, 10, 11, 28, 30, 45, 48, 70, 75, 85}
    assert {row.money for row in report.rows} == {None, Verdict.NOT_REACHABLE}
    assert has_failed(report)


async def test_a_gateway_that_ends_what_broke_fails_every_case_about_breaks():
    async with swallowing() as place:
        report = await tried(place, cases=chosen(20, 21, 22, 24, 25, 27, 28, 31, 32, 34, 37, 38, 40, 42, 47, 80, 90))
    failed = {number: set() for number in by_number(report, Verdict.FAIL)}
    for row in report.rows:
        if row.verdict is Verdict.FAIL:
            failed[row.number].add(row.protocol)
    everywhere = {protocol.value for protocol in Protocol}
    assert {number for number, where in failed.items() if where == everywhere} == {21, 25, 28, 34, 37, 38, 42}
    assert failed.keys() == {21, 22, 25, 27, 28, 32, 34, 37, 38, 40, 42, 47}
    assert failed[27] == failed[32] == {"chat"}
    assert {row.money for row in report.rows if row.number != 77} == {None, Verdict.NOT_REACHABLE}


async def test_a_key_that_is_refused_is_said_before_anything_is_tried(ours):
    with pytest.raises(NotReady, match="refused the key with a 401"):
        await tried(Place(ours.url, "sk-wrong", ours.port))


async def test_a_provider_that_the_gateway_does_not_ask_is_said(ours):
    elsewhere = free_port()
    with pytest.raises(NotReady, match=f"no stream reaches the provider at 127.0.0.1:{elsewhere}"):
        await tried(Place(ours.url, ours.key, elsewhere), protocols=(Protocol.CHAT,))


async def test_nobody_behind_the_url_is_said():
    with pytest.raises(NotReady, match="is the gateway running, and is --url right"):
        await tried(Place(f"http://127.0.0.1:{free_port()}", "none", free_port()))


async def test_a_port_that_is_taken_is_said(ours):
    (taken,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with taken:
        port = taken.socket.getsockname()[1]
        with pytest.raises(NotReady, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            await tried(Place(ours.url, ours.key, port))


async def test_a_protocol_that_the_gateway_has_no_model_for_is_not_served_and_no_fault(ours):
    from hoptrio.conform.session import Plan, conduct
    from hoptrio.conform.target import target_at

    plan = Plan(
        target=target_at(ours.url, key=ours.key, model="conform-gemini"),
        listen=("127.0.0.1", ours.port),
        name="under test",
        cases=chosen(21, 41, 61),
    )
    report = await conduct(plan, lambda total: None, lambda row: None)
    assert report.refused.keys() == {"chat"}
    assert not has_failed(report)
    assert {row.verdict for row in report.rows if row.number == 41} == {Verdict.NOT_SERVED}
