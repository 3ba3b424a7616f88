"""What all commands share: the options of every level, wherever they stand, the values behind them, and how a command
fails.

A command is written with `command` or `group` and takes an `Invocation` through ``@click.pass_obj``. Expected failures
are raised as `Failed` (exit 1) or as click's UsageError (exit 2); `main` renders both. Output goes through
`Invocation.emit` alone, so that ``--json`` is one JSON value on stdout and nothing else.
"""

from __future__ import annotations

import json
import os
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from hoptrio.cli.shown import cell, printable
from hoptrio.money import format_nanos, parse_nanos

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from hoptrio.config import Config
    from hoptrio.control.operation import Operation
    from hoptrio.ledger.ledger import Ledger

__all__ = [
    "AMOUNT",
    "DATE",
    "SIGNED_AMOUNT",
    "Command",
    "Failed",
    "Group",
    "Invocation",
    "command",
    "group",
    "json_option",
]

DEFAULT_CONFIG = "hoptrio.toml"
TOKEN_VARIABLE = "HOPTRIO_CONTROL_TOKEN"

T = TypeVar("T")
Takes = TypeVar("Takes")
Gives = TypeVar("Gives")


class Ask(Protocol):
    """Calls an operation, near or far. Raises HoptrioError."""

    async def __call__(self, operation: Operation[Takes, Gives], asked: Takes, /) -> Gives: ...


class Failed(click.ClickException):
    """It could not be done (exit 1). The message is one line and safe to show; `details` go into the JSON error."""

    exit_code = 1

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details


