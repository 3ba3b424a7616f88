"""Measuring what was produced: reported numbers stand, large texts do not hold up the loop, time is bounded."""

from __future__ import annotations

import itertools
import threading
import time

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from hoptrio import limits
from hoptrio.exchange import measure as module
from hoptrio.exchange.measure import measure
from hoptrio.metering.charge import Bounds, charge
from hoptrio.metering.evidence import usage
from hoptrio.metering.price import Prices, PriceTables
from hoptrio.protocols.events import Counts, Protocol

ASKED = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("reported", "produced", "expected"),
    [
        (None, (), (1, 0, True)),
        (None, ("Hello", "fox"), (1, 2, True)),
        (Counts(input=9), ("Hello",), (9, 1, True)),
        (Counts(input=9, output=0), ("Hello",), (9, 1, True)),
        (Counts(output=4), (), (1, 4, True)),
        (Counts(input=9, output=4), ("Hello",), (9, 5, True)),
        (Counts(input=9, output=4), (), (9, 4, False)),
        (Counts(input=0, output=0), (), (0, 0, False)),
    ],
)
async def test_what_was_reported_stands_and_what_was_not_is_measured(reported, produced, expected):
    counts, estimated = await measure(reported, produced, ASKED, 10)
    assert (counts.input, counts.output, estimated) == expected


async def test_a_total_still_adds_up_with_what_was_measured():
    counts, _ = await measure(Counts(input=9, output=4, total=13), ("Hello",), ASKED, 10)
    assert usage(counts, Protocol.CHAT, answered=True).flags == ()


async def test_everything_else_that_was_reported_is_kept():
    counts, _ = await measure(Counts(input=9, cached=3, tier="priority", raw=b"{}"), ("Hello",), ASKED, 10)
    assert (counts.cached, counts.tier, counts.raw) == (3, "priority", b"{}")


async def test_a_large_answer_is_measured_beside_the_loop():
    """Two megabytes that are hard to tokenize; the loop goes on while a thread counts."""
    text = "".join(itertools.islice(itertools.cycle("qzxjkvwpy"), 2_000_000))
    gaps, over = [], False

    async def beat():
        while not over:
            before = time.perf_counter()
            await trio.sleep(0.001)
            gaps.append(time.perf_counter() - before)

    await measure(None, ("warm",), ASKED, 10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        counts, _ = await measure(Counts(input=1), (text,), ASKED, 10)
        over = True
    assert counts.output > 200_000
    assert len(gaps) > 5


async def test_what_is_not_measured_in_time_is_not_charged(monkeypatch):
    started, leave = trio.Event(), threading.Event()

    def slow(*_):
        trio.from_thread.run_sync(started.set)
        leave.wait()

    monkeypatch.setattr(module, "count_tokens", slow)
    monkeypatch.setattr(limits, "MEASURE_S", 0.01)
    large = ("x" * (limits.MEASURE_INLINE_BYTES_MAX + 1),)
    try:
        assert await measure(None, large, ASKED, 10) is None
        counts, estimated = await measure(Counts(input=9), large, ASKED, 10)
        assert (counts.input, counts.output, estimated) == (9, 0, False)
        await started.wait()
    finally:
        leave.set()


TABLES = PriceTables(Prices(input=1_000, output=9_000, cached_input=10, cache_write=2_000, cache_write_1h=3_000))
tokens = st.none() | st.integers(0, 10**7)


@given(
    st.builds(Counts, input=tokens, output=tokens, total=tokens, cached=tokens, cache_write=tokens, reasoning=tokens),
    st.lists(st.text(max_size=40), max_size=4),
    st.sampled_from(Protocol),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**9),
)
def test_a_charge_for_what_was_produced_never_exceeds_its_hold(counts, produced, protocol, inputs, outputs, hold):
    measured = module._complete(counts, produced, ASKED)
    counted = usage(measured.counts, protocol, answered=True)
    bounds = Bounds(input_tokens=inputs, output_tokens=outputs, hold_nanos=hold)
    due = charge(counted, TABLES, bounds)
    assert 0 <= due.amount_nanos <= hold
    assert due.amount_nanos <= -(-(inputs * 3_000 + outputs * 9_000) // 10**6)
