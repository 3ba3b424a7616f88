"""`hoptrio demo`: a complete gateway that needs no provider key and no network."""

from __future__ import annotations

import ipaddress
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

if TYPE_CHECKING:
    from hoptrio.service.sockets import Listening

__all__ = ["demo"]


def _loopback(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """Its key is known to everybody, so the demo answers nobody but this machine."""
    host = value.rpartition(":")[0].strip("[]")
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise click.BadParameter(f"{value!r} is not a loopback address; the demo listens on no other")
    return value


@click.command("demo")
@click.option(
    "--listen", default="127.0.0.1:8080", metavar="H:P", show_default=True, callback=_loopback, help="The data plane."
)
@click.option(
    "--control",
    default="127.0.0.1:8081",
    metavar="H:P",
    show_default=True,
    callback=_loopback,
    help="The control plane.",
)
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="Where the database is; default: temporary.")
def demo(listen: str, control: str, directory: Path | None) -> None:
    """A gateway on an embedded database, a simulated provider behind it, an account with a balance and a key."""
    from hoptrio.service.logs import set_up_logs

    set_up_logs()
    with ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hoptrio-demo-")))
        directory.mkdir(parents=True, exist_ok=True)
        trio.run(_main, directory, listen, control)


async def _main(directory: Path, listen: str, control: str) -> None:
    from hoptrio.service.demo import demo as run_demo

    async with trio.open_nursery() as nursery:
        listening = await nursery.start(partial(run_demo, directory, listen, control))
        click.echo(_greeting(listening, directory))


def _greeting(listening: Listening, directory: Path) -> str:
    from hoptrio.service.demo import DEMO_KEY, DEMO_TOKEN, curl_lines

    url, control = listening.data[0], listening.control[0]
    lines = "\n\n".join(curl_lines(url))
    return (
        f"hoptrio listens on {url}\n"
        f"  key       {DEMO_KEY}\n"
        f"  open      {control}/  (the control plane; its token is {DEMO_TOKEN})\n"
        f"  database  {directory}\n"
        f"  provider  simulated; a line `sim: events=5 fail=cut@3` in the prompt scripts it (hoptrio simulate --help)\n"
        f"\nOne stream in each protocol:\n\n{lines}\n\n"
        f'What it cost:\n\ncurl {url}/v1/account -H "authorization: Bearer {DEMO_KEY}"\n\nCtrl-C stops it.'
    )
