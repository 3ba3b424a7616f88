"""The core test: whatever happens at whichever step, a hold is resolved exactly once.

Each scenario is run whole once to count the scheduler's steps, then again for every k with the server's scope cancelled
at step k, as a bug, a shutdown past its grace or a supervisor would do it.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from hoptrio.ledger.model import RequestFilter
from tests.support.harness import PRICES, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import CHAT

SUCCESS = sse(*CHAT.opening, Pause(1), *CHAT.answer, *CHAT.closing, *CHAT.terminal)
#: Time that passes in silence is steps, too, of keepalives and of what looks around every few seconds: the clocks are
#: the shortest that let each of them pass a few times.
DEADLINE_S = 30
CONFIG = settings(
    models={"m": PRICES | {"stall_seconds": 10}},
    contracts={
        f"brief-{preset}": {"preset": preset, "deadline_seconds": DEADLINE_S} for preset in ("hoptrio", "hopbase")
    },
)
#: The provider's answers, one a request.
SCENARIOS = {
    "success": [SUCCESS],
    "disconnect": [sse(*CHAT.opening, Pause(2), *CHAT.answer, Pause(2), *CHAT.closing, *CHAT.terminal)],
    "cut": [sse(*CHAT.opening, Pause(1), CHAT.answer[0], Cut(), end=False)],
    "stall": [sse(*CHAT.opening, CHAT.answer[0], Hang())],
    "deadline": [sse(*CHAT.opening, *[each for _ in range(5) for each in (CHAT.answer[0], Pause(8))])],
    "success after an attempt that was cut": [sse(*CHAT.opening, Pause(1), Cut(), end=False), SUCCESS],
    "success after an attempt that stalled": [sse(*CHAT.opening, Hang()), SUCCESS],
    "success after an attempt that was refused": [plain(503, b"{}"), SUCCESS],
    "two attempts that fail": [[Cut()], sse(*CHAT.opening, Cut(), end=False)],
}
CAPTURED = [name for name in SCENARIOS if name.startswith(("success", "disconnect"))]


class CancelAt(trio.abc.Instrument):
    """Counts task steps from `arm` on, and cancels the armed scope at step `k`."""

    def __init__(self, k: int | None) -> None:
        self.k = k
        self.steps = 0
        self.scope: trio.CancelScope | None = None

    def arm(self, scope: trio.CancelScope) -> None:
        self.scope = scope

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.scope is None:
            return
        self.steps += 1
        if self.steps == self.k:
            self.scope.cancel()


async def play(name: str, instrument: CancelAt) -> None:
    contract = "brief-hopbase" if len(SCENARIOS[name]) > 1 else "brief-hoptrio"
    async with gateway(*SCENARIOS[name], config=CONFIG, contract=contract) as world:
        instrument.arm(world.connections.cancel_scope)
        client = await world.start("chat")
        with trio.move_on_after(1 if name == "disconnect" else 4 * DEADLINE_S):
            await client.read()
        await client.leave()
        await trio.sleep(DEADLINE_S + 10)
        await check(world, name, untouched=instrument.k is None)


async def check(world, name, *, untouched):
    records = await world.ledger.requests(RequestFilter())
    assert len(records) <= 1
    report = await world.ledger.audit()
    assert report.ok, report.violations
    assert report.open_holds == 0
    assert report.captured + report.released == len([each for each in records if each.hold_nanos])
    account = await world.ledger.account("acme")
    assert account.held_nanos == 0
    charged = sum(each.charge_nanos or 0 for each in records)
    # Under hopbase what was said before the cancellation is charged, too: one token of input, one of output.
    produced = (3_000,) if len(SCENARIOS[name]) > 1 else ()
    assert charged in (0, CHAT.charge_nanos, *produced)
    assert world.gateway.load.running("one") == 0
    assert account.balance_nanos == 1000 * 10**9 - charged
    if untouched:
        assert records[0].state == ("captured" if name in CAPTURED else "released")
        assert records[0].attempts == len(SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
def test_exactly_one_settlement_at_each_step(name):
    whole = CancelAt(None)
    trio.run(play, name, whole, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[whole])
    assert whole.steps > 50
    for k in range(1, whole.steps + 1):
        cancelled = CancelAt(k)
        trio.run(play, name, cancelled, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[cancelled])
