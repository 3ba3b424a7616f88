"""What an operator pauses is paused for the next request of every process of the machine."""

from __future__ import annotations

import pytest

from hoptrio.admission.board import BOARD_BYTES, Board
from hoptrio.admission.health import Fault, Trouble
from hoptrio.admission.pauses import Pauses
from hoptrio.errors import LedgerUnavailable
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import MemoryStore
from hoptrio.ledger.store import StoreUnavailable


async def test_a_process_that_did_not_change_anything_knows_at_once_that_its_view_is_stale():
    memory = bytearray(BOARD_BYTES)
    async with memory_ledger() as ledger:
        one, two = Pauses(ledger, Board(memory)), Pauses(ledger, Board(memory))
        assert not two.stale
        await one.pause("a", "it lies")
        assert (one.stale, one.paused("a"), two.stale) == (False, True, True)
        await two.refresh()
        assert (two.stale, two.paused("a"), two.rows["a"].why) == (False, True, "it lies")
        await two.resume("a")
        assert one.stale
        await one.refresh()
        assert not one.paused("a")


async def test_forgetting_the_trouble_of_channels_says_nothing_of_pauses():
    board = Board()
    async with memory_ledger() as ledger:
        pauses = Pauses(ledger, board)
        await pauses.pause("a", "")
        board.wipe()
        assert not pauses.stale
        assert board.clean


async def test_trouble_of_a_channel_leaves_the_mark_as_it_is():

    board = Board()
    board.set_mark()
    mark = board.mark
    with board.locked():
        board.put("a", "m", Trouble(Fault.CUT, 1, 0, 5.0), 0.0)
    assert (board.mark, board.clean) == (mark, False)


async def test_the_last_view_stands_while_the_ledger_is_away():
    store = MemoryStore()
    async with memory_ledger(store) as ledger:
        pauses = Pauses(ledger, Board())
        await pauses.pause("a", "")
        store.outage = StoreUnavailable("away")
        with pytest.raises(LedgerUnavailable):
            await pauses.refresh()
        assert pauses.paused("a")
        store.outage = None
