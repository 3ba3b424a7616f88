"""Accounts: opening, paying, correcting, disabling, and their statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation
from hoptrio.control.reading import amount, checked
from hoptrio.control.turns import in_turns
from hoptrio.errors import Conflict, InsufficientBalance, NotFound
from hoptrio.money import parse_nanos

if TYPE_CHECKING:
    from hoptrio.control.office import Office

__all__ = ["create_account", "deposit", "get_account", "list_accounts", "set_disabled", "statement"]


@operation("GET", "/api/accounts", shapes.AccountPage, list[shapes.Account])
async def list_accounts(office: Office, asked: shapes.AccountPage) -> list[shapes.Account]:
    """List accounts by name."""
    found = [each for each in await office.ledger.accounts() if each.name > asked.after]
    return await in_turns(found[: asked.limit], reports.account)


@operation("POST", "/api/accounts", shapes.NewAccount, shapes.Account, status=201, refuses=(Conflict,))
async def create_account(office: Office, asked: shapes.NewAccount) -> shapes.Account:
    """Open an account."""
    with checked():
        return reports.account(await office.ledger.create_account(asked.name, amount(asked.deposit)))


@operation("GET", "/api/accounts/{account}", shapes.AccountName, shapes.Account, refuses=(NotFound,))
async def get_account(office: Office, asked: shapes.AccountName) -> shapes.Account:
    """Show an account."""
    return reports.account(await office.account(asked.account))


@operation("GET", "/api/accounts/{account}/entries", shapes.StatementPage, list[shapes.EntryItem], refuses=(NotFound,))
async def statement(office: Office, asked: shapes.StatementPage) -> list[shapes.EntryItem]:
    """An account's entries, oldest first."""
    found = await office.account(asked.account)
    entries = await office.ledger.entries(found.id, after_seq=asked.after, limit=asked.limit)
    return await in_turns(entries, lambda each: reports.entry(each, {found.id: found.name}))


@operation(
    "POST", "/api/accounts/{account}/deposits", shapes.AccountDeposit, shapes.Account, refuses=(NotFound, Conflict)
)
async def deposit(office: Office, asked: shapes.AccountDeposit) -> shapes.Account:
    """Pay into an account."""
    with checked():
        paid = await office.ledger.deposit(asked.account, amount(asked.amount), asked.why, ref=asked.ref)
    return reports.account(paid)


@operation(
    "POST",
    "/api/accounts/{account}/adjustments",
    shapes.Adjustment,
    shapes.Account,
    refuses=(NotFound, Conflict, InsufficientBalance),
)
async def adjust(office: Office, asked: shapes.Adjustment) -> shapes.Account:
    """Correct a balance, up or down."""
    with checked():
        adjusted = await office.ledger.adjust(asked.account, parse_nanos(asked.amount), asked.why, ref=asked.ref)
    return reports.account(adjusted)


@operation("PUT", "/api/accounts/{account}/disabled", shapes.AccountDisabling, shapes.Account, refuses=(NotFound,))
async def set_disabled(office: Office, asked: shapes.AccountDisabling) -> shapes.Account:
    """Refuse every new request of an account, or no more; running ones go on."""
    disabled = await office.ledger.disable(asked.account, disabled=asked.disabled, why=asked.why)
    return reports.account(disabled)
