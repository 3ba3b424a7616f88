"""The cases: all of the collection, each with streams that a provider can perform."""

from __future__ import annotations

import pytest

from hoptrio.conform.books import ACCOUNTS
from hoptrio.conform.cases import CASES, UNSEEN
from hoptrio.conform.settings import Settings
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.steps import Cut, End, Hang, Head, Reset

SETTINGS = Settings()
#: The collection's own numbers.
COLLECTION = {
    *(1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15, 17, 18, 20, 21, 22, 24, 25, 27, 28, 30, 31, 32, 34, 35, 37, 38, 40, 41, 42),
    *(44, 45, 47, 48, 50, 51, 52, 54, 55, 57, 58, 60, 61, 62, 64, 65, 67, 68, 70, 71, 72, 74, 75, 77, 78),
    *(80, 81, 82, 84, 85, 87, 88, 90, 91, 92, 94, 95, 97, 98, 100),
}


def plays(case):
    return [(protocol, play) for protocol in case.protocols for play in case.plays(protocol, SETTINGS)]


def test_every_fault_of_the_collection_is_tried_or_said_to_be_out_of_sight():
    numbers = [each.number for each in (*CASES, *ACCOUNTS, *UNSEEN)]
    assert len(numbers) == len(set(numbers))
    assert set(numbers) == COLLECTION


@pytest.mark.parametrize("case", [*CASES, *ACCOUNTS], ids=lambda case: f"{case.number}")
def test_a_case_is_told_in_one_sentence_each(case):
    for sentence in (case.fault, case.right):
        assert sentence.endswith(".")
        assert 10 < len(sentence) < 120
    assert len(case.name) < 45


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}")
def test_a_provider_can_perform_every_stream_of_a_case(case):
    for _, play in plays(case):
        assert (play.exact is None) != (play.script == "")
        if play.exact is None:
            parse_directive(play.script)
            continue
        first, *_, last = play.exact()
        assert isinstance(first, Head)
        assert isinstance(last, Cut | End | Hang | Reset)
        assert len(list(play.exact())) == len(list(play.exact()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}")
def test_a_stream_of_a_case_is_judged_and_told_from_the_others(case):
    for protocol in case.protocols:
        made = case.plays(protocol, SETTINGS)
        assert len({play.label for play in made}) == len(made)
        assert all(play.checks or play.money for play in made)


def test_how_long_a_run_takes_is_as_the_command_says():
    by_length = {case.number: case.seconds(SETTINGS) for case in CASES}
    assert {number for number, seconds in by_length.items() if seconds > 180} == {18}
    assert {number for number, seconds in by_length.items() if 15 < seconds <= 180} == {5, 11, 14, 15, 94}
