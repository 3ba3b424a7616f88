"""A key's budget by day and by month, through the whole gateway, while the calendar moves."""

from __future__ import annotations

import pytest

from tests.support.harness import gateway
from tests.support.provider import sse
from tests.support.streams import SAMPLES

DAY_MS = 86_400_000
#: 2026-11-30, noon: the last day of a month.
NOON_MS = 1_796_040_000_000


class Calendar:
    def __init__(self) -> None:
        self.at_ms = NOON_MS

    def __call__(self) -> int:
        return self.at_ms


@pytest.mark.parametrize(
    ("per", "same_ms", "next_ms"), [("day", DAY_MS // 4, DAY_MS // 2), ("month", DAY_MS // 4, DAY_MS)]
)
async def test_a_budget_is_spent_in_its_period_and_there_again_in_the_next(per, same_ms, next_ms, autojump_clock):
    calendar = Calendar()
    scripts = [sse(*SAMPLES["chat"].events) for _ in range(3)]
    async with gateway(*scripts, now_ms=calendar) as house:
        first = await house.call()
        hold, charge = (await house.record(first)).hold_nanos, (await house.record(first)).charge_nanos
        _, secret = await house.ledger.create_key("acme", budget_nanos=hold + charge - 1, budget_per=per)
        assert (await house.call(secret=secret)).status == 200
        refused = await house.call(secret=secret)
        assert (refused.status, b"budget" in refused.body) == (402, True)
        calendar.at_ms += same_ms
        assert (await house.call(secret=secret)).status == 402
        calendar.at_ms += next_ms - same_ms
        assert (await house.call(secret=secret)).status == 200
        assert (await house.ledger.audit()).violations == ()
