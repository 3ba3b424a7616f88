"""Channels that an operator has taken out of service, on every engine."""

from __future__ import annotations

from hoptrio.ledger.model import PauseRow
from tests.ledger.conftest import START_MS


async def test_a_channel_is_paused_for_every_process_and_over_restarts(engine):
    async with engine.open("first") as one, engine.open("second") as two:
        await one.set_paused("openai", why="it lies")
        assert await two.pauses() == [PauseRow("openai", START_MS, "it lies")]
    async with engine.open() as later:
        assert await later.pauses() == [PauseRow("openai", START_MS, "it lies")]
        await later.set_paused("openai", paused=False)
        assert await later.pauses() == []


async def test_a_channel_that_is_paused_again_stays_so_since_then(ledger, wall):
    await ledger.set_paused("b")
    wall.at_ms += 5
    await ledger.set_paused("b", why="again")
    await ledger.set_paused("a", why="\0")
    assert [(row.channel, row.since_ms) for row in await ledger.pauses()] == [("a", START_MS + 5), ("b", START_MS)]


async def test_a_channel_that_is_not_paused_may_be_resumed(ledger):
    await ledger.set_paused("a", paused=False)
    assert await ledger.pauses() == []
