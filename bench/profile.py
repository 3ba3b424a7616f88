"""``python -m bench profile SCENARIO``: where hoptrio's CPU goes in a scenario, by room, by library and by function.

py-spy looks at the running process from outside, so that nothing of what is measured is changed. A sample is counted
for the innermost function of hoptrio on the stack, and for the library of the innermost function of all.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from bench.arena import Told, arena
from bench.contestants.hoptrio import Hoptrio
from bench.cores import cores_of_this_machine
from bench.job import Shape
from bench.scenario import scenarios

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Frame", "Profile", "profile", "read_stacks"]

_FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]*):(?P<line>\d+)\)$")
_PRODUCT = "/hoptrio/"
#: Outside, and the command that calls ``trio.run``: what is on top of that alone is the event loop's.
_NO_ROOMS = ("", "cli")
_SHOWN = 30
_PRINTED = 12


class Frame(NamedTuple):
    """A function on a stack; `room` is "" outside hoptrio."""

    function: str
    file: str
    room: str
    library: str


class Profile(NamedTuple):
    """Samples, counted."""

    samples: int
    rooms: Counter[str]
    libraries: Counter[str]
    functions: Counter[str]

    def markdown(self, title: str) -> str:
        """Three tables."""
        parts = [f"# Profile: {title}\n\n{self.samples:,} samples on the CPU."]
        for name, counts in (("room", self.rooms), ("library", self.libraries), ("function", self.functions)):
            lines = [f"| {name} | share |", "|---|---|"]
            lines += [f"| {each} | {count / self.samples:.1%} |" for each, count in counts.most_common(_SHOWN)]
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"


def read_stacks(lines: Iterable[str]) -> Profile:
    """From py-spy's raw format: frames from the outermost, separated by ``;``, and a count."""
    rooms: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    samples = 0
    for line in lines:
        stack, _, number = line.strip().rpartition(" ")
        if not number.isdigit():
            continue
        frames = [frame for each in stack.split(";") if (frame := _frame(each)) is not None]
        if not frames:
            continue
        samples += int(number)
        ours = next((frame for frame in reversed(frames) if frame.room not in _NO_ROOMS), None)
        rooms[ours.room if ours else f"outside ({frames[-1].library})"] += int(number)
        libraries[frames[-1].library] += int(number)
        functions[f"{frames[-1].file} {frames[-1].function}"] += int(number)
    return Profile(samples, rooms, libraries, functions)


def _frame(text: str) -> Frame | None:
    match = _FRAME.match(text)
    if match is None:
        return None
    file = match["file"]
    if _PRODUCT in file:
        inside = file.rpartition(_PRODUCT)[2]
        return Frame(match["function"], f"hoptrio/{inside}", inside.partition("/")[0], "hoptrio")
    inside = file.rpartition("/site-packages/")[2] if "/site-packages/" in file else file.rpartition("/")[2]
    library = inside.partition("/")[0] if "/site-packages/" in file else "the standard library"
    return Frame(match["function"], inside, "", library)


@click.command()
@click.argument("scenario", type=click.Choice([each.name for each in scenarios()]))
@click.option("--rate", type=click.IntRange(10, 1000), default=400, show_default=True, help="Samples a second.")
@click.option("--times", type=click.IntRange(1, 20), default=2, show_default=True, help="Loads, one after another.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/bench"),
    show_default=True,
    help="Where profile-SCENARIO.md and .raw (for speedscope or a flame graph) go.",
)
def profile(scenario: str, rate: int, times: int, out: Path) -> None:
    """Where hoptrio's CPU goes in SCENARIO."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        raise click.ClickException("py-spy is not installed: pip install 'hoptrio[bench]'")
    chosen = next(each for each in scenarios() if each.name == scenario)
    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    raw = out / f"profile-{scenario}.raw"
    told = Told(lambda what, streams: console.print(what), lambda done: None)
    with arena(cores_of_this_machine(), told) as place, place.started(Hoptrio(), chosen.workers) as contestant:
        place.run(chosen, contestant, shape=Shape(streams=32, at_once=16, events=2))
        argv = [program, "record", "--pid", str(contestant.pids[0]), "--rate", str(rate), "--format", "raw"]
        argv += ["--full-filenames", "--subprocesses", "--nonblocking", "--output", str(raw)]
        spy = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            for number in range(times):
                console.print(f"{scenario}, load {number + 1} of {times}")
                place.run(chosen, contestant, number=number)
        finally:
            spy.send_signal(signal.SIGINT)
            _, complaint = spy.communicate(timeout=60)
    if not raw.exists():
        raise click.ClickException(f"py-spy saw nothing: {complaint.strip()}")
    found = read_stacks(raw.read_text().splitlines())
    if not found.samples:
        raise click.ClickException("py-spy saw nothing on the CPU")
    (out / f"profile-{scenario}.md").write_text(found.markdown(f"{scenario}: {chosen.title}"), encoding="utf-8")
    for name, counts in (("room", found.rooms), ("library", found.libraries), ("function", found.functions)):
        console.print(_table(name, counts, found.samples))


def _table(name: str, counts: Counter[str], samples: int) -> Table:
    table = Table(title=f"by {name}", title_justify="left")
    table.add_column(name)
    table.add_column("share", justify="right")
    for each, count in counts.most_common(_PRINTED):
        table.add_row(each, f"{count / samples:.1%}")
    return table
