"""A retry is a request of its own only where the first came to nothing."""

from __future__ import annotations

from bench.books import Line
from bench.provider import Served
from bench.soak.again import with_second_requests

OTHER = Line(2, "req_2", "captured", 1, 1, 5, "captured", 5, 9, 5)
ORPHAN = Line(1, "req_1", "released", None, None, 0, "released", 0, 9, 0, "orphaned")
PAID = Line(1, "req_1", "captured", 1, 1, 5, "captured", 5, 9, 5)
SECOND = Line(1, "req_3", "captured", 1, 1, 5, "captured", 5, 9, 5)
REFUSED = Line(1, "req_4", "refused", None, None, None, None, 0, 0, 0)
SERVED = [Served(1, 1, 1, 3, "gone"), Served(2, 1, 1, 4, "complete"), Served(1, 1, 1, 5, "complete")]


def test_the_second_stands_for_an_orphan() -> None:
    told = with_second_requests([OTHER, ORPHAN], [SECOND], SERVED)
    assert set(told.lines) == {OTHER, SECOND}
    assert list(told.served) == SERVED[1:]
    assert told.wrong == ()


def test_a_second_one_beside_a_first_that_was_paid_is_wrong() -> None:
    assert with_second_requests([PAID], [SECOND], SERVED).wrong
    assert with_second_requests([], [SECOND], SERVED).wrong


def test_a_retry_that_was_refused_changes_nothing() -> None:
    told = with_second_requests([ORPHAN], [REFUSED], SERVED[:1])
    assert told.lines == (ORPHAN,)
    assert list(told.served) == SERVED[:1]
    assert told.wrong == ()


def test_two_dispatches_without_a_second_request_stay_two() -> None:
    assert len(with_second_requests([PAID], [], SERVED).served) == 3
