"""The simulated world in the suite: a few thousand streams, and that a seed means the same each time.

A seed that fails here is met again by the command that the failure prints; more of them: ``python -m tests.world``.
"""

from __future__ import annotations

import random

import pytest

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.prompt import read_prompt
from hoptrio.simulator.script import parse_directive
from tests.world import declared, draw
from tests.world.invariants import events
from tests.world.world import Broken, World, run


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_invariant_holds(seed):
    summary = run(seed, 500)
    assert summary.streams >= 500
    assert summary.captured > 30
    assert summary.released > 30


def test_a_seed_gives_the_same_world_twice():
    assert run(11, 150) == run(11, 150)


def test_another_seed_gives_another_world():
    assert run(11, 30).digest != run(12, 30).digest


def test_a_broken_invariant_names_the_seed_the_position_and_the_history(monkeypatch):
    monkeypatch.setattr(declared.Usage, "cost", lambda usage, prices: -1)
    with pytest.raises(
        Broken, match=r"costs -1\nseed 1, 200 streams, position \d+\nrequest \d+: (.|\n)*held (.|\n)*record: "
    ):
        run(1, 200)


def test_an_end_before_its_settlement_is_noticed(monkeypatch):
    """The sharpest of the invariants is asked at each piece a client gets: without the settlement's mark it breaks."""
    resolved = World._hold_resolved

    def forgetful(world, hold_id, operation):
        resolved(world, hold_id, operation)
        world._by_hold[hold_id].resolved_at = None

    monkeypatch.setattr(World, "_hold_resolved", forgetful)
    with pytest.raises(Broken, match=r"before its settlement|not resolved"):
        run(1, 200)


def test_plans_are_drawn_over_all_protocols_fates_and_failures():
    rng = random.Random(0)
    plans = [draw.plan(rng, number, 9) for number in range(5000)]
    assert {plan.kind for plan in plans} == set(draw.KINDS)
    assert {plan.fate for plan in plans} == set(draw.FATES)
    failures = {parse_directive(plan.directive).fail.kind for plan in plans}
    assert failures >= {"none", "status", "no-head", "close", "not-http", "html", "json-error", "empty", "error"}
    assert failures >= {"failed", "failed-usage", "stray-error", "cut", "reset", "inside", "end", "silence", "comments"}
    assert failures >= {"pings", "no-terminal", "no-finish"}


def test_the_declared_cost_follows_the_script_and_not_the_wire():
    prompt = read_prompt(Protocol.RESPONSES, "/responses", {}, b'{"input": "x", "stream": true}')
    script = parse_directive("events=3 input=20 cached=5 cache_write=2")
    usage = declared.usage(prompt, script)
    assert usage == declared.Usage(13, 5, 2, 3)
    prices = {"input": 1_000_000, "cached_input": 100_000, "cache_write": 2_000_000, "output": 3_000_000}
    assert usage.cost(prices) == 13 + 4 + 9 + 1


def test_the_clients_parser_follows_the_standard():
    body = b"\xef\xbb\xbf: comment\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\n\revent: x\rdata: c\r\rdata: d"
    assert events(body, ended=False) == [b"a\nb", b"c"]
    assert events(body, ended=True) == [b"a\nb", b"c", b"d"]
