"""The spools of a machine: this process's own, and what the other processes of the machine keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hoptrio.spool.playback import Playback
    from hoptrio.spool.spool import Spool

__all__ = ["Spools"]


class Spools:
    """`own` keeps the streams of this process; `find` finds those of all."""

    def __init__(self, own: Spool) -> None:
        self.own = own

    async def find(self, account_id: str, name: str) -> Playback | None:
        """The stream of a request id, or of a name that its client knows it by, if this account has such a one."""
        return self.own.find(account_id, name)
