"""What the overview makes of the figures of all workers."""

from __future__ import annotations

from hoptrio.control.dashboard.overview import ages, figures, plots, quantile
from hoptrio.control.dashboard.streams import standing
from hoptrio.control.dashboard.words import UNKNOWN
from hoptrio.telemetry.snapshot import LiveStream, Sample, snapshot
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram, Tally

HISTORY = [
    Sample(0, open=1, events=50, ended=5, failed=1, charged_nanos=10, first_event_s=3.0, first_events=2),
    Sample(5, open=2, events=100, charged_nanos=20, first_event_s=1.0, first_events=2),
    Sample(10, open=3, events=10, charged_nanos=0),
]


def told(history):
    return snapshot(Tally(), Histogram(BATCH_OPERATIONS), history=history)


def value(found, name):
    return next(each.value for each in found if each.name == name)


def test_figures_are_of_the_last_minute_and_exact():
    found = figures(told(HISTORY), 128_000_000, "USD")
    assert value(found, "Events a second") == "2"
    assert value(found, "Time to first event") == "1.0 s"
    assert value(found, "Charged") == "0.00000003"
    assert value(found, "Held") == "0.128"
    assert value(found, "Failed") == "1"


def test_a_gateway_that_has_just_begun_knows_nothing_yet():
    found = figures(told([]), 0, "USD")
    assert value(found, "Time to first event") == value(found, "Settlement") == UNKNOWN
    assert value(found, "Events a second") == "0"
    assert all(not each.plot.curve for each in plots([], "USD"))


def test_plots_have_the_newest_value_and_a_round_top():
    by_name = {each.name: each for each in plots(HISTORY, "USD")}
    assert (by_name["Streams open"].newest, by_name["Streams open"].top) == ("3", "5")
    assert (by_name["Events a second"].newest, by_name["Events a second"].top) == ("2", "20")
    # Nothing began in the last interval: the newest known value is older, and the line ends there.
    assert by_name["Time to first event"].newest == "500 ms"
    assert by_name["Charged a minute, USD"].newest == value(figures(told(HISTORY), 0, "USD"), "Charged")


def test_what_was_charged_leaves_the_plot_with_the_minute():
    history = [Sample(5 * i, charged_nanos=10**9 if i == 0 else 0) for i in range(13)]
    by_name = {each.name: each for each in plots(history[:12], "USD")}
    assert by_name["Charged a minute, USD"].newest == "1"
    by_name = {each.name: each for each in plots(history, "USD")}
    assert by_name["Charged a minute, USD"].newest == value(figures(told(history), 0, "USD"), "Charged") == "0"


def test_a_quantile_is_the_upper_bound_of_its_bucket():
    assert quantile([0, 0, 0], 0.5, [1, 2]) is None
    assert quantile([5, 5, 0], 0.5, [1, 2]) == 1
    assert quantile([5, 5, 0], 0.51, [1, 2]) == 2
    assert quantile([1, 0, 9], 0.95, [1, 2]) == float("inf")


def test_holds_are_told_by_age_and_one_beyond_the_deadline_is_bad():
    bars = ages({"10": 2, "60": 1, "600": 0, "900": 1, "older": 0})
    assert [(bar.name, bar.number, bar.percent, bar.bad) for bar in bars] == [
        ("up to 10 s", 2, 100.0, False),
        ("up to 1 min", 1, 50.0, False),
        ("up to 10 min", 0, 0.0, False),
        ("up to 15 min", 1, 50.0, True),
        ("over 15 min", 0, 0.0, True),
    ]


def live(*events, left=False):
    return LiveStream(
        "req_1", "acme", "key_1", "chat", "m", "c", "hoptrio", True, 0, 1, 0, left, [(0, event) for event in events]
    )


def test_a_stream_stands_where_its_timeline_says():
    assert standing(live())[0] == "admitted"
    assert standing(live("held", "dispatched"))[0] == "waiting"
    assert standing(live("held", "dispatched", "first_event"))[0] == "answering"
    assert standing(live("held", "dispatched", "first_event", left=True))[0] == "draining"
