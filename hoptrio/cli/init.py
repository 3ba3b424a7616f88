"""``hoptrio init``: a config file to begin with. Every key of the file is in it, with its default and what it means."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from hoptrio.cli.options import DEFAULT_CONFIG, Failed

__all__ = ["example", "init"]


def example() -> str:
    """The commented config file."""
    return files("hoptrio.cli").joinpath("example.toml").read_text(encoding="utf-8")


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=DEFAULT_CONFIG)
def init(file: Path) -> None:
    """Write a commented config FILE (default hoptrio.toml). One that exists is never overwritten."""
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(example())
    except FileExistsError:
        raise Failed(f"{file} exists; it is left as it is") from None
    except OSError as error:
        raise Failed(f"{file} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {file}. Set OPENAI_API_KEY and HOPTRIO_CONTROL_TOKEN, then: hoptrio --config {file} check")
