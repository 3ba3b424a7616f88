"""``hoptrio certify``: probe channels with a real stream, write the evidence, and say in words what is wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import Invocation, command
from hoptrio.ledger.report import iso_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hoptrio.admission.certificates import Certificates
    from hoptrio.certification.probe import Result
    from hoptrio.config import Config
    from hoptrio.ledger.model import Probed

__all__ = ["certify"]

_COLUMNS = ("channel", "model", "protocol", "certified", "finding", "why", "input", "output", "seconds", "valid_until")


@command()
@click.option("--channel", metavar="C", help="This channel only, whatever its route; default: all on shared routes.")
@click.option("--model", metavar="M", help="This model only.")
@click.pass_context
def certify(context: click.Context, channel: str | None, model: str | None) -> None:
    """Probe each channel, model and protocol with a small real stream, at the provider's price; charged to nobody.

    Works beside a running gateway, which goes by the result within seconds. Exits with 1 if a probe fails.
    """
    from hoptrio.certification.certifier import what_to_probe
    from hoptrio.service.logs import set_up_logs

    set_up_logs()
    invocation = context.ensure_object(Invocation)
    config = invocation.config()
    _check_names(config, channel, model)
    what = what_to_probe(config.catalogue, channel=channel, model=model)
    rows = invocation.run(_certify, invocation, config, what)
    invocation.emit_rows(rows, _COLUMNS)
    if not rows:
        invocation.note("nothing to probe: only shared routes need certificates (--channel names any)")
    if not all(row["certified"] for row in rows):
        context.exit(1)


def _check_names(config: Config, channel: str | None, model: str | None) -> None:
    for kind, name, names in (
        ("channel", channel, config.catalogue.channels),
        ("model", model, config.catalogue.models),
    ):
        if name is not None and name not in names:
            raise click.UsageError(f"no {kind} {name}; there are {', '.join(sorted(names)) or 'none'}")


async def _certify(invocation: Invocation, config: Config, what: Sequence[Probed]) -> list[dict[str, Any]]:
    from hoptrio.admission.certificates import Certificates
    from hoptrio.certification.certifier import Certifier
    from hoptrio.upstream.client import Upstream

    results: dict[Probed, Result] = {}
    async with invocation.open_ledger() as ledger, Upstream() as upstream:
        certifier = Certifier(ledger, upstream, valid_days=config.certification.valid_days)
        with _progress(len(what), quiet=invocation.json) as advance:

            def tell(probed: Probed, result: Result) -> None:
                results[probed] = result
                advance(f"{probed.channel} {probed.model} {probed.protocol}: {result.finding}")

            await certifier.certify_all(config.catalogue, what, tell=tell)
        certificates = Certificates(ledger)
        await certificates.refresh()
    return [_row(config, certificates, probed, results[probed]) for probed in what]


@contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr, if that is a terminal; yields what moves it on, with a few words on the last probe."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("probing", total=total)
        yield lambda words: progress.update(task, advance=1, description=escape(words))


def _row(config: Config, certificates: Certificates, probed: Probed, result: Result) -> dict[str, Any]:
    from hoptrio.protocols.events import Protocol

    channel = config.catalogue.channels[probed.channel]
    expires_at_ms = certificates.expires_at_ms(channel, probed.model, Protocol(probed.protocol))
    return {
        "channel": probed.channel,
        "model": probed.model,
        "protocol": probed.protocol,
        "certified": result.certified,
        "finding": result.finding.value,
        "why": result.words,
        "input": result.usage.all_input if result.usage else None,
        "output": result.usage.output if result.usage else None,
        "evidence": result.evidence or None,
        "seconds": round(result.duration_s, 2),
        "valid_until": iso_ms(expires_at_ms) if expires_at_ms else None,
    }
