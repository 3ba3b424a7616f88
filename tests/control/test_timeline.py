"""What the drawing of a request says of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hoptrio.control.dashboard.timeline import LEFT, draw

WHOLE = ((0, "held"), (2, "dispatched"), (300, "headers"), (400, "first_event"), (900, "terminal"), (1000, "ended"))


def spans(drawn):
    """(lane, kind, title) of the bars."""
    return [(bar.lane, bar.kind, bar.title) for bar in drawn.bars]


def test_a_stream_that_ended_well():
    drawn = draw(WHOLE, settled=(1010, "captured"))
    assert spans(drawn) == [
        ("hold", "", "Held: 1.0 s"),
        ("provider", "", "Waiting for the provider: 398 ms"),
        ("provider", "answer", "Answer: 600 ms"),
        ("client", "answer", "Client served: 610 ms"),
    ]
    assert [(row.at_ms, row.words) for row in drawn.rows] == [
        (0, "Hold placed"),
        (2, "Request sent to the provider"),
        (300, "Response head"),
        (400, "First event"),
        (900, "Terminal event"),
        (1000, "Provider's side over"),
        (1010, "Settled: charged"),
    ]


def test_gaps_and_keepalives_and_a_client_that_left():
    timeline = (*WHOLE[:4], (10_400, "keepalive"), (11_000, "gap 10600"), (12_000, "client_gone"), (13_000, "ended"))
    drawn = draw(timeline, settled=(13_001, "captured"))
    assert ("provider", "gap", "Silence: 10.6 s") in spans(drawn)
    assert ("client", "answer", "Client served: 11.6 s") in spans(drawn)
    assert [mark.title for mark in drawn.marks if mark.lane == "client"] == [
        "Keep-alive sent: 10.4 s",
        "Client gone; the provider is read on: 12.0 s",
    ]


def test_a_keepalive_before_the_first_event_begins_the_answer_for_the_client():
    drawn = draw(((0, "held"), (1, "dispatched"), (10_000, "keepalive"), (20_000, "keepalive")), running_ms=30_000)
    assert spans(drawn)[-1] == ("client", "answer", "Client served: 20.0 s")


def test_of_several_attempts_the_last_one_answers():
    timeline = (
        *((0, "held"), (1, "dispatched"), (5, "headers"), (6, "first_event")),
        *((9, "attempt_failed truncated one"), (10, "dispatched"), (15, "headers"), (20, "first_event"), (30, "ended")),
    )
    drawn = draw(timeline, settled=(31, "captured"))
    assert ("provider", "answer", "Answer: 10 ms") in spans(drawn)
    assert ("provider", "", "Waiting for the provider: 19 ms") in spans(drawn)
    assert (9, "Attempt failed: broken off by the provider (one)", "bad") in drawn.rows


def test_one_that_runs_is_drawn_until_now():
    assert draw(WHOLE[:4], running_ms=2000).bars[0].title == "Held: 2.0 s"


EVENTS = st.sampled_from(["held", "dispatched", "headers", "first_event", "keepalive", "gap 5", "client_gone", "ended"])


@given(st.lists(st.tuples(st.integers(5, 700_000), EVENTS | st.text(max_size=5))), st.none() | st.integers(0, 700_000))
def test_everything_is_inside_the_drawing(timeline, settled_ms):
    drawn = draw(timeline, settled=None if settled_ms is None else (settled_ms, "released"))
    for bar in drawn.bars:
        assert bar.x >= LEFT
        assert bar.width >= 1
        assert bar.x + bar.width <= drawn.right + 1.001
    assert all(LEFT <= each.x <= drawn.right + 1e-6 for each in [*drawn.marks, *drawn.ticks])
    assert 1 <= len(drawn.ticks) <= 12
    assert len(drawn.rows) == len(timeline) + (settled_ms is not None)


def test_a_narrow_drawing_has_fewer_ticks():
    wide, narrow = draw(WHOLE), draw(WHOLE, width=360)
    assert [tick.label for tick in narrow.ticks] == ["0 ms", "500 ms", "1.0 s"]
    assert len(wide.ticks) > len(narrow.ticks)
    assert [bar.title for bar in wide.bars] == [bar.title for bar in narrow.bars]


def test_what_came_in_one_read_is_told_in_the_order_in_which_it_came_about():
    drawn = draw(((1, "held"), (5, "terminal"), (5, "first_event"), (5, "ended")), settled=(5, "captured"))
    assert [row.words for row in drawn.rows] == [
        "Hold placed",
        "First event",
        "Terminal event",
        "Provider's side over",
        "Settled: charged",
    ]
