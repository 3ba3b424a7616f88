"""`hoptrio serve`: the gateway, until SIGTERM."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from hoptrio.cli.options import Failed, Invocation, command

if TYPE_CHECKING:
    from hoptrio.config import Config

__all__ = ["serve"]


@command("serve")
@click.option("--workers", type=click.IntRange(1, 1), help="Processes that share the port; one for now.")
@click.pass_obj
def serve(invocation: Invocation, workers: int | None) -> None:
    """Run the gateway. SIGTERM: no new streams, running ones end or are settled within the grace. SIGHUP: reload."""
    config = invocation.config()
    if (workers or config.server.workers) > 1:
        raise Failed("more than one worker is not supported by this version")
    if not config.ledger.url.startswith("sqlite:"):
        raise Failed("the ledger is SQLite in this version")
    _run(config, invocation)


def _run(config: Config, invocation: Invocation) -> None:
    from hoptrio.config import load
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.run import serve as serve_gateway

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            urls = await nursery.start(partial(serve_gateway, config, reload=partial(load, invocation.path)))
            invocation.emit({"ready": True, "listen": urls}, f"hoptrio listens on {' and '.join(urls)}")

    set_up_logs()
    trio.run(main)
