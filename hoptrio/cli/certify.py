"""``hoptrio certify``: probe channels with a real stream, write the evidence, and say in words what is wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from hoptrio.cli.options import Invocation, command
from hoptrio.cli.shown import cell, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["certify"]

#: What fits beside each other on 80 columns; ``--json`` has the rest.
_COLUMNS = ("channel", "model", "protocol", "finding", "valid_until")
#: These may be long, and are folded before any other is.
_NAMES = ("channel", "model")


@command()
@click.option("--channel", metavar="C", help="This channel only, whatever its route; default: all on shared routes.")
@click.option("--model", metavar="M", help="This model only.")
@click.pass_context
def certify(context: click.Context, channel: str | None, model: str | None) -> None:
    """Probe each channel, model and protocol with a small real stream, at the provider's price; charged to nobody.

    Works beside a running gateway, which goes by the result within seconds. Exits with 1 if a probe fails.
    """
    from hoptrio.control.operations.channels import certify as probe
    from hoptrio.control.shapes import CertificationOrder
    from hoptrio.service.logs import set_up_logs

    set_up_logs()
    invocation = context.ensure_object(Invocation)
    with _progress(_number(invocation, channel, model), quiet=invocation.json) as invocation.advance:
        found = invocation.ask(probe, CertificationOrder(channel=channel, model=model))
    rows = [to_builtins(each) for each in found]
    invocation.emit(rows, lambda: _page(rows))
    if not rows:
        invocation.note("nothing to probe: only shared routes need certificates (--channel names any)")
    if not all(row["certified"] for row in rows):
        context.exit(1)


def _page(rows: list[dict[str, Any]]) -> Any:
    """A table, and under it in words what is to be known of a probe beyond that it certified."""
    from rich.console import Group
    from rich.table import Table

    from hoptrio.certification.finding import Finding, words_for

    table = Table()
    for column in _COLUMNS:
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column not in _NAMES)
    for row in rows:
        day = (row["valid_until"] or "-").partition("T")[0]
        table.add_row(*(cell((row | {"valid_until": day})[column]) for column in _COLUMNS))
    said = [row for row in rows if row["why"] != words_for(Finding.CERTIFIED)]
    return Group(table, *(cell(f"{row['channel']}, {row['model']}, {row['protocol']}: {row['why']}") for row in said))


def _number(invocation: Invocation, channel: str | None, model: str | None) -> int | None:
    """How many probes it will be; a control plane far away tells of all of them together."""
    from hoptrio.certification.certifier import what_to_probe

    if invocation.control_url is not None:
        return None
    return len(what_to_probe(invocation.config().catalogue, channel=channel, model=model))


@contextmanager
def _progress(total: int | None, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, if that is a terminal; yields what moves it on, with a few words on the last probe."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("probing", total=total)
        yield lambda words: progress.update(task, advance=1, description=escape(printable(words)))
