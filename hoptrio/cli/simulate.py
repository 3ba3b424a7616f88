"""``hoptrio simulate``: the simulated provider alone."""

from __future__ import annotations

import resource
from pathlib import Path

import click
import trio

from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.replay import Recordings
from hoptrio.simulator.script import LANGUAGE, DirectiveError, Script, parse_directive
from hoptrio.simulator.server import open_listeners, serve_listeners

__all__ = ["address", "simulate"]

# Click re-wraps paragraphs unless they begin with \b.
_EPILOG = "\n\n".join("\b\n" + paragraph for paragraph in LANGUAGE.split("\n\n"))


def address(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host stands in brackets."""
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not HOST:PORT", ctx, param)
    return host.removeprefix("[").removesuffix("]"), int(port)


@click.command(epilog=_EPILOG)
@click.option(
    "--listen",
    "where",
    metavar="H:P",
    callback=address,
    default="127.0.0.1:8090",
    show_default=True,
    help="Where to listen; port 0 takes any free one.",
)
@click.option(
    "--replay",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Serve the .sse files under this directory to requests for a model of their name, or with replay=NAME.",
)
@click.option("--script", default="", help="The script of requests that bring none, e.g. 'events=50 pace=10ms'.")
def simulate(where: tuple[str, int], replay: Path | None, script: str) -> None:
    """Run the simulated provider: scripted streams in four protocols, or recorded ones.

    It accepts any key and any model. GET /_sim/requests shows what it was asked.
    """
    provider = SimulatedProvider(default=_script(script), recordings=_recordings(replay))
    _raise_descriptor_limit()
    trio.run(_run, provider, *where)


def _raise_descriptor_limit() -> None:
    """A load test opens thousands of connections; the soft limit is often 1024."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _script(text: str) -> Script:
    try:
        return parse_directive(text)
    except DirectiveError as error:
        raise click.BadParameter(str(error), param_hint="--script") from error


def _recordings(directory: Path | None) -> Recordings | None:
    if directory is None:
        return None
    try:
        return Recordings(directory)
    except FileNotFoundError as error:
        raise click.BadParameter(str(error), param_hint="--replay") from error


async def _run(provider: SimulatedProvider, host: str, port: int) -> None:
    try:
        listeners = await open_listeners(host, port)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror}") from error
    for listener in listeners:
        bound = listener.socket.getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        click.echo(f"simulated provider on http://{name}:{bound[1]}")
    await serve_listeners(provider, listeners)
