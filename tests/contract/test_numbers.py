"""The numbers of the contract page, said a second time by hand: other tests wait as long as `limits` says, so that one
that is changed there fails here. Numbers of contracts are in `test_table`, of configs in `tests/config`, of streams
without evidence in `tests/exchange/test_suspicion`."""

from __future__ import annotations

import pytest

from hoptrio import limits

NUMBERS = {
    # What is undelivered so long after the deadline is dropped.
    "DELIVERY_GRACE_S": 60,
    # Neither the ledger nor the journal: the stream fails.
    "SETTLE_S": 10,
    # A client that takes nothing has left, and so has one that lags beyond so many bytes.
    "WRITE_STALL_S": 30,
    "BACKLOG_BYTES_MAX": 4 * 1024 * 1024,
    # `response.failed` behind `error`.
    "RESPONSES_FAILED_S": 5,
    # Silence behind a finishReason.
    "GEMINI_TAIL_S": 30,
    # At most one probe of a pair.
    "PROBE_EVERY_S": 600,
    # `released_output_limit` is for a key, a model and so long.
    "RELEASED_WINDOW_S": 600,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_bound_is_the_one_that_the_page_says(name: str) -> None:
    assert getattr(limits, name) == NUMBERS[name]
