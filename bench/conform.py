"""``python -m bench.conform [--gateway NAME] [OPTIONS OF hoptrio conform]``: starts a gateway and tries the cases.

The gateway gets the config that ``hoptrio conform --print-config`` prints, and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.contestants.contestant import Absent, Contestant
from bench.contestants.hoptrio import Hoptrio
from bench.contestants.litellm import Litellm
from bench.process import free_port, module

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

_TITLES = {"hoptrio": "hoptrio", "litellm": "LiteLLM"}
#: As ``--print-config`` has it, which is for people.
_LISTEN = '"127.0.0.1:8080"'


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]})
@click.option("--gateway", type=click.Choice(list(_TITLES)), default="hoptrio", show_default=True)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(gateway: str, options: tuple[str, ...]) -> None:
    """Start GATEWAY with `hoptrio conform` as its provider, and run that with OPTIONS."""
    upstream = f"127.0.0.1:{free_port()}"
    printed = subprocess.run(
        module("hoptrio", "conform", *options, "--upstream", upstream, "--print-config", gateway),
        capture_output=True,
        text=True,
        check=False,
    )
    if printed.returncode:
        raise click.ClickException(printed.stderr)
    try:
        with tempfile.TemporaryDirectory() as folder, _serving(gateway, printed.stdout, Path(folder)) as it:
            status = _conform(it, f"{_TITLES[gateway]} {_version(gateway)}", upstream, options)
    except Absent as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)


def _version(gateway: str) -> str:
    return Hoptrio().version() if gateway == "hoptrio" else Litellm().version()


@contextmanager
def _serving(gateway: str, config: str, folder: Path) -> Iterator[Contestant]:
    cores = frozenset(os.sched_getaffinity(0))
    if gateway == "hoptrio":
        config = config.replace(_LISTEN, '"127.0.0.1:0"')
        with Hoptrio().serving(config, folder, cores, f"sqlite:///{folder}/conform.db") as it:
            yield it
    else:
        Litellm().install()
        # The config's first line says so.
        environment = {"LITELLM_MAX_STREAMING_DURATION_SECONDS": "600"}
        with Litellm().serving(config, folder, cores, environment) as it:
            yield it


def _conform(it: Contestant, name: str, upstream: str, options: tuple[str, ...]) -> int:
    argv = module("hoptrio", "conform", "--url", f"http://{it.host}:{it.port}", "--upstream", upstream, "--name", name)
    return subprocess.run([*argv, *options], env=os.environ | {"HOPTRIO_CONFORM_KEY": it.key}, check=False).returncode


if __name__ == "__main__":
    main()
