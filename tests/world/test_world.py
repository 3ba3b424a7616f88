"""The simulated world in the suite: a few thousand streams, and that a seed means the same each time.

A seed that fails here is met again by the command that the failure prints; more of them: ``python -m bench.world``.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.world import checks, declared, draw
from bench.world.campaign import WORLD_STREAMS, Failure, Part, live, parts, total
from bench.world.checks import Broken
from bench.world.invariants import events
from bench.world.world import World, run
from hoptrio.protocols.events import Protocol
from hoptrio.simulator.prompt import read_prompt
from hoptrio.simulator.script import parse_directive

ROOT = Path(__file__).resolve().parents[2]
#: By the beginnings of their names.
FAULTS = (
    "worker killed",
    "node killed",
    "node lost power",
    "node cut off",
    "crash loop",
    "rolling restart",
    "drain",
    "disk full",
    "database locked",
    "database away",
    "database losing answers",
    "hold released by hand",
)


@pytest.mark.timeout(180)
def test_three_worlds_meet_every_kind_of_fault_and_every_invariant_holds_in_them():
    worlds = [run(seed, 500) for seed in (2, 4, 11)]
    for summary in worlds:
        assert summary.streams == 500
        assert summary.settlements["captured"] > 20
        assert sum(summary.faults.values()) > 5
    added = total(worlds)
    assert [kind for kind in FAULTS if not any(name.startswith(kind) for name in added.faults)] == []
    assert added.checks.keys() == checks.NAMES
    assert {outcome.partition(":")[0] for outcome in added.settlements} == {"captured", "released", "released late"}


def test_a_seed_gives_the_same_world_in_every_process():
    command = "from bench.world.world import run; print(run(11, 100).digest)"
    other = subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, capture_output=True, text=True)
    assert run(11, 100).digest == other.stdout.strip()


def test_another_seed_gives_another_world():
    assert run(11, 30).digest != run(12, 30).digest


def test_a_campaign_is_the_same_however_it_is_split():
    worlds = [Part(seed, 20) for seed in (1, 2, 3)]
    alone = total([each for each in live(worlds, 1) if not isinstance(each, Failure)])
    assert total([each for each in live(worlds, 2) if not isinstance(each, Failure)]) == alone
    assert alone.streams == 60


def test_a_campaign_of_one_world_has_its_own_seed_and_others_derive_theirs():
    assert parts(9, 100) == [Part(9, 100)]
    worlds = parts(9, 2 * WORLD_STREAMS + 5)
    assert [each.streams for each in worlds] == [WORLD_STREAMS, WORLD_STREAMS, 5]
    assert len({each.seed for each in worlds}) == 3
    assert parts(worlds[1].seed, worlds[1].streams) == [worlds[1]]


# -- that it can fail -------------------------------------------------------------------------------------------------


def test_a_broken_invariant_names_the_stream_and_the_command_that_meets_it_again(monkeypatch):
    monkeypatch.setattr(declared.Usage, "cost", lambda usage, prices, bounds: -1)
    told = r"costs -1\nrequest \d+: (.|\n)*held (.|\n)*record: (.|\n)*python -m bench.world --seed 1 --streams 200"
    with pytest.raises(Broken, match=told) as first:
        run(1, 200)
    with pytest.raises(Broken) as second:
        run(1, 200)
    digests = [str(each.value).partition("digest ")[2].split()[0] for each in (first, second)]
    assert digests[0] == digests[1]


def test_an_end_before_its_settlement_is_noticed(monkeypatch):
    """The sharpest of the invariants is asked at each piece a client gets: without the settlement's mark it breaks."""
    answered = World.hold_answered

    def forgetful(world, row):
        answered(world, row)
        world._by_hold[row.hold.id].settled_at = None

    monkeypatch.setattr(World, "hold_answered", forgetful)
    with pytest.raises(Broken, match=r"before its settlement|not resolved"):
        run(1, 200)


# -- what it is made of -----------------------------------------------------------------------------------------------


def test_plans_are_drawn_over_all_protocols_fates_and_failures():
    rng = random.Random(0)
    plans = [draw.plan(rng, number, 9) for number in range(5000)]
    assert {plan.kind for plan in plans} == set(draw.KINDS)
    assert {plan.fate for plan in plans} == set(draw.FATES)
    failures = {parse_directive(plan.directive).fail.kind for plan in plans}
    assert failures >= {"none", "status", "no-head", "close", "not-http", "html", "json-error", "empty", "error"}
    assert failures >= {"failed", "failed-usage", "stray-error", "cut", "reset", "inside", "end", "silence", "comments"}
    assert failures >= {"pings", "no-terminal", "no-finish"}


PRICES = {"input": 1_000_000, "cached_input": 100_000, "cache_write": 2_000_000, "output": 3_000_000}


def test_the_declared_cost_follows_the_script_and_not_the_wire():
    prompt = read_prompt(Protocol.RESPONSES, "/responses", {}, b'{"input": "x", "stream": true}')
    script = parse_directive("events=3 input=20 cached=5 cache_write=2")
    usage = declared.usage(prompt, script)
    assert usage == declared.Usage(13, 5, 2, 3)
    assert usage.cost(PRICES, declared.Bounds(100, 100)) == 13 + 4 + 9 + 1


def test_of_too_much_the_dearest_is_charged_and_a_hold_is_all_at_the_dearest():
    usage = declared.Usage(13, 5, 2, 3)
    assert usage.cost(PRICES, declared.Bounds(4, 2)) == 2 * 2 + 2 * 1 + 2 * 3
    assert declared.Bounds(4, 2).cost(PRICES) == 4 * 2 + 2 * 3
    sent = b'{"contents": [], "generationConfig": {"candidateCount": 2, "maxOutputTokens": 7}}'
    prompt = read_prompt(Protocol.GEMINI, "/models/m:generateContent", {}, sent)
    assert declared.bounds(prompt, sent) == declared.Bounds(len(sent) + 64, 14)


def test_the_clients_parser_follows_the_standard():
    body = b"\xef\xbb\xbf: comment\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\n\revent: x\rdata: c\r\rdata: d"
    assert events(body, ended=False) == [b"a\nb", b"c"]
    assert events(body, ended=True) == [b"a\nb", b"c", b"d"]
