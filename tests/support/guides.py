"""The guides of docs/clients as programs: their fenced blocks, in order, in one directory, against a gateway.

A block of `PROGRAMS` is run. A block of another language is a file, which the line in front of it names as
``In `PATH`:``. A ``text`` block is what the program before it prints, with ``…`` for whatever differs. There is no
other kind, so that nothing in a guide is untried.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["FOLDER", "GuideFailed", "Place", "Printed", "files_of", "follow", "pages"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "clients"
#: The address and key of ``make demo``, which the guides are written for.
DEMO_URL = "http://127.0.0.1:8080"
DEMO_KEY = "sk-hoptrio-demo"
PROGRAMS = ("python", "js", "sh")
#: Agents take seconds, and far more on a machine that is busy.
RUN_S = 120

_BLOCK = re.compile(
    r"(?:In `(?P<path>[^`\n]+)`:\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class GuideFailed(AssertionError):
    """A guide does not say the truth; the message shows what happened instead."""


class Block(NamedTuple):
    """`path`: the file it is; "" for a program or an output."""

    language: str
    text: str
    path: str


class Printed(NamedTuple):
    """A program of a guide, and what it wrote to standard output."""

    program: str
    output: str


@dataclass
class Place:
    """Where a guide is followed: which gateway, and an empty home and working directory below `root`."""

    root: Path
    url: str
    key: str = DEMO_KEY
    python: str = sys.executable
    #: A ``node_modules`` with what the page needs; its programs come first in PATH.
    modules: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.work = self.root / "work"
        for each in (self.home, self.work):
            each.mkdir(parents=True, exist_ok=True)
        (self.work / "package.json").write_text('{"type": "module"}')
        if self.modules is not None and not (self.work / "node_modules").exists():
            (self.work / "node_modules").symlink_to(self.modules)

    def here(self, text: str) -> str:
        """What a guide says, for this gateway."""
        return text.replace(DEMO_URL, self.url).replace(DEMO_KEY, self.key)

    def write(self, path: str, text: str) -> None:
        """A file of a guide; ``~`` is the home."""
        file = self.home / path[2:] if path.startswith("~/") else self.work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.here(text), encoding="utf-8")

    def variables(self) -> dict[str, str]:
        """The environment of every program: nothing of the caller's but the way to the programs."""
        path = os.environ["PATH"]
        if self.modules is not None:
            path = f"{self.modules / '.bin'}{os.pathsep}{path}"
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **self.environment}

    def run(self, argv: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the working directory; `given` is its standard input."""
        return subprocess.run(
            argv,
            cwd=self.work,
            env=self.variables(),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )


def pages() -> list[str]:
    """The names of all guides."""
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def files_of(page: str) -> dict[str, str]:
    """The files of a guide, by path."""
    return {block.path: block.text for block in _blocks(page) if block.path}


def follow(page: str, place: Place) -> list[Printed]:
    """Do what a guide says. Raises GuideFailed if a program fails or prints something else than the guide says."""
    printed: list[Printed] = []
    for block in _blocks(page):
        if block.path:
            place.write(block.path, block.text)
        elif block.language == "text":
            _compare(page, printed, block.text)
        else:
            printed.append(Printed(block.text, _run(page, place, block)))
    if not printed:
        raise GuideFailed(f"{page} has no program")
    return printed


def _blocks(page: str) -> Iterator[Block]:
    for match in _BLOCK.finditer((FOLDER / f"{page}.md").read_text(encoding="utf-8")):
        language, path = match["language"], match["path"] or ""
        if not path and language not in (*PROGRAMS, "text"):
            raise GuideFailed(f"{page}: a block of {language} is neither a program nor has a file's name")
        yield Block(language, match["text"], path)


def _run(page: str, place: Place, block: Block) -> str:
    text = place.here(block.text)
    argv = {"python": [place.python, "-"], "js": ["node", "--input-type=module", "-"], "sh": ["sh", "-eu"]}
    run = place.run(argv[block.language], text)
    if run.returncode:
        raise GuideFailed(
            f"{page}: exit status {run.returncode} of\n{text}\n{run.stdout[-2000:]}\n{run.stderr[-4000:]}"
        )
    return run.stdout


def _compare(page: str, printed: list[Printed], expected: str) -> None:
    if not printed:
        raise GuideFailed(f"{page}: an output without a program")
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    if re.fullmatch(pattern, printed[-1].output.strip(), re.DOTALL) is None:
        raise GuideFailed(f"{page}: instead of\n{expected}\nthere came\n{printed[-1].output}")
