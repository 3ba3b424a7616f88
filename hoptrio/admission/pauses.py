"""Pauses: the channels that an operator has taken out of service. They get no new streams and no further attempts.

The rows are in the ledger, for every process and over restarts. As with certificates a request reads a view, which is
read again every few seconds; but what an operator changes holds for the next request of every process of this machine,
so a mark on the board that these share says at once that a view is stale. While the ledger cannot be read the last view
stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.admission.board import Board
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import PauseRow

__all__ = ["Pauses"]


class Pauses:
    """The view of one process, empty until `refresh`."""

    def __init__(self, ledger: Ledger, board: Board) -> None:
        self._ledger = ledger
        self._board = board
        self._mark = board.mark
        self.rows: Mapping[str, PauseRow] = {}

    @property
    def stale(self) -> bool:
        """Somebody paused or resumed a channel since the view was read."""
        return self._board.mark != self._mark

    def paused(self, channel: str) -> bool:
        """May it get no new stream?"""
        return channel in self.rows

    async def refresh(self) -> None:
        """Read the rows. Raises LedgerUnavailable."""
        mark = self._board.mark
        self.rows = {row.channel: row for row in await self._ledger.pauses()}
        self._mark = mark

    async def pause(self, channel: str, why: str) -> None:
        """From the next request on. Raises LedgerUnavailable."""
        await self._ledger.set_paused(channel, why=why)
        await self._changed()

    async def resume(self, channel: str) -> None:
        """From the next request on. Raises LedgerUnavailable."""
        await self._ledger.set_paused(channel, paused=False)
        await self._changed()

    async def _changed(self) -> None:
        self._board.set_mark()
        await self.refresh()
