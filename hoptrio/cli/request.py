"""``hoptrio request``: what became of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import to_builtins
from msgspec.structs import replace

from hoptrio.cli.options import DATE, Invocation, group
from hoptrio.ledger.report import iso_ms
from hoptrio.limits import CLI_ROWS_MAX, CONTROL_PAGE_ROWS_MAX

if TYPE_CHECKING:
    from hoptrio.control.shapes import RequestItem

__all__ = ["request"]

#: The most wanted first: what a terminal is too narrow for is left out.
_COLUMNS = ("id", "state", "charge", "created_at", "model", "account", "channel", "reason", "evidence", "flags")


@group()
def request() -> None:
    """The timeline, evidence and settlement of requests."""


@request.command()
@click.argument("request_id", metavar="ID")
@click.pass_obj
def show(invocation: Invocation, request_id: str) -> None:
    """Show one request."""
    from hoptrio.control.operations.requests import get_request
    from hoptrio.control.shapes import RequestId

    report = to_builtins(invocation.ask(get_request, RequestId(id=request_id)))
    if invocation.json:
        invocation.emit(report)
        return
    timeline = [f"{step['at_ms']} ms {step['event']}" for step in report.pop("timeline")]
    usage = report.pop("usage") or {}
    invocation.emit({**report, **usage, "timeline": timeline})


@request.command("list")
@click.option("--account", metavar="NAME", help="This account's only.")
@click.option("--key", metavar="ID", help="This key's only.")
@click.option(
    "--protocol", type=click.Choice(["chat", "responses", "messages", "gemini"]), help="What the client spoke."
)
@click.option("--model", help="The model that was asked for.")
@click.option("--channel", help="The channel that was asked last.")
@click.option(
    "--state",
    type=click.Choice(["running", "captured", "released", "refused"]),
    help="What became of it.",
)
@click.option("--reason", help="Why it was released or refused.")
@click.option("--client-request-id", help="The caller's own X-Client-Request-Id.")
@click.option("--since", "since_ms", type=DATE, metavar="DATE", help="Made from then on.")
@click.option("--until", "until_ms", type=DATE, metavar="DATE", help="Made before then.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=CLI_ROWS_MAX),
    default=50,
    show_default=True,
    help="How many requests at most.",
)
@click.pass_obj
def list_(
    invocation: Invocation, /, limit: int, since_ms: int | None, until_ms: int | None, **where: str | None
) -> None:
    """List requests, newest first."""
    from hoptrio.control.operations.requests import list_requests
    from hoptrio.control.shapes import RequestPage

    since, until = (None if at_ms is None else iso_ms(at_ms) for at_ms in (since_ms, until_ms))
    asked = RequestPage(since=since, until=until, **where)  # type: ignore[arg-type]

    async def work() -> list[RequestItem]:
        found: list[RequestItem] = []
        before: str | None = None
        async with invocation.asking() as ask:
            while len(found) < limit:
                rows = min(limit - len(found), CONTROL_PAGE_ROWS_MAX)
                page = await ask(list_requests, replace(asked, before=before, limit=rows))
                found += page.requests
                before = page.next
                if before is None:
                    break
        return found

    invocation.emit_whole([to_builtins(each) for each in invocation.run(work)], _COLUMNS)
