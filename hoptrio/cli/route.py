"""``hoptrio route``: who would be asked for a model, in which order, and why the others would not."""

from __future__ import annotations

from typing import Any

import click
from msgspec import to_builtins

from hoptrio.cli.options import Invocation, command
from hoptrio.cli.shown import cell

__all__ = ["route"]

_COLUMNS = ("channel", "upstream", "route", "priority", "weight", "health")
_UNKNOWN = "unknown: no server runs here with this config"


@command()
@click.argument("model")
@click.option("--protocol", metavar="P", help="chat, responses, messages or gemini; default: each that is offered.")
@click.option("--key", "key_id", metavar="ID", help="The key that asks; default: one for which nothing is dedicated.")
@click.option("--contract", "contract_name", metavar="C", help="Default: the key's, else the server's.")
@click.pass_obj
def route(
    invocation: Invocation, model: str, protocol: str | None, key_id: str | None, contract_name: str | None
) -> None:
    """Who would be asked for a stream of MODEL, in which order, and why the others would not.

    With a server running here on the same config, the health of channels is its own. How many streams a channel carries
    is known to each worker alone, and not taken into account.
    """
    from hoptrio.control.operations.channels import route as ask_route
    from hoptrio.control.shapes import RouteQuestion
    from hoptrio.protocols.events import Protocol

    if protocol is not None and protocol not in list(Protocol):
        raise click.UsageError(f"no protocol {protocol}; there are {', '.join(Protocol)}")
    asked = RouteQuestion(model=model, protocol=protocol, key=key_id, contract=contract_name)  # type: ignore[arg-type]
    told = to_builtins(invocation.ask(ask_route, asked))
    invocation.emit(told, lambda: _page(told))


def _page(told: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table

    attempts = told["attempts"]
    last = "one attempt" if attempts == 1 else f"up to {attempts} attempts, while the client has seen nothing"
    parts: list[Any] = [cell(f"{told['model']} under the contract {told['contract']}: {last}")]
    if told["health"] == "unknown":
        parts.append(cell(f"health is {_UNKNOWN}"))
    for answer in told["routes"]:
        table = Table(title=answer["protocol"], title_justify="left")
        for column in ("", *_COLUMNS):
            table.add_column(column, overflow="fold")
        for place, each in enumerate(answer["asked"], 1):
            table.add_row(*map(cell, [str(place), *_cells(each)]))
        for each in answer["not_asked"]:
            table.add_row(*map(cell, ["-", each["channel"], "", "", "", "", each["why"]]))
        parts.append(table)
        if answer["last_resort"]:
            parts.append(cell(f"{answer['protocol']}: closed, and asked for want of others"))
        if answer["refused"]:
            parts.append(cell(f"{answer['protocol']}: {answer['refused']}"))
    return Group(*parts)


def _cells(asked: dict[str, Any]) -> list[str]:
    """What the request is converted to stands before the health."""
    *cells, health = (str(asked[name]) for name in _COLUMNS)
    converts = f"converts to {asked['converts_to']}; " if asked["converts_to"] else ""
    return [*cells, converts + health]
