"""Progress in the terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.arena import Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console

__all__ = ["Bars", "bar", "bars"]


class Bars(NamedTuple):
    """`told` moves the bar of the load that runs, `advance` that of the scenarios."""

    told: Told
    advance: Callable[[], None]


@contextmanager
def bars(console: Console, scenarios: int) -> Iterator[Bars]:
    """Two bars: the scenarios, and the streams of the load that runs."""
    with _progress(console) as progress:
        whole = progress.add_task("scenarios", total=scenarios)
        one = progress.add_task("", total=None)
        yield Bars(
            Told(
                lambda what, streams: progress.reset(one, description=what, total=streams),
                lambda done: progress.update(one, completed=done),
            ),
            lambda: progress.advance(whole),
        )


@contextmanager
def bar(console: Console, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """One bar; call what it gives with how many are done."""
    with _progress(console) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)
