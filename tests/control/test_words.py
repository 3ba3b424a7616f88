"""How values read."""

from __future__ import annotations

import pytest

from hoptrio.control.dashboard.words import UNKNOWN, amount, count, failure_words, many, moment, since, span, when


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, UNKNOWN), (0, "0 s"), (0.0, "0 ms"), (0.34, "340 ms"), (1.0, "1.0 s"), (5, "5 s"), (59.94, "59.9 s"),
        (60.0, "1 min"), (125, "2 min 5 s"), (3599.6, "1 h"), (12_000, "3 h 20 min"), (200_000, "2 days"),
    ],
)  # fmt: skip
def test_spans_of_time(seconds, words):
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0"), (0.0, "0"), (0.25, "0.2"), (99.9, "99.9"), (100.4, "100"), (12_345, "12,345")]
)
def test_counts(number, words):
    assert count(number) == words


def test_amounts_are_exact_and_the_unknown_is_a_dash():
    assert (amount(1), amount(-1_500_000_000), amount(0), amount(None)) == ("0.000000001", "-1.5", "0", UNKNOWN)


def test_times_are_utc():
    assert when(1_796_032_800_007) == moment("2026-11-30T10:00:00.007Z") == "2026-11-30 10:00:00"
    assert (since(1000, 61_000), since(5000, 1000)) == ("1 min ago", "0 ms ago")


def test_nouns_are_counted():
    assert (many(1, "row", "rows"), many(0, "row", "rows"), many(2000, "row", "rows")) == (
        "1 row",
        "0 rows",
        "2,000 rows",
    )


def test_a_reason_that_is_not_known_stands_as_it_is():
    assert (failure_words("stalled"), failure_words("model_not_found"), failure_words(None)) == (
        "stalled",
        "model not found",
        "",
    )
