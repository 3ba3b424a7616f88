"""`hoptrio serve`: the gateway, until SIGTERM; and `hoptrio worker`, one of the processes it may consist of.

With several workers this process is their supervisor, which has no event loop: trio is imported by the functions of a
process that serves.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from hoptrio.cli.options import Invocation, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hoptrio.config import Config
    from hoptrio.service.supervisor import Settings

__all__ = ["serve", "worker"]


@command("serve")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that share the port; default: the config's.")
@click.pass_context
def serve(context: click.Context, workers: int | None) -> None:
    """Run the gateway. SIGTERM: no new streams, running ones end or are settled within the grace. SIGHUP: reload."""
    invocation = context.ensure_object(Invocation)
    config = invocation.config()
    if (workers or config.server.workers) == 1:
        _serve_alone(config, invocation)
    else:
        context.exit(_supervise(invocation, workers))


def _serve_alone(config: Config, invocation: Invocation) -> None:
    import trio

    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import load
    from hoptrio.service.board import SharedBoard, board_path
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.run import serve as serve_gateway

    set_up_logs()
    breakers = Breakers(SharedBoard.create(board_path(invocation.path)).board)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            reload = partial(load, invocation.path)
            _tell(invocation, await nursery.start(partial(serve_gateway, config, reload=reload, breakers=breakers)))

    trio.run(main)


def _tell(invocation: Invocation, urls: Sequence[str]) -> None:
    invocation.emit({"ready": True, "listen": list(urls)}, f"hoptrio listens on {' and '.join(urls)}")


# -- several workers -------------------------------------------------------------------------------------------------


def _supervise(invocation: Invocation, workers: int | None) -> int:
    from hoptrio.admission.breaker import Breakers
    from hoptrio.service.board import SharedBoard, board_path
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.sockets import listen, url_of
    from hoptrio.service.supervisor import Supervisor

    def reload() -> Settings:
        settings = _settings(invocation, workers)[0]
        # What was wrong with a channel may be what was mended.
        Breakers(shared.board).forget()
        return settings

    set_up_logs()
    settings, config = _settings(invocation, workers)
    address = config.server.listen
    sockets = listen(address.host, address.port)
    shared = SharedBoard.create(board_path(invocation.path))
    urls = [url_of(each.getsockname(), tls=bool(config.server.tls_certificate)) for each in sockets]
    return Supervisor(
        [*_program(), "worker", "--config", str(invocation.path)],
        sockets,
        settings,
        reload=reload,
        on_ready=lambda: _tell(invocation, urls),
        inherited={"--health-fd": shared.fd},
    ).run()


def _program() -> list[str]:
    """What runs hoptrio again: the standalone binary is its own interpreter."""
    return [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "hoptrio"]


def _settings(invocation: Invocation, workers: int | None) -> tuple[Settings, Config]:
    """The config as it is now. Raises ConfigError."""
    from hoptrio.config import parse, read
    from hoptrio.service.supervisor import Settings

    content = read(invocation.path)
    config = parse(content, invocation.path)
    return Settings(content, workers or config.server.workers, config.server.shutdown_grace_seconds), config


@command("worker", hidden=True)
@click.option("--sockets", required=True)
@click.option("--config-fd", type=int, required=True)
@click.option("--ready-fd", type=int, required=True)
@click.option("--life-fd", type=int, required=True)
@click.option("--patient", is_flag=True)
@click.option("--health-fd", type=int, required=True)
@click.pass_obj
def worker(
    invocation: Invocation,
    sockets: str,
    config_fd: int,
    ready_fd: int,
    life_fd: int,
    health_fd: int,
    patient: bool,
) -> None:
    """Serve on inherited sockets; `hoptrio serve` starts this."""
    import trio

    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import parse
    from hoptrio.service.board import SharedBoard
    from hoptrio.service.lifeline import watch
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.run import serve as serve_gateway
    from hoptrio.service.sockets import inherit

    # Read from its beginning, wherever the one who wrote it left the offset that both share.
    content = os.pread(config_fd, os.fstat(config_fd).st_size, 0)
    os.close(config_fd)
    config = parse(content, invocation.path)
    breakers = Breakers(SharedBoard.inherit(health_fd).board)

    async def main() -> None:
        watch(life_fd)
        async with trio.open_nursery() as nursery:
            listening = inherit(map(int, sockets.split(",")))
            await nursery.start(partial(serve_gateway, config, sockets=listening, breakers=breakers, patient=patient))
            os.write(ready_fd, b"+")
            os.close(ready_fd)

    set_up_logs()
    trio.run(main)
