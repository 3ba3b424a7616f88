"""``hoptrio ledger``: the audit, the schema, and a stuck hold by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import Failed, Invocation, group
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from hoptrio.ledger.audit import AuditReport
    from hoptrio.ledger.model import Resolved

__all__ = ["ledger"]


@group()
def ledger() -> None:
    """The audit, the schema, and a stuck hold by hand."""


@ledger.command()
@click.pass_context
def audit(context: click.Context) -> None:
    """Recompute every invariant from the entries; exit 1 and the rows that break one."""
    invocation = context.ensure_object(Invocation)

    async def work() -> AuditReport:
        async with invocation.open_ledger() as opened:
            return await opened.audit()

    report = invocation.run(work)
    invocation.emit(_report(report))
    if not report.ok:
        context.exit(1)


@ledger.command()
@click.pass_obj
def migrate(invocation: Invocation) -> None:
    """Create the schema, or bring it up to date."""

    async def work() -> int:
        async with invocation.open_ledger() as opened:
            return await opened.schema_version()

    version = invocation.run(work)
    invocation.emit({"schema_version": version}, f"The schema is at version {version}.")


@ledger.command()
@click.argument("hold_id", metavar="HOLD")
@click.option("--why", required=True, help="Kept with the entry.")
@click.pass_obj
def release(invocation: Invocation, hold_id: str, why: str) -> None:
    """Release a hold that nobody settles."""

    async def work() -> Resolved | None:
        async with invocation.open_ledger() as opened:
            try:
                return await opened.release(hold_id, why)
            except ValueError as error:
                raise click.UsageError(str(error)) from None

    resolved = invocation.run(work)
    if resolved is None:
        raise Failed(f"no hold {hold_id}")
    if not resolved.first:
        raise Failed(f"{hold_id} was resolved before, charge {format_nanos(resolved.charge_nanos)}")
    invocation.emit({"hold": hold_id, "state": "released"}, f"{hold_id} is released.")


def _report(report: AuditReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "violations": list(report.violations),
        "accounts": report.accounts,
        "entries": report.entries,
        "open_holds": report.open_holds,
        "captured": report.captured,
        "released": report.released,
        "captured_amount": format_nanos(report.captured_nanos),
        "supplier_amount": format_nanos(report.supplier_nanos),
        "platform_amount": format_nanos(report.platform_nanos),
        "uncollected_amount": format_nanos(report.uncollected_nanos),
        "balances": format_nanos(report.balance_nanos),
        "held": format_nanos(report.held_nanos),
    }
