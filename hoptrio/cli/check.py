"""``hoptrio check``: is the config right? Every mistake with file, key and line, or a summary of what is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import Invocation, command
from hoptrio.cli.shown import cell
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.config import Config, ConfigError, Problem

__all__ = ["check"]


@command()
@click.pass_context
def check(context: click.Context) -> None:
    """Read the config and say, with file, key and line, what is wrong with it."""
    from hoptrio.config import ConfigError

    invocation = context.ensure_object(Invocation)
    try:
        config = invocation.config()
    except ConfigError as error:
        _tell(invocation, error)
        context.exit(2)
    summary = {"ok": True, "problems": [], "warnings": [_problem(each) for each in config.warnings]}
    invocation.emit(summary | _contents(config), lambda: _page(config))


def _tell(invocation: Invocation, error: ConfigError) -> None:
    if invocation.json:
        invocation.emit({"ok": False, "problems": [_problem(each) for each in error.problems]})
        return
    for problem in error.problems:
        invocation.note(str(problem))
    invocation.note(f"{len(error.problems)} {'mistake' if len(error.problems) == 1 else 'mistakes'}")


def _problem(problem: Problem) -> dict[str, Any]:
    return {"file": problem.file, "key": problem.key, "line": problem.line, "message": problem.message}


def _contents(config: Config) -> dict[str, Any]:
    return {
        "listen": str(config.server.listen),
        "control": str(config.control.listen) if config.control.token else None,
        "contract": config.server.contract,
        "models": [
            {"name": model.name, "input": format_nanos(model.prices.input), "output": format_nanos(model.prices.output)}
            for model in config.catalogue.models.values()
        ],
        "channels": [
            {"name": channel.name, "protocols": list(channel.base_urls), "models": list(channel.models)}
            for channel in config.catalogue.channels.values()
        ],
    }


def _page(config: Config) -> Any:
    """For people: who serves which model, at which price."""
    from rich.console import Group
    from rich.table import Table

    table = Table(title=f"prices in {config.ledger.currency} per million tokens", title_justify="left")
    for column in ("model", "input", "cached", "output", "stall", "channels"):
        table.add_column(column, overflow="fold")
    for model in config.catalogue.models.values():
        channels = [each.name for each in config.catalogue.channels.values() if model.name in each.models]
        prices = [model.prices.input, model.prices.cached_input, model.prices.output]
        cells = [model.name, *map(format_nanos, prices), f"{model.stall_s:g} s", ", ".join(channels) or "none"]
        table.add_row(*map(cell, cells))
    served = f"{config.server.listen}, contract {config.server.contract}"
    control = str(config.control.listen) if config.control.token else "not served (no token)"
    return Group(cell(f"The config is right. Data plane {served}; control plane {control}."), table)
