"""``hoptrio ledger``: the audit, the schema, statements, a backup, and a stuck hold by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import click
from msgspec import to_builtins

from hoptrio.cli.export import LAYOUTS, rows_of, write
from hoptrio.cli.options import DATE, Failed, Invocation, group

__all__ = ["ledger"]

#: Later than any entry; fits the integers of every engine.
_NO_END_MS = 2**53


@group()
def ledger() -> None:
    """The audit, the schema, statements, a backup, and a stuck hold by hand."""


@ledger.command()
@click.pass_context
def audit(context: click.Context) -> None:
    """Recompute every invariant from the entries; exit 1 and the rows that break one."""
    from hoptrio.control.operations.ledger import audit as recompute
    from hoptrio.control.shapes import Nothing

    invocation = context.ensure_object(Invocation)
    report = invocation.ask(recompute, Nothing())
    invocation.emit(to_builtins(report))
    if not report.ok:
        context.exit(1)


@ledger.command()
@click.pass_obj
def migrate(invocation: Invocation) -> None:
    """Create the schema, or bring it up to date."""

    from hoptrio.ledger.ledger import migrate as migrate_ledger

    try:
        version = invocation.run(migrate_ledger, invocation.config().ledger.url)
    except ValueError as error:
        raise Failed(str(error)) from None
    invocation.emit({"schema_version": version}, f"The schema is at version {version}.")


@ledger.command()
@click.argument("hold_id", metavar="HOLD")
@click.option("--why", required=True, help="Kept with the entry.")
@click.pass_obj
def release(invocation: Invocation, hold_id: str, why: str) -> None:
    """Release a hold that nobody settles."""
    from hoptrio.control.operations.ledger import release_hold
    from hoptrio.control.shapes import HoldRelease

    released = invocation.ask(release_hold, HoldRelease(hold=hold_id, why=why))
    invocation.emit(to_builtins(released), f"{hold_id} is released.")


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("--from", "since_ms", type=DATE, default=0, metavar="DATE", help="From then on; default: all.")
@click.option("--to", "until_ms", type=DATE, default=_NO_END_MS, metavar="DATE", help="Before then; default: all.")
@click.option("--account", "account_name", metavar="NAME", help="This account's only.")
@click.option("--what", type=click.Choice(list(LAYOUTS)), default="entries", show_default=True, help="Of which kind.")
@click.option("--format", "form", type=click.Choice(["csv", "json"]), help="Default: csv, or json with --json.")
@click.pass_obj
def export(
    invocation: Invocation,
    file: Path | None,
    since_ms: int,
    until_ms: int,
    account_name: str | None,
    what: str,
    form: str | None,
) -> None:
    """Write entries or requests of a time range, oldest first, to FILE or to the output."""
    form = form or ("json" if invocation.json else "csv")

    async def work() -> int:
        async with invocation.open_ledger() as opened:
            account = None if account_name is None else await opened.account(account_name)
            if account_name is not None and account is None:
                raise Failed(f"no account {account_name}")
            currency = invocation.config().ledger.currency
            rows = rows_of(opened, what, account.id if account else None, since_ms, until_ms, currency)
            return await write(rows, LAYOUTS[what], form, file)

    count = invocation.run(work)
    if file is not None:
        invocation.emit({"file": str(file), "rows": count}, f"{file} is written: {count} {what}.")


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def backup(invocation: Invocation, file: Path) -> None:
    """Copy the embedded database to FILE, as of one moment, with or without a running server."""
    from hoptrio.ledger.backup import backup as copy

    scheme, _, path = invocation.config().ledger.url.partition(":///")
    if scheme != "sqlite":
        raise Failed("a backup of PostgreSQL is made with its own tools, such as pg_dump")
    try:
        copy(Path(path), file)
    except (OSError, sqlite3.Error) as error:
        raise Failed(f"no backup: {error}") from error
    invocation.emit({"file": str(file), "bytes": file.stat().st_size}, f"{file} is written.")
