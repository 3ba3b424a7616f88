"""The language of the ``sim:`` line."""

from __future__ import annotations

import pytest

from hoptrio.simulator.script import (
    LANGUAGE,
    DirectiveError,
    Failure,
    Script,
    find_directive,
    parse_directive,
)


def test_a_text_without_a_line_has_no_directive():
    assert find_directive("tell me about sim: cards") is None


def test_the_line_may_stand_anywhere_in_the_text():
    assert find_directive("hello\n  sim: events=3\nbye") == "events=3"


def test_pairs_and_json_mean_the_same():
    pairs = parse_directive("events=5 pace=20ms fail=cut@3 wire=crlf,split")
    json = parse_directive('{"events": 5, "pace": "20ms", "fail": "cut@3", "wire": ["crlf", "split"]}')
    assert pairs == json
    assert pairs == Script(events=5, pace_s=0.02, fail=Failure("cut", "", 3), wire=frozenset({"crlf", "split"}))


def test_quotes_hold_a_text_together():
    assert parse_directive("text='hello, world' events=2").text == "hello, world"


@pytest.mark.parametrize(("written", "seconds"), [("20ms", 0.02), ("1.5s", 1.5), ("3", 3.0), ("0", 0.0)])
def test_durations(written, seconds):
    assert parse_directive(f"delay={written}").delay_s == seconds


@pytest.mark.parametrize(
    ("written", "failure"),
    [
        ("cut", Failure("cut", "", 1)),
        ("cut@0", Failure("cut", "", 0)),
        ("error:overloaded_error@open", Failure("error", "overloaded_error", "open")),
        ("status:429", Failure("status", "429", 1)),
        ("silence@done", Failure("silence", "", "done")),
        ("none", Failure("none")),
    ],
)
def test_failures(written, failure):
    assert parse_directive(f"fail={written}").fail == failure


@pytest.mark.parametrize(
    "directive",
    [
        "evnts=3",
        "events",
        "events=-1",
        "events=99999999",
        "batch=0",
        "pace=fast",
        "pace=9999s",
        "fail=explode",
        "fail=status",
        "fail=status:99",
        "fail=cut@never",
        "usage=much",
        "wire=crlf,odd",
        "args=[1]",
        "cuts=random",
        "text='open",
        '{"events": }',
        "[1]",
    ],
)
def test_a_line_that_cannot_be_read_is_refused(directive):
    with pytest.raises(DirectiveError):
        parse_directive(directive)


def test_the_help_names_every_key():
    keys = {field.removesuffix("_s") for field in Script.__struct_fields__}
    assert [key for key in sorted(keys) if f"{key}=" not in LANGUAGE] == []
