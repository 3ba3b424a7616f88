"""``hoptrio request``: what became of requests."""

from __future__ import annotations

from typing import Any

import click

from hoptrio.cli.options import DATE, Failed, Invocation, group
from hoptrio.ledger.model import RequestFilter
from hoptrio.ledger.report import operator_report

__all__ = ["request"]

_COLUMNS = ("id", "created_at", "account", "model", "channel", "state", "reason", "evidence", "charge", "flags")


@group()
def request() -> None:
    """The timeline, evidence and settlement of requests."""


@request.command()
@click.argument("request_id", metavar="ID")
@click.pass_obj
def show(invocation: Invocation, request_id: str) -> None:
    """Show one request."""
    currency = invocation.config().ledger.currency

    async def work() -> dict[str, Any]:
        async with invocation.open_ledger() as ledger:
            record = await ledger.request(request_id)
            if record is None:
                raise Failed(f"no request {request_id}")
            account = await ledger.account(record.account_id)
            return operator_report(record, currency, account.name if account else record.account_id)

    report = invocation.run(work)
    if invocation.json:
        invocation.emit(report)
        return
    timeline = [f"{step['at_ms']} ms {step['event']}" for step in report.pop("timeline")]
    usage = report.pop("usage") or {}
    invocation.emit({**report, **usage, "timeline": timeline})


@request.command("list")
@click.option("--account", "account_name", metavar="NAME")
@click.option("--key", "key_id", metavar="ID")
@click.option("--model")
@click.option("--state", type=click.Choice(["running", "captured", "released", "refused"]))
@click.option("--client-request-id", help="The caller's own X-Client-Request-Id.")
@click.option("--since", "since_ms", type=DATE, metavar="DATE")
@click.option("--until", "until_ms", type=DATE, metavar="DATE")
@click.option("--limit", type=click.IntRange(min=1, max=10_000), default=50, show_default=True)
@click.pass_obj
def list_(invocation: Invocation, /, account_name: str | None, **where: Any) -> None:
    """List requests, newest first."""
    currency = invocation.config().ledger.currency

    async def work() -> list[dict[str, Any]]:
        async with invocation.open_ledger() as ledger:
            names = {account.id: account.name for account in await ledger.accounts()}
            account = None if account_name is None else await ledger.account(account_name)
            if account_name is not None and account is None:
                raise Failed(f"no account {account_name}")
            records = await ledger.requests(RequestFilter(account_id=account.id if account else None, **where))
            return [operator_report(each, currency, names.get(each.account_id, each.account_id)) for each in records]

    invocation.emit_rows(invocation.run(work), _COLUMNS)
