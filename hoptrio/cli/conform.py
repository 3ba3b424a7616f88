"""``hoptrio conform``: known faults of streaming gateways, tried on any gateway from outside."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli.options import Invocation, json_option
from hoptrio.cli.shown import printable
from hoptrio.cli.simulate import address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hoptrio.conform.case import Case
    from hoptrio.conform.report import Report
    from hoptrio.conform.run import Row
    from hoptrio.conform.session import Plan

__all__ = ["conform"]

KEY_VARIABLE = "HOPTRIO_CONFORM_KEY"


def _writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Before the run: it takes minutes."""
    if path is not None:
        try:
            path.open("a").close()
        except OSError as error:
            raise click.BadParameter(f"{path} cannot be written: {error.strerror}") from None
    return path


def _list(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from hoptrio.conform.cases import CASES

        rows = [case.as_dict() for case in CASES]
        context.ensure_object(Invocation).emit_rows(rows, ("number", "name", "fault", "right"))
        context.exit()


@click.command("conform")
@click.option("--url", metavar="URL", help="The gateway, e.g. http://127.0.0.1:8080.")
@click.option(
    "--key",
    metavar="K",
    envvar=KEY_VARIABLE,
    default="none",
    help=f"Its key; better in {KEY_VARIABLE}, since others may see a command's arguments.",
)
@click.option(
    "--upstream",
    "listen",
    metavar="H:P",
    callback=address,
    default="127.0.0.1:8090",
    show_default=True,
    help="Where the provider of the tests listens: the gateway's channel.",
)
@click.option(
    "--model",
    metavar="NAME",
    default="conform-{protocol}",
    show_default=True,
    help="The model to ask for; {protocol} stands for the protocol of its channel.",
)
@click.option(
    "--protocol",
    "protocols",
    type=click.Choice(["chat", "responses", "messages", "gemini"]),
    multiple=True,
    help="Only in these.",
)
@click.option("--case", "numbers", type=int, metavar="NN", multiple=True, help="Only these cases, however long.")
@click.option("--quick", is_flag=True, help="Only cases that take less than 15 s.")
@click.option("--deadline", is_flag=True, help="Also those that take ten minutes.")
@click.option(
    "--keepalive",
    "keepalive_s",
    type=click.FloatRange(0.5, 60),
    default=10.0,
    show_default=True,
    metavar="S",
    help="The interval of keep-alives that the gateway is set to.",
)
@click.option(
    "--stall",
    "stall_s",
    type=click.FloatRange(5, 590),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Its stall limit.",
)
@click.option("--streams", type=click.IntRange(1, 400), default=40, show_default=True, help="At a time.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), callback=_writable, help="Write a page of Markdown."
)
@click.option("--name", metavar="TEXT", help="The gateway's name and version, for the report.")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="The cases, and what is right."
)
@click.option(
    "--print-config",
    type=click.Choice(["hoptrio", "litellm"]),
    help="Instead of a run: a config that fits the other options.",
)
@click.pass_context
def conform(context: click.Context, /, *, print_config: str | None, report: Path | None, **options: Any) -> None:
    """Try known faults of streaming gateways on a gateway, between a provider and a client of ours.

    The gateway's channel has to be the address of --upstream, where this command listens; --print-config shows how.
    Exits with 0 if nothing fails, 1 if something does, 2 if nothing could be tried.
    """
    from hoptrio.conform.configs import CONFIGS, config_for
    from hoptrio.conform.report import SECTIONS, as_dict, as_markdown, as_table, aside, findings, has_failed, summary

    invocation = context.ensure_object(Invocation)
    plan = _plan(context, CONFIGS[print_config] if print_config else None, **options)
    if print_config is not None:
        click.echo(config_for(print_config, plan.provider, plan.target, plan.settings), nl=False)
        return
    made = _conducted(plan, quiet=invocation.json)
    if report is not None:
        report.write_text(as_markdown(made), encoding="utf-8")
    invocation.emit(as_dict(made), lambda: as_table(made))
    if not invocation.json:
        told = {title: findings(made, verdict) for title, verdict in SECTIONS.items()} | aside(made)
        for title, lines in told.items():
            for line in lines:
                click.echo(printable(f"{title.lower()}: {line}"))
        click.echo(summary(made))
    if has_failed(made):
        context.exit(1)


def _plan(
    context: click.Context,
    default_url: str | None,
    *,
    url: str | None,
    key: str,
    model: str,
    listen: tuple[str, int],
    protocols: tuple[str, ...],
    numbers: tuple[int, ...],
    quick: bool,
    deadline: bool,
    keepalive_s: float,
    stall_s: float,
    streams: int,
    name: str | None,
) -> Plan:
    from hoptrio.conform.session import DEFAULT_S, QUICK_S, Plan
    from hoptrio.conform.settings import Settings
    from hoptrio.conform.target import TargetError, target_at
    from hoptrio.protocols.events import Protocol

    if quick and deadline:
        raise click.UsageError("--quick and --deadline exclude each other", context)
    url = url or default_url
    if url is None:
        raise click.UsageError("--url is missing: where is the gateway?", context)
    try:
        target = target_at(url, key=key, model=model)
    except TargetError as error:
        raise click.UsageError(str(error), context) from None
    return Plan(
        target=target,
        listen=listen,
        name=name or url,
        settings=Settings(keepalive_s=keepalive_s, stall_s=stall_s),
        cases=_chosen(numbers, context),
        protocols=tuple(Protocol(each) for each in protocols) or tuple(Protocol),
        allowed_s=QUICK_S if quick else float("inf") if deadline or numbers else DEFAULT_S,
        streams=streams,
    )


def _chosen(numbers: tuple[int, ...], context: click.Context) -> tuple[Case, ...]:
    from hoptrio.conform.cases import CASES, UNSEEN

    for number in numbers:
        unseen = next((each for each in UNSEEN if each.number == number), None)
        if unseen is not None:
            raise click.UsageError(f"case {number} cannot be tried from outside: {unseen.why}", context)
        if number not in {case.number for case in CASES}:
            raise click.UsageError(f"there is no case {number} that can be tried alone (see --list)", context)
    return tuple(case for case in CASES if not numbers or case.number in numbers)


def _conducted(plan: Plan, *, quiet: bool) -> Report:
    """Raises UsageError if nothing can be tried."""
    import trio

    from hoptrio.conform.preflight import NotReady
    from hoptrio.conform.session import conduct

    with _progress(quiet=quiet) as (begin, tell):
        try:
            return trio.run(conduct, plan, begin, tell, strict_exception_groups=True)
        except NotReady as error:
            raise click.UsageError(str(error)) from None


@contextmanager
def _progress(*, quiet: bool) -> Iterator[tuple[Callable[[int], None], Callable[[Row], None]]]:
    """A bar on stderr if that is a terminal, else a line for each tenth of the whole."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("a plain stream in each protocol", total=None)

        def begin(total: int) -> None:
            progress.update(task, total=total, description="")

        def tell(row: Row) -> None:
            progress.update(task, advance=1, description=f"case {row.number} {row.protocol}: {row.verdict.value}")
            done, total = progress.tasks[0].completed, progress.tasks[0].total or 1
            if progress.disable and not quiet and done % max(1, total // 10) < 1:
                click.echo(f"{done:.0f} of {total:.0f}", err=True)

        yield begin, tell


conform.params.append(json_option())
