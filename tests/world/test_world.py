"""The simulated world in the suite: a few thousand streams, that a seed means the same each time, and that the world
notices what it is there for: each fault of the product that could move money wrongly is put in, one at a time.

A seed that fails here is met again by the command that the failure prints.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.world import checks, declared
from bench.world.campaign import WORLD_STREAMS, Failure, Part, live, parts, total
from bench.world.checks import Broken
from bench.world.world import World, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_invariant_holds(seed):
    summary = run(seed, 500)
    assert summary.streams == 500
    assert summary.settlements["captured"] > 20
    assert sum(summary.faults.values()) > 10
    assert summary.checks.keys() >= {checks.BALANCE, checks.ONCE, checks.AMOUNT, checks.SETTLED, checks.KEPT}


def test_the_seeds_of_the_suite_meet_every_kind_of_fault_and_look_at_every_invariant():
    added = total([run(seed, 400) for seed in range(21, 25)])
    kinds = ("worker killed", "node lost power", "node killed", "node cut off", "rolling restart", "drain")
    kinds += ("database locked", "database away", "database losing answers", "hold released by hand")
    for kind in kinds:
        assert any(name.startswith(kind) for name in added.faults), kind
    names = {value for name, value in vars(checks).items() if name.isupper()}
    assert added.checks.keys() >= names
    assert any(outcome.startswith("released late") for outcome in added.settlements)


def test_a_seed_gives_the_same_world_in_every_process():
    command = "from bench.world.world import run; print(run(11, 150).digest)"
    other = subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True, capture_output=True, text=True)
    assert run(11, 150).digest == other.stdout.strip() == run(11, 150).digest


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
