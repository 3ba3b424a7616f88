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
    import socket
    from collections.abc import Sequence

    from hoptrio.config import Config
    from hoptrio.service.sockets import Listening
    from hoptrio.service.supervisor import Settings

__all__ = ["serve", "worker"]


@command("serve")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that share the port; default: the config's.")
@click.pass_context
def serve(context: click.Context, workers: int | None) -> None:
    """Run the gateway. SIGTERM: no new streams, running ones end or are settled within the grace. SIGHUP: reload."""
    from hoptrio.service.hangups import keep_hangups

    keep_hangups()
    invocation = context.ensure_object(Invocation)
    config = invocation.config()
    if (workers or config.server.workers) == 1:
        _serve_alone(config, invocation)
    else:
        context.exit(_supervise(config, invocation, workers))


def _serve_alone(config: Config, invocation: Invocation) -> None:
    import trio

    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import load
    from hoptrio.service.board import SharedBoard, board_paths
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.run import serve as serve_gateway

    set_up_logs()
    breakers = Breakers(SharedBoard.create(board_paths(invocation.path, config.ledger)).board)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            reload = partial(load, invocation.path)
            _tell(invocation, await nursery.start(partial(serve_gateway, config, reload=reload, breakers=breakers)))

    trio.run(main)


def _tell(invocation: Invocation, listening: Listening) -> None:
    said = f"hoptrio listens on {' and '.join(listening.data)}"
    if listening.control:
        said += f"; control plane on {' and '.join(listening.control)}"
    told = {"ready": True, "listen": list(listening.data), "control": list(listening.control)}
    invocation.emit(told, said)


# -- several workers -------------------------------------------------------------------------------------------------


def _supervise(config: Config, invocation: Invocation, workers: int | None) -> int:
    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import load
    from hoptrio.service.board import SharedBoard, board_paths
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.sockets import Listening, listen, url_of
    from hoptrio.service.supervisor import Supervisor
    from hoptrio.service.waiting import tell_waiting, waiting_of_workers
    from hoptrio.telemetry.board import FiguresBoard

    def reload() -> Settings:
        now = load(invocation.path)
        tell_waiting(waiting_of_workers(config, now))
        # What was wrong with a channel may be what was mended.
        Breakers(shared.board).forget()
        return _settings(now, workers)

    set_up_logs()
    settings = _settings(config, workers)
    sockets = listen(*config.server.listen)
    control = listen(*config.control.listen) if config.control.token else []
    shared = SharedBoard.create(board_paths(invocation.path, config.ledger))
    figures = FiguresBoard.shared(_figures_slots(settings.workers))
    listening = Listening(
        tuple(url_of(each.getsockname(), tls=bool(config.server.tls_certificate)) for each in sockets),
        tuple(url_of(each.getsockname(), tls=bool(config.control.tls_certificate)) for each in control),
    )
    return Supervisor(
        [*_program(), "worker", "--config", str(invocation.path)],
        sockets,
        settings,
        reload=reload,
        on_ready=lambda: _tell(invocation, listening),
        inherited={
            "--health-fd": [shared.fd],
            "--figures-fd": [figures.fd],
            "--control-sockets": [each.fileno() for each in control],
        },
    ).run()


def _numbers(sockets: Sequence[socket.socket]) -> list[int]:
    return [each.fileno() for each in sockets]


def _figures_slots(workers: int) -> int:
    """A place for every worker, and for those that take their places; some more, should a reload ask for more."""
    return 2 * workers + 16


def _program() -> list[str]:
    """What runs hoptrio again: the standalone binary is its own interpreter."""
    return [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "hoptrio"]


def _settings(config: Config, workers: int | None) -> Settings:
    from hoptrio.config import pack
    from hoptrio.service.supervisor import Settings

    return Settings(pack(config.files), workers or config.server.workers, config.server.shutdown_grace_seconds)


@command("worker", hidden=True)
@click.option("--sockets", required=True)
@click.option("--control-sockets", default="")
@click.option("--config-fd", type=int, required=True)
@click.option("--ready-fd", type=int, required=True)
@click.option("--life-fd", type=int, required=True)
@click.option("--patient", is_flag=True)
@click.option("--health-fd", type=int, required=True)
@click.option("--figures-fd", type=int, required=True)
@click.pass_obj
def worker(
    invocation: Invocation,
    sockets: str,
    control_sockets: str,
    config_fd: int,
    ready_fd: int,
    life_fd: int,
    health_fd: int,
    figures_fd: int,
    patient: bool,
) -> None:
    """Serve on inherited sockets; `hoptrio serve` starts this."""
    import trio

    from hoptrio.admission.breaker import Breakers
    from hoptrio.config import load, unpack
    from hoptrio.service.board import SharedBoard
    from hoptrio.service.lifeline import watch
    from hoptrio.service.logs import set_up_logs
    from hoptrio.service.run import serve as serve_gateway
    from hoptrio.telemetry.board import FiguresBoard

    # Read from its beginning, wherever the one who wrote it left the offset that both share.
    packed = os.pread(config_fd, os.fstat(config_fd).st_size, 0)
    os.close(config_fd)
    config = load(invocation.path, files=unpack(packed))
    breakers = Breakers(SharedBoard.inherit(health_fd).board)
    figures = FiguresBoard.inherit(figures_fd)

    async def main() -> None:
        watch(life_fd)
        async with trio.open_nursery() as nursery:
            run = partial(
                serve_gateway,
                config,
                sockets=_inherited(sockets),
                control_sockets=_inherited(control_sockets),
                breakers=breakers,
                figures=figures,
                patient=patient,
            )
            await nursery.start(run)
            os.write(ready_fd, b"+")
            os.close(ready_fd)

    set_up_logs()
    trio.run(main)


def _inherited(numbers: str) -> list[socket.socket]:
    from hoptrio.service.sockets import inherit

    return inherit(int(number) for number in numbers.split(",") if number)
