"""``hoptrio key``: API keys. The secret is shown once, when the key is made; only its hash is stored."""

from __future__ import annotations

import click
from msgspec import to_builtins

from hoptrio.cli.options import AMOUNT, DATE, Invocation, group
from hoptrio.ledger.report import iso_ms
from hoptrio.money import format_nanos

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
def create(
    invocation: Invocation,
    account: str,
    contract: str | None,
    max_streams: int | None,
    rpm: int | None,
    budget_nanos: int | None,
    budget_per: str | None,
    expires_at_ms: int | None,
    models: tuple[str, ...],
) -> None:
    """Make a key and print its secret, once."""
    from hoptrio.control.operations.keys import create_key
    from hoptrio.control.shapes import NewKey

    if (budget_nanos is None) != (budget_per is None):
        raise click.UsageError("--budget and --per belong together")
    asked = NewKey(
        account=account,
        contract=contract,
        max_streams=max_streams,
        rpm=rpm,
        budget=None if budget_nanos is None else format_nanos(budget_nanos),
        per=budget_per,  # type: ignore[arg-type]
        expires=None if expires_at_ms is None else iso_ms(expires_at_ms),
        models=list(models),
    )
    made = to_builtins(invocation.ask(create_key, asked))
    for model in made.pop("unknown_models"):
        invocation.note(f"warning: no model {model} is configured")
    invocation.emit({"id": made.pop("id"), "secret": made.pop("secret"), **made})


@key.command("list")
@click.option("--account", "account_name", metavar="NAME", help="This account's only.")
@click.pass_obj
def list_(invocation: Invocation, account_name: str | None) -> None:
    """List the keys."""
    from hoptrio.control.operations.keys import list_keys
    from hoptrio.control.shapes import KeyPage

    found = invocation.ask(list_keys, KeyPage(account=account_name))
    invocation.emit_rows([to_builtins(each) for each in found], _COLUMNS)


@key.command()
@click.argument("key_id", metavar="ID")
@click.pass_obj
def revoke(invocation: Invocation, key_id: str) -> None:
    """Refuse a key from now on; its running streams go on."""
    from hoptrio.control.operations.keys import revoke_key
    from hoptrio.control.shapes import KeyId

    invocation.emit(to_builtins(invocation.ask(revoke_key, KeyId(key=key_id))))
