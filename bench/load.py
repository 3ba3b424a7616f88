"""``python -m bench load``: streams against an operator's own deployment, bounded in count and time, with a report.

What it cannot know there is what the streams cost the gateway, and when the provider sent an event; so delays are those
between events. Where the deployment's channel leads to the harness's own provider (``python -m bench.provider PORT``),
``--stamped`` asks for paced streams whose events carry their time.
"""

from __future__ import annotations

import ipaddress
import math
import secrets
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.bars import bar
from bench.contestants.named import Address
from bench.cores import cores_of_this_machine
from bench.dialogs import DIALOGS
from bench.job import Job, Shape
from bench.process import run_client

if TYPE_CHECKING:
    from bench.job import Outcome, Spread

__all__ = ["STREAMS_MAX", "load"]

#: Nobody's deployment is asked for more than this by one call.
STREAMS_MAX, RATE_MAX, SECONDS_MAX, REQUESTS_MAX = 2_000, 500, 900, 50_000
_PROMPT = "Count from one to fifty, one number a line, in words."
_RUNS = 10**6


@click.command()
@click.option("--url", required=True, help="The gateway's base URL, with or without /v1.")
@click.option("--key", required=True, envvar="BENCH_KEY", help="An API key of it; better in BENCH_KEY than here.")
@click.option("--protocol", type=click.Choice(sorted(DIALOGS)), default="chat", show_default=True)
@click.option("--model", default="sim-small", show_default=True)
@click.option(
    "--streams", type=click.IntRange(1, STREAMS_MAX), default=20, show_default=True, help="Open at a time, at most."
)
@click.option(
    "--rate", type=click.FloatRange(0.01, RATE_MAX), default=5.0, show_default=True, help="New streams a second."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, SECONDS_MAX),
    default=30.0,
    show_default=True,
    help="No new stream after this.",
)
@click.option(
    "--grace", type=click.FloatRange(0, 600), default=60.0, show_default=True, help="Seconds for those still open then."
)
@click.option("--prompt", default=_PROMPT, help="What is asked.")
@click.option("--stamped", is_flag=True, help="The channel leads to python -m bench.provider.")
@click.option("--events", type=click.IntRange(1, 100_000), default=100, show_default=True, help="With --stamped.")
@click.option(
    "--pace",
    type=click.FloatRange(0, 60),
    default=0.03,
    show_default=True,
    help="Seconds between events; with --stamped.",
)
@click.option(
    "--leaving", type=click.FloatRange(0, 1), default=0.0, help="The share of clients that leave; with --stamped."
)
@click.option("--json", "as_json", is_flag=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here, as Markdown.")
@click.option("--yes", is_flag=True, help="The URL is of another machine, and so many requests to it are meant.")
def load(
    url: str,
    key: str,
    protocol: str,
    model: str,
    streams: int,
    rate: float,
    seconds: float,
    grace: float,
    prompt: str,
    stamped: bool,
    events: int,
    pace: float,
    leaving: float,
    as_json: bool,
    out: Path | None,
    yes: bool,
) -> None:
    """The same kind of load against your own deployment. Ctrl-C gives the report of what there is so far.

    Exit status 1 if a stream failed.
    """
    address = _address(url)
    requests = math.ceil(rate * seconds)
    if requests > REQUESTS_MAX:
        raise click.UsageError(
            f"{rate:g} a second for {seconds:g} s are {requests:,} requests; at most {REQUESTS_MAX:,}"
        )
    if not yes and not _is_loopback(address.host):
        raise click.UsageError(
            f"this would send up to {requests:,} requests to {address.host}; say --yes if it is meant"
        )
    shape = Shape(
        streams=requests,
        at_once=streams,
        spread_s=seconds,
        events=events,
        pace_s=pace,
        leaving=leaving if stamped else 0.0,
    )
    job = Job(
        run=secrets.randbelow(_RUNS),
        shape=shape,
        host=address.host,
        port=address.port,
        tls=address.tls,
        base=address.base,
        key=key,
        model=model,
        protocol=protocol,
        limit_s=seconds + grace,
        until_s=seconds,
        prompt=None if stamped else prompt,
    )
    outcome = _run(job, requests)
    if as_json:
        click.echo(msgspec.json.encode(_figures(outcome, stamped=stamped)).decode())
    else:
        Console().print(_table(outcome, stamped=stamped))
    if out is not None:
        out.write_text(_markdown(job, outcome, url=url, stamped=stamped), encoding="utf-8")
    if not all(seen.complete or seen.left for seen in outcome.streams):
        raise SystemExit(1)


def _run(job: Job, requests: int) -> Outcome:
    cores = cores_of_this_machine()
    with bar(Console(stderr=True), "streams over", requests) as move:
        return run_client(job, cores.client | cores.provider, move)


def _address(url: str) -> Address:
    try:
        return Address(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from error


def _is_loopback(host: str) -> bool:
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise click.BadParameter(f"{host}: {error.strerror}", param_hint="--url") from error
    return all(ipaddress.ip_address(each).is_loopback for each in found)


def _figures(outcome: Outcome, *, stamped: bool) -> dict[str, object]:
    """Everything as numbers."""
    errors = Counter(seen.error for seen in outcome.streams if seen.error)
    return {
        "streams": len(outcome.streams),
        "complete": sum(seen.complete for seen in outcome.streams),
        "left": sum(seen.left for seen in outcome.streams),
        "errors": dict(errors),
        "seconds": round(outcome.wall_ns / 1e9, 3),
        "events": outcome.events,
        "events_per_s": round(outcome.events / (outcome.wall_ns / 1e9), 1),
        "bytes": outcome.bytes,
        "first_event_ms": _quantiles(outcome.first),
        "event_delay_ms" if stamped else "event_gap_ms": _quantiles(outcome.delay),
        "jitter_ms": round(outcome.jitter_ns / 1e6, 3),
        "input_tokens": sum(seen.input or 0 for seen in outcome.streams),
        "output_tokens": sum(seen.output or 0 for seen in outcome.streams),
        "stopped": outcome.stopped,
    }


def _quantiles(spread: Spread) -> dict[str, float]:
    if not spread.points:
        return {}
    return {
        name: round(spread.points[at] / 1e6, 3) for name, at in (("p50", 50), ("p90", 90), ("p99", 99), ("max", -1))
    }


def _lines(outcome: Outcome, *, stamped: bool) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _words(value)) for name, value in _figures(outcome, stamped=stamped).items()]


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{each} {count}" for each, count in value.items()) or "none"
    return f"{value:,}" if isinstance(value, int | float) else str(value) or "no"


def _table(outcome: Outcome, *, stamped: bool) -> Table:
    table = Table(title="load", title_justify="left", show_header=False)
    for line in _lines(outcome, stamped=stamped):
        table.add_row(*line)
    return table


def _markdown(job: Job, outcome: Outcome, *, url: str, stamped: bool) -> str:
    """The key is not in it."""
    asked = (
        f"{job.protocol}, model {job.model}, at most {job.shape.at_once} streams at a time, {job.shape.streams} in all"
    )
    lines = [f"# Load on {url}", f"{asked}.", "| | |\n|---|---|"]
    body = "\n".join(f"| {name} | {value} |" for name, value in _lines(outcome, stamped=stamped))
    return "\n\n".join(lines) + "\n" + body + "\n"
