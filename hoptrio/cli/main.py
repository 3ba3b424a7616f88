"""The console script: finds a command, runs it, and turns how it failed into one line and an exit status.

0 done, 1 it could not be done, 2 wrong usage or config. A command's module is imported only when the command is called,
so that ``--help`` answers at once.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any, NamedTuple

import click

from hoptrio import __version__
from hoptrio.cli.options import Failed, Group, Invocation
from hoptrio.cli.shown import printable
from hoptrio.errors import BadRequest, HoptrioError

__all__ = ["COMMANDS", "main"]


class Lazy(NamedTuple):
    """Where a command is (``hoptrio.cli.MODULE``, an attribute of the command's own name) and what it does.

    `standalone`: it works without a config, and takes no ``--config``; nor ``--json``, unless `json` says so.
    """

    module: str
    summary: str
    standalone: bool = False
    json: bool = False


COMMANDS: dict[str, Lazy] = {
    "demo": Lazy("demo", "A complete gateway with a simulated provider; needs no key and no network.", True),
    "init": Lazy("init", "Write a commented config file.", True),
    "check": Lazy("check", "Say what is wrong with the config."),
    "serve": Lazy("serve", "Run the gateway."),
    "account": Lazy("account", "Accounts and balances."),
    "key": Lazy("key", "API keys."),
    "route": Lazy("route", "Who would be asked for a model, in which order, and why not the others."),
    "certify": Lazy("certify", "Probe channels with a real stream: who may stream on shared routes."),
    "request": Lazy("request", "The timeline, evidence and settlement of requests."),
    "ledger": Lazy("ledger", "Audit, statements and backup of the ledger."),
    "simulate": Lazy("simulate", "The simulated provider alone.", True),
    "conform": Lazy("conform", "Try known faults of streaming gateways on any gateway.", True, json=True),
}
#: Not for people: `hoptrio serve` starts its workers with it.
HIDDEN: dict[str, Lazy] = {"worker": Lazy("serve", "One worker of several.")}


class _Root(Group):
    """Finds commands by `COMMANDS` instead of importing them all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = COMMANDS.get(cmd_name) or HIDDEN.get(cmd_name)
        if lazy is None:
            return None
        invocation = ctx.ensure_object(Invocation)
        if lazy.standalone and (invocation.config_path or invocation.control_url or invocation.control_ca):
            raise click.UsageError(f"{cmd_name} takes neither --config nor --control", ctx)
        if lazy.standalone and invocation.json and not lazy.json:
            raise click.UsageError(f"{cmd_name} takes no --json", ctx)
        found: click.Command = getattr(importlib.import_module(f"hoptrio.cli.{lazy.module}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="hoptrio %(version)s")
def root() -> None:
    """A streaming gateway for LLM APIs: keeps streams alive, bounds them, and settles every one exactly once."""


def main(args: list[str] | None = None) -> None:
    """Run the command line with `args` (default: the process's own) and exit."""
    if os.getpid() == 1:
        # The kernel keeps from the first process of a container what it has no handler for: a stop while this one still
        # imports would be lost, and the engine wait for all of its grace.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(run(sys.argv[1:] if args is None else args))


def run(args: list[str]) -> int:
    """Run the command line and return the exit status. Never raises for an expected failure."""
    invocation = Invocation()
    invocation.json = "--json" in args[: args.index("--") if "--" in args else None]
    try:
        # Outside its standalone mode click returns the status of an early exit (--help), else what the command returns.
        status = root.main(args, prog_name="hoptrio", standalone_mode=False, obj=invocation)
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        return _fail(_only(error), invocation)
    return status if isinstance(status, int) else 0


def _only(error: BaseException) -> BaseException:
    """The one failure inside the groups that nurseries wrap around it, or the group itself if there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _fail(error: BaseException, invocation: Invocation) -> int:
    """Tell an expected failure in one line (or as one JSON object) on stderr; raise any other."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return 2
    if isinstance(error, BrokenPipeError):
        # Who read our output has seen enough; what is still buffered must not fail again while the process ends.
        sys.stdout = None
        return 1
    status, told = _told(error)
    if told is None:
        raise error
    if invocation.json:
        click.echo(json.dumps({"error": told}, ensure_ascii=False), err=True)
    else:
        for line in str(told["message"]).splitlines():
            click.echo(f"hoptrio: {printable(line)}", err=True)
    return status


def _told(error: BaseException) -> tuple[int, dict[str, Any] | None]:
    """Exit status and what is told of an expected failure; None for a bug, which keeps its traceback."""
    from hoptrio.config import ConfigError

    if isinstance(error, ConfigError):
        problems = [
            {"file": each.file, "key": each.key, "line": each.line, "message": each.message} for each in error.problems
        ]
        return 2, {"message": str(error), "problems": problems}
    if isinstance(error, Failed):
        return error.exit_code, {"message": error.format_message(), **error.details}
    if isinstance(error, click.UsageError):
        where = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
        return 2, {"message": f"{error.format_message()}{where}"}
    if isinstance(error, click.ClickException):
        return error.exit_code, {"message": error.format_message()}
    if isinstance(error, HoptrioError):
        # A value that is wrong is wrong usage, whoever noticed.
        return 2 if isinstance(error, BadRequest) else 1, {"message": error.message, "code": error.code}
    if isinstance(error, OSError):
        return 1, {"message": str(error)}
    return 1, None
