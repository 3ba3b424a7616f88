"""``hoptrio account``: accounts, their balances and their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from hoptrio.cli.options import AMOUNT, SIGNED_AMOUNT, Invocation, group
from hoptrio.limits import CLI_ROWS_MAX, CONTROL_PAGE_ROWS_MAX
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.control.shapes import Account, EntryItem

__all__ = ["account"]

_ENTRY_COLUMNS = ("seq", "at", "kind", "amount", "returned", "uncollected", "hold", "why")


@group()
def account() -> None:
    """Accounts and balances."""


@account.command()
@click.argument("name")
@click.option("--deposit", "deposit_nanos", type=AMOUNT, default=0, help="What it starts with.")
@click.pass_obj
def create(invocation: Invocation, name: str, deposit_nanos: int) -> None:
    """Open an account."""
    from hoptrio.control.operations.accounts import create_account
    from hoptrio.control.shapes import NewAccount

    asked = NewAccount(name=name, deposit=format_nanos(deposit_nanos))
    invocation.emit(to_builtins(invocation.ask(create_account, asked)))


@account.command()
@click.argument("name")
@click.argument("amount_nanos", metavar="AMOUNT", type=AMOUNT)
@click.option("--why", default="", help="Kept with the entry.")
@click.pass_obj
def deposit(invocation: Invocation, name: str, amount_nanos: int, why: str) -> None:
    """Pay AMOUNT into an account."""
    from hoptrio.control.operations.accounts import deposit as pay
    from hoptrio.control.shapes import AccountDeposit

    asked = AccountDeposit(account=name, amount=format_nanos(amount_nanos), why=why)
    invocation.emit(to_builtins(invocation.ask(pay, asked)))


@account.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("amount_nanos", metavar="AMOUNT", type=SIGNED_AMOUNT)
@click.option("--why", required=True, help="Kept with the entry.")
@click.pass_obj
def adjust(invocation: Invocation, name: str, amount_nanos: int, why: str) -> None:
    """Correct a balance by AMOUNT, up or down."""
    from hoptrio.control.operations.accounts import adjust as correct
    from hoptrio.control.shapes import Adjustment

    asked = Adjustment(account=name, amount=format_nanos(amount_nanos), why=why)
    invocation.emit(to_builtins(invocation.ask(correct, asked)))


@account.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Enable it again.")
@click.option("--why", default="", help="Kept with the entry.")
@click.pass_obj
def disable(invocation: Invocation, name: str, undo: bool, why: str) -> None:
    """Refuse every new request of an account; running ones go on."""
    from hoptrio.control.operations.accounts import set_disabled
    from hoptrio.control.shapes import AccountDisabling

    asked = AccountDisabling(account=name, disabled=not undo, why=why)
    invocation.emit(to_builtins(invocation.ask(set_disabled, asked)))


@account.command("list")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List the accounts."""
    from hoptrio.control.operations.accounts import list_accounts
    from hoptrio.control.shapes import AccountPage

    async def work() -> list[Account]:
        found: list[Account] = []
        async with invocation.asking() as ask:
            while page := await ask(list_accounts, AccountPage(after=found[-1].name if found else "")):
                found += page
                if len(page) < CONTROL_PAGE_ROWS_MAX:
                    break
        return found

    rows = [to_builtins(each) for each in invocation.run(work)]
    invocation.emit_rows(rows, ("name", "balance", "held", "available", "disabled", "id"))


@account.command()
@click.argument("name")
@click.option("--entries", is_flag=True, help="Its entries too, oldest first.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Entries behind this seq.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=CLI_ROWS_MAX),
    default=100,
    show_default=True,
    help="How many entries at most.",
)
@click.pass_obj
def show(invocation: Invocation, name: str, entries: bool, after: int, limit: int) -> None:
    """Show an account."""
    from hoptrio.control.operations.accounts import get_account, statement
    from hoptrio.control.shapes import AccountName, StatementPage

    async def work() -> tuple[Account, list[EntryItem]]:
        async with invocation.asking() as ask:
            found = await ask(get_account, AccountName(account=name))
            lines: list[EntryItem] = []
            while entries and len(lines) < limit:
                rows = min(limit - len(lines), CONTROL_PAGE_ROWS_MAX)
                behind = lines[-1].seq if lines else after
                page = await ask(statement, StatementPage(account=found.id, after=behind, limit=rows))
                lines += page
                if len(page) < rows:
                    break
            return found, lines

    found, lines = invocation.run(work)
    report: dict[str, Any] = to_builtins(found)
    rows = [to_builtins(each) for each in lines]
    if invocation.json:
        invocation.emit({**report, "entries": rows} if entries else report)
        return
    invocation.emit(report)
    if entries:
        invocation.emit_rows(rows, _ENTRY_COLUMNS)
