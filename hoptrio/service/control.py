"""The control plane's place in the nursery tree: it watches a drain to its end, and dies before the ledger does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from hoptrio.service.sockets import listen

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Sequence

    from hoptrio.control.office import Office
    from hoptrio.service.tls import Identity
    from hoptrio.telemetry.board import FiguresBoard

__all__ = ["control_plane"]


@asynccontextmanager
async def control_plane(
    office: Office, board: FiguresBoard, identity: Identity, sockets: Sequence[socket.socket] | None = None
) -> AsyncIterator[tuple[str, ...]]:
    """Serve while the block runs, on `sockets` or, if that is None, on the config's address; yields the URLs, none
    without a token or with no socket. What all workers must know of a person's session is in the memory of `board`;
    connections are shown `identity`.

    Raises OSError if it cannot listen. Whatever else goes wrong with it stays in it.
    """
    control = office.config.control
    if not control.token or (sockets is not None and not sockets):
        yield ()
        return
    # Its libraries are a quarter of what a process has to load.
    from hoptrio.control.access import Access
    from hoptrio.control.app import make_app
    from hoptrio.control.server import serve_control
    from hoptrio.control.sessions import Sessions

    opened = listen(control.listen.host, control.listen.port) if sockets is None else []
    listening = [*(sockets or ()), *opened]
    stop = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            app = make_app(office, Access(lambda: office.config.control.token, Sessions(board.aside)))
            nursery.start_soon(partial(serve_control, app, listening, stop, tls=lambda: identity.context))
            yield identity.urls([each.getsockname() for each in listening])
            stop.set()
    finally:
        for each in opened:
            each.close()
