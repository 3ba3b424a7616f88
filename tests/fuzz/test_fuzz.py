"""The short form of `python -m tests.fuzz`: what is kept, and seeded changes to it, hold the invariants."""

from __future__ import annotations

import random

import pytest

from hoptrio.protocols.events import Protocol
from tests.fuzz import answers
from tests.fuzz.targets import CORPUS, TARGETS

CHANGES = {"splitter": 1500, "calls": 1500, "answers": 600, "edge": 150}
#: Of each pair of channel and client.
ODD = 120


def changed(data: bytes, dice: random.Random) -> bytes:
    """A few bytes set, taken out, or said twice."""
    out = bytearray(data or b"\0")
    for _ in range(dice.randrange(1, 6)):
        place, kind = dice.randrange(len(out)), dice.randrange(3)
        if kind == 0:
            out[place] = dice.randrange(256)
        elif kind == 1 and len(out) > 30:
            del out[place : place + dice.randrange(1, 20)]
        else:
            out[place:place] = out[dice.randrange(len(out)) :][:30]
    return bytes(out)


def play(target):
    for seed in target.seeds:
        target.one(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_holds_its_invariant(name):
    kept = sorted((CORPUS / name).iterdir())
    assert kept
    for file in kept:
        TARGETS[name].one(file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeded_changes_hold_the_invariant(name):
    target, dice = TARGETS[name], random.Random(7)
    for _ in range(CHANGES[name]):
        target.one(changed(dice.choice(target.seeds), dice))


@pytest.mark.parametrize("pair", range(len(answers.PAIRS)), ids=lambda at: "-".join(answers.PAIRS[at]))
def test_a_value_of_any_make_in_any_place_holds_the_invariant(pair):
    dice = random.Random(pair)
    for _ in range(ODD):
        answers.one(bytes([pair]) + answers.odd_stream(answers.PAIRS[pair][0], dice))


@pytest.mark.parametrize("channel", list(Protocol))
def test_a_value_of_any_make_in_a_whole_answer_holds_the_invariant(channel):
    dice = random.Random(1)
    for client in Protocol:
        for _ in range(ODD if client != channel else 0):
            answers.whole(channel, client, answers.odd_body(channel, dice))


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("splitter", lambda body: body.replace(b"data", b"date")),
        ("answers", lambda body: body + b"data: [DONE]\n\n"),
    ],
)
def test_a_broken_invariant_is_noticed(name, broken, monkeypatch):
    module = __import__(f"tests.fuzz.{name}", fromlist=["one"])
    honest = module.standard
    monkeypatch.setattr(module, "standard", lambda body: honest(broken(body)))
    with pytest.raises(AssertionError):
        play(TARGETS[name])
