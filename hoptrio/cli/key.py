"""``hoptrio key``: API keys. The secret is shown once, when the key is made; only its hash is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import AMOUNT, DATE, Failed, Invocation, group
from hoptrio.ledger.report import iso_ms
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.ledger.model import ApiKey

__all__ = ["key"]

_COLUMNS = ("id", "account", "contract", "max_streams", "rpm", "budget", "per", "expires_at", "models", "revoked")


@group()
def key() -> None:
    """API keys."""


@key.command()
@click.option("--account", "account", required=True, metavar="NAME", help="Whose balance it spends.")
@click.option("--contract", help="The contract in force for it; default: the server's.")
@click.option("--max-streams", type=click.IntRange(min=1), help="Streams it may run at a time.")
@click.option("--rpm", type=click.IntRange(min=1), help="Requests a minute.")
@click.option("--budget", "budget_nanos", type=AMOUNT, metavar="AMOUNT", help="What it may spend in a period.")
@click.option("--per", "budget_per", type=click.Choice(["day", "month"]), help="The budget's period (UTC).")
@click.option("--expires", "expires_at_ms", type=DATE, metavar="DATE", help="When it stops working.")
@click.option("--model", "models", multiple=True, metavar="MODEL", help="A model it may use; repeat for more.")
@click.pass_obj
def create(invocation: Invocation, /, contract: str | None, **limits: Any) -> None:
    """Make a key and print its secret, once."""
    if (limits["budget_nanos"] is None) != (limits["budget_per"] is None):
        raise click.UsageError("--budget and --per belong together")
    config = invocation.config()
    if contract is not None and contract not in config.contracts:
        raise click.UsageError(f"no contract {contract}; there are {', '.join(sorted(config.contracts))}")
    for model in limits["models"]:
        if model not in config.catalogue.models:
            invocation.note(f"warning: no model {model} is configured")

    async def work() -> tuple[ApiKey, str]:
        async with invocation.open_ledger() as ledger:
            return await ledger.create_key(contract=contract, **limits)

    made, secret = invocation.run(work)
    invocation.emit({"id": made.id, "secret": secret, **_report(made)})


@key.command("list")
@click.option("--account", "account_name", metavar="NAME", help="This account's only.")
@click.pass_obj
def list_(invocation: Invocation, account_name: str | None) -> None:
    """List the keys."""

    async def work() -> list[ApiKey]:
        async with invocation.open_ledger() as ledger:
            if account_name is None:
                return await ledger.keys()
            account = await ledger.account(account_name)
            if account is None:
                raise Failed(f"no account {account_name}")
            return await ledger.keys(account.id)

    invocation.emit_rows([_report(each) for each in invocation.run(work)], _COLUMNS)


@key.command()
@click.argument("key_id", metavar="ID")
@click.pass_obj
def revoke(invocation: Invocation, key_id: str) -> None:
    """Refuse a key from now on; its running streams go on."""

    async def work() -> ApiKey:
        async with invocation.open_ledger() as ledger:
            return await ledger.revoke_key(key_id)

    invocation.emit(_report(invocation.run(work)))


def _report(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "account": key.account.name,
        "contract": key.contract,
        "max_streams": key.max_streams,
        "rpm": key.rpm,
        "budget": None if key.budget_nanos is None else format_nanos(key.budget_nanos),
        "per": key.budget_per,
        "expires_at": None if key.expires_at_ms is None else iso_ms(key.expires_at_ms),
        "models": list(key.models),
        "revoked": key.revoked,
        "created_at": iso_ms(key.created_at_ms),
    }