class Invocation:
    """One run of the command line: what was asked for in common, and what commands build from it."""

    def __init__(self) -> None:
        self.config_path: Path | None = None
        #: The control plane that is asked instead of the database.
        self.control_url: str | None = None
        #: The certificate authorities that vouch for it; None = the system's.
        self.control_ca: Path | None = None
        self.json = False
        #: Called with a few words on each step of something long.
        self.advance: Callable[[str], None] = _ignore
        self._config: Config | None = None

    @property
    def path(self) -> Path:
        """The config file: ``--config``, else ``HOPTRIO_CONFIG``, else ``hoptrio.toml``."""
        return self.config_path or Path(os.environ.get("HOPTRIO_CONFIG") or DEFAULT_CONFIG)

    def config(self) -> Config:
        """The config, read once. Raises ConfigError (exit 2) with every mistake; warnings go to stderr.

        Raises click's UsageError where a control plane is to be asked, which has a config of its own.
        """
        if self.control_url is not None:
            raise click.UsageError("this works on the config and the database of this machine: leave --control out")
        if self.control_ca is not None:
            raise click.UsageError("--control-ca is for --control https://...")
        if self._config is None:
            from hoptrio.config import load

            self._config = load(self.path)
            for warning in self._config.warnings:
                self.note(f"warning: {warning}")
        return self._config

    @asynccontextmanager
    async def open_ledger(self) -> AsyncIterator[Ledger]:
        """The config's ledger, for a command that places no holds; an embedded one is created if there is none.

        Raises Failed for a kind of ledger that is not built, LedgerUnavailable if it cannot be opened.
        """
        from hoptrio.ledger.ledger import open_ledger

        async with AsyncExitStack() as stack:
            settings = self.config().ledger
            try:
                ledger = await stack.enter_async_context(open_ledger(settings.url, journal=settings.journal or None))
            except ValueError as error:
                raise Failed(str(error)) from None
            yield ledger

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Ask]:
        """What calls operations: of the control plane that is named, else on the database itself."""
        if self.control_url is None:
            from hoptrio.cli.near import near

            async with near(self) as backend:
                yield backend.call
        else:
            from hoptrio.control.far import far

            if self.control_ca is not None and not self.control_url.startswith("https:"):
                raise click.UsageError("--control-ca is for --control https://...")
            token = os.environ.get(TOKEN_VARIABLE, "")
            if not token:
                raise Failed(f"{TOKEN_VARIABLE} is not set: --control needs the token of the control plane in it")
            async with far(self.control_url, token, ca_file=self.control_ca) as control:
                yield control.call

    def ask(self, operation: Operation[Takes, Gives], asked: Takes) -> Gives:
        """Call one operation. Raises HoptrioError."""

        async def work() -> Gives:
            async with self.asking() as ask:
                return await ask(operation, asked)

        return self.run(work)

    def run(self, work: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function on trio and return its result."""
        import trio

        return trio.run(work, *args, strict_exception_groups=True)

    def note(self, text: str) -> None:
        """A line for people, beside the result."""
        click.echo(printable(text), err=True)

    def emit(self, value: Any, text: str | Callable[[], Any] | None = None) -> None:
        """Write the result: `value` as JSON under ``--json``, else `text` (a line, or a function that makes what rich
        can print, with values as `cell`s), else `value` as a table of its members."""
        if self.json:
            click.echo(json.dumps(value, ensure_ascii=False))
        elif isinstance(text, str):
            click.echo(printable(text))
        else:
            _print_rich(text() if text is not None else _members(value))

    def emit_rows(self, rows: Sequence[dict[str, Any]], columns: Iterable[str], title: str = "") -> None:
        """Write a list: as a JSON array under ``--json``, else as a table with these of its members."""
        self.emit(list(rows), lambda: _table(rows, list(columns), title))

    def emit_whole(self, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
        """The same, but no value is folded, so that it can be copied: of the columns there are as many as the terminal
        is wide enough for, and what is left out is named."""
        self.emit(list(rows), lambda: _whole_table(rows, columns))


def _ignore(words: str) -> None:
    pass


def _print_rich(renderable: Any) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=False).print(renderable)


def _members(value: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for name, member in value.items():
        table.add_row(name.replace("_", " "), cell(member))
    return table


def _table(rows: Sequence[dict[str, Any]], columns: list[str], title: str) -> Any:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row.get(column)) for column in columns))
    return table


def _whole_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> Any:
    from rich.console import Console, Group

    left = Console().width - 1
    shown = 0
    for column in columns:
        left -= 3 + max(cell(text).cell_len for text in (column, *(row.get(column) for row in rows)))
        if left < 0 and shown:
            break
        shown += 1
    table = _table(rows, list(columns[:shown]), "")
    if shown == len(columns):
        return table
    hidden = ", ".join(column.replace("_", " ") for column in columns[shown:])
    return Group(table, cell(f"on a wider terminal, and with --json: {hidden}"))


def _remember_config(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).config_path = Path(value)


def _remember_control(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if not value.startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} is not http://HOST:PORT or https://HOST:PORT", context, parameter)
    context.ensure_object(Invocation).control_url = value


def _remember_control_ca(context: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is not None:
        context.ensure_object(Invocation).control_ca = value


def _remember_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Invocation).json = True


def shared_options() -> list[click.Option]:
    """``--config``, ``--control``, ``--control-ca`` and ``--json``: on every level alike, they land in the
    `Invocation`."""
    return [
        click.Option(
            ["--config"],
            metavar="FILE",
            expose_value=False,
            callback=_remember_config,
            help=f"The config file; default: the one that HOPTRIO_CONFIG names, else {DEFAULT_CONFIG}.",
        ),
        click.Option(
            ["--control"],
            metavar="URL",
            expose_value=False,
            callback=_remember_control,
            help=f"Ask this control plane, with the token in {TOKEN_VARIABLE}, and not the database.",
        ),
        click.Option(
            ["--control-ca"],
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            expose_value=False,
            callback=_remember_control_ca,
            help="The certificate authorities of a control plane on https (default: the system's).",
        ),
        json_option(),
    ]


def json_option() -> click.Option:
    """``--json`` alone, for a command that knows no config."""
    return click.Option(
        ["--json"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_remember_json,
        help="Output for programs.",
    )


class Command(click.Command):
    """A command that takes the shared options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options())


class Group(click.Group):
    """A group that takes the shared options, and whose commands do."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(shared_options())


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Decorate a function as a `Command`."""
    return click.command(name, cls=Command, **attributes)


def group(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Group]:
    """Decorate a function as a `Group`; its members are made with ``@that.command()``."""
    return click.group(name, cls=Group, **attributes)


class _Amount(click.ParamType[int]):
    """A decimal amount in the ledger's currency, converted to billionths."""

    name = "amount"

    def __init__(self, *, signed: bool) -> None:
        self._signed = signed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            nanos = parse_nanos(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if nanos < 0 and not self._signed:
            self.fail(f"{format_nanos(nanos)} is negative", param, ctx)
        return nanos


class _Date(click.ParamType[int]):
    """An ISO 8601 date or time, UTC unless it says otherwise, converted to milliseconds since 1970."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z", param, ctx)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


AMOUNT = _Amount(signed=False)
#: For amounts that may be negative. The command needs ``context_settings={"ignore_unknown_options": True}``, or click
#: takes ``-5`` for an option.
SIGNED_AMOUNT = _Amount(signed=True)
DATE = _Date()
