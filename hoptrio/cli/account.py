"""``hoptrio account``: accounts, their balances and their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import AMOUNT, SIGNED_AMOUNT, Failed, Invocation, group
from hoptrio.ledger.report import entry_report, iso_ms
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import Account, Entry

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
    _change(invocation, lambda ledger: ledger.create_account(name, deposit_nanos))


@account.command()
@click.argument("name")
@click.argument("amount_nanos", metavar="AMOUNT", type=AMOUNT)
@click.option("--why", default="", help="Kept with the entry.")
@click.pass_obj
def deposit(invocation: Invocation, name: str, amount_nanos: int, why: str) -> None:
    """Pay AMOUNT into an account."""
    _change(invocation, lambda ledger: ledger.deposit(name, amount_nanos, why))


@account.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("amount_nanos", metavar="AMOUNT", type=SIGNED_AMOUNT)
@click.option("--why", required=True, help="Kept with the entry.")
@click.pass_obj
def adjust(invocation: Invocation, name: str, amount_nanos: int, why: str) -> None:
    """Correct a balance by AMOUNT, up or down."""
    _change(invocation, lambda ledger: ledger.adjust(name, amount_nanos, why))


@account.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Enable it again.")
@click.option("--why", default="", help="Kept with the entry.")
@click.pass_obj
def disable(invocation: Invocation, name: str, undo: bool, why: str) -> None:
    """Refuse every new request of an account; running ones go on."""
    _change(invocation, lambda ledger: ledger.disable(name, disabled=not undo, why=why))


@account.command("list")
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List the accounts."""

    async def work() -> list[Account]:
        async with invocation.open_ledger() as ledger:
            return await ledger.accounts()

    rows = [_report(each) for each in invocation.run(work)]
    invocation.emit_rows(rows, ("name", "balance", "held", "available", "disabled", "id"))


@account.command()
@click.argument("name")
@click.option("--entries", is_flag=True, help="Its entries too, oldest first.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Entries behind this seq.")
@click.option("--limit", type=click.IntRange(min=1, max=10_000), default=100, show_default=True)
@click.pass_obj
def show(invocation: Invocation, name: str, entries: bool, after: int, limit: int) -> None:
    """Show an account."""

    async def work() -> tuple[Account, list[Entry]]:
        async with invocation.open_ledger() as ledger:
            found = await ledger.account(name)
            if found is None:
                raise Failed(f"no account {name}")
            return found, await ledger.entries(found.id, after_seq=after, limit=limit) if entries else []

    found, lines = invocation.run(work)
    report = _report(found)
    rows = [entry_report(entry) for entry in lines]
    if invocation.json:
        invocation.emit({**report, "entries": rows} if entries else report)
        return
    invocation.emit(report)
    if entries:
        invocation.emit_rows(rows, _ENTRY_COLUMNS)


def _change(invocation: Invocation, change: Callable[[Ledger], Awaitable[Account]]) -> None:
    """Apply a change and show the account as it then stands."""

    async def work() -> Account:
        async with invocation.open_ledger() as ledger:
            try:
                return await change(ledger)
            except ValueError as error:
                raise click.UsageError(str(error)) from None

    invocation.emit(_report(invocation.run(work)))


def _report(account: Account) -> dict[str, Any]:
    return {
        "id": account.id,
        "name": account.name,
        "balance": format_nanos(account.balance_nanos),
        "held": format_nanos(account.held_nanos),
        "available": format_nanos(account.available_nanos),
        "disabled": account.disabled,
        "created_at": iso_ms(account.created_at_ms),
    }
