"""A page's shell blocks as a story: each is run by a real shell whose every program is ours.

The programs in its PATH hand their arguments to this process, which does what they would: commands of hoptrio run for
real, on a real config and database, and so does curl; what would change the machine (`systemctl`, `podman`) or run for
minutes (`make test`) is checked word by word against what it names: options, targets, files. A program that nobody
here knows fails the block.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hoptrio.cli import main as cli
from tests.support.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Story", "StoryFailed", "parsed"]

#: Answers of hoptrio's own server are quick; a block has no longer than this.
BLOCK_S = 60
DEMO_URL, CONTROL_URL, DEMO_KEY = "http://127.0.0.1:8080", "http://127.0.0.1:8081", "sk-hoptrio-demo"
#: Commands that serve until they are stopped.
SERVERS = ("serve", "demo", "simulate")

#: Hosts that stand for a reader's own (RFC 2606): what asks them is parsed and not run.
_NOWHERE = re.compile(r"//[\w.-]+\.example\b")

_STUB = """#!{python} -ISB
import json, os, socket, sys
call = {{"argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "cwd": os.getcwd(), "env": dict(os.environ)}}
with socket.socket(socket.AF_UNIX) as wire:
    wire.connect({address!r})
    wire.sendall(json.dumps(call).encode())
    wire.shutdown(socket.SHUT_WR)
    answer = json.loads(b"".join(iter(lambda: wire.recv(65536), b"")))
sys.stdout.write(answer["out"])
sys.stderr.write(answer["err"])
sys.exit(answer["status"])
"""


class StoryFailed(AssertionError):
    """A block does not do what its page says."""


class Wrong(Exception):
    """A program is called with what it does not take; the words say what."""


def parsed(command: click.Command, words: Sequence[str], parent: click.Context | None = None) -> click.Context:
    """Parse the arguments of a click command, down to the command they name. Raises Wrong."""
    try:
        context = command.make_context(parent.info_name if parent else "hoptrio", list(words), parent=parent)
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if not isinstance(command, click.Group) or not rest:
            return context
        _, chosen, left = command.resolve_command(context, rest)
        assert chosen is not None
        return parsed(chosen, left, context)
    except click.exceptions.Exit:
        # --help and --version.
        return click.Context(command)
    except click.ClickException as error:
        raise Wrong(error.format_message()) from None


class Story:
    """A directory, the programs, and what blocks have brought about so far."""

    def __init__(self, folder: Path, variables: Mapping[str, str], *, serve: Callable[[list[str], Path], str]) -> None:
        """`serve` starts what serves (its command, the directory) and returns its URL."""
        self.folder = folder
        self.variables = dict(variables)
        #: What is written on the page for what is there.
        self.here: dict[str, str] = {}
        #: The calls so far, each as one line.
        self.calls: list[str] = []
        self._serve = serve
        #: What else runs for real, by its name.
        self._programs: dict[str, Callable[[list[str], Path, Mapping[str, str]], tuple[int, str, str]]] = {
            "hoptrio": self._hoptrio,
            "curl": self._curl,
        }
        self._bin = folder / ".bin"
        self._bin.mkdir()
        self._address = str(folder / ".wire")
        for name in (*self._programs, *CHECKED):
            self._install(self._bin / name)
        # `make test` has made it.
        self._make_venv(folder / ".venv", "python")

    def run(self, text: str) -> str:
        """Run a block; what it printed. Raises StoryFailed."""
        for written, there in self.here.items():
            text = text.replace(written, there)
        with socket.socket(socket.AF_UNIX) as wire, contextlib.ExitStack() as stack:
            wire.bind(self._address)
            stack.callback(os.unlink, self._address)
            wire.listen()
            wire.settimeout(0.05)
            shell = subprocess.Popen(
                ["/bin/sh", "-eu"],
                cwd=self.folder,
                env={**self.variables, "PATH": str(self._bin), "HOME": str(self.folder)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(shell.kill)
            assert shell.stdin is not None
            # What a block exports is there for those after it.
            shell.stdin.write(f"{text}\nexport -p >{shlex.quote(str(self.folder / '.exported'))}\n")
            shell.stdin.close()
            shell.stdin = None
            self._answer(wire, shell)
            out, err = shell.communicate(timeout=BLOCK_S)
        if shell.returncode:
            raise StoryFailed(f"exit status {shell.returncode} of\n{text}\n{out}\n{err}")
        self._remember()
        return out

    def _answer(self, wire: socket.socket, shell: subprocess.Popen[str]) -> None:
        until = time.monotonic() + BLOCK_S
        while shell.poll() is None:
            if time.monotonic() > until:
                raise StoryFailed("it takes too long")
            try:
                caller, _ = wire.accept()
            except TimeoutError:
                continue
            with caller:
                caller.settimeout(BLOCK_S)
                call = json.loads(b"".join(iter(lambda caller=caller: caller.recv(65536), b"")))
                status, out, err = self._call(call["argv"], Path(call["cwd"]), call["env"])
                caller.sendall(json.dumps({"status": status, "out": out, "err": err}).encode())

    def _call(self, argv: list[str], cwd: Path, environ: Mapping[str, str]) -> tuple[int, str, str]:
        self.calls.append(shlex.join(argv))
        program, words = argv[0], argv[1:]
        try:
            if program in self._programs:
                return self._programs[program](words, cwd, environ)
            with _surroundings(cwd, environ):
                CHECKED[program](words)
        except Wrong as error:
            return 2, "", f"{program}: {error}\n"
        if program == "python3" and words[:2] == ["-m", "venv"]:
            self._make_venv(cwd / words[2], "pip", "hoptrio")
        if program == "make" and "binary" in words:
            (cwd / "dist").mkdir()
            self._install(cwd / "dist" / "hoptrio")
        if program == "make" and "demo" in words:
            self.here[DEMO_URL] = self._serve(["demo"], cwd)
        return 0, "", ""

    def _hoptrio(self, words: list[str], cwd: Path, environ: Mapping[str, str]) -> tuple[int, str, str]:
        with _surroundings(cwd, environ):
            context = parsed(cli.root, words)
        if any(_NOWHERE.search(word) for word in words):
            return 0, "", ""
        if context.command.name in SERVERS:
            self.here[DEMO_URL] = self._serve(words, cwd)
            return 0, "", ""
        # Whatever a page writes to lies in the story's directory.
        words = [self._below(word) if word.startswith("/") else word for word in words]
        with _surroundings(cwd, environ) as (out, err):
            status = cli.run(words)
        if secret := re.search(r"\bsk-[\w-]{20,}", out.getvalue()):
            self.here["sk-..."] = secret[0]
        return status, out.getvalue(), err.getvalue()

    def _below(self, path: str) -> str:
        there = self.folder / path[1:]
        there.parent.mkdir(parents=True, exist_ok=True)
        return str(there)

    def _curl(self, words: list[str], cwd: Path, environ: Mapping[str, str]) -> tuple[int, str, str]:
        """The real one, which is a failure here on any status that is one."""
        argv = ["curl", "--silent", "--show-error", "--max-time", "30", "--write-out", "%{stderr}%{http_code}", *words]
        ran = subprocess.run(
            argv, cwd=cwd, env={**environ, "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
        )
        failed = ran.stderr[-3:] >= "400"
        return ran.returncode or (22 if failed else 0), ran.stdout, ran.stderr + "\n"

    def _remember(self) -> None:
        exported = (self.folder / ".exported").read_text(encoding="utf-8")
        for name, value in re.findall(r"^export (\w+)='?(.*?)'?$", exported, re.MULTILINE):
            if name not in ("PATH", "HOME", "PWD", "OLDPWD"):
                self.variables[name] = value

    def _make_venv(self, folder: Path, *programs: str) -> None:
        (folder / "bin").mkdir(parents=True)
        for name in programs:
            self._install(folder / "bin" / name)

    def _install(self, path: Path) -> None:
        path.write_text(_STUB.format(python=sys.executable, address=self._address), encoding="utf-8")
        path.chmod(0o755)


@contextlib.contextmanager
def _surroundings(cwd: Path, environ: Mapping[str, str]) -> Any:
    """The caller's directory and environment, and what is written meanwhile."""
    before, there = dict(os.environ), Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    try:
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(cwd)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        os.chdir(there)
        os.environ.clear()
        os.environ.update(before)


# -- programs that are not run: each says what is wrong with its words ------------------------------------------------


def _check_make(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and not re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE):
            raise Wrong(f"there is no target {word}")
        if equals and f"$({name})" not in makefile:
            raise Wrong(f"no target uses {name}")
        if name in _MADE:
            _MADE[name](shlex.split(value))


def _check_demo(words: list[str]) -> None:
    parsed(cli.root, ["demo", *words])


def _check_bench(words: list[str]) -> None:
    from bench.__main__ import compare

    parsed(compare, words)


def _check_python(words: list[str]) -> None:
    if words[:1] != ["-m"]:
        raise Wrong("only modules are run")
    module, rest = words[1], words[2:]
    if module == "venv":
        return
    if find_spec(module) is None:
        raise Wrong(f"there is no module {module}")
    if module in _MODULES:
        _MODULES[module](rest)
    elif rest and module != "bench.provider":
        raise Wrong(f"nobody here knows what {module} takes")


def _check_pytest(words: list[str]) -> None:
    for word in words:
        if word.startswith("tests") and not (ROOT / word).exists():
            raise Wrong(f"there is no {word}")


def _check_hoptrio(words: list[str]) -> None:
    parsed(cli.root, words)


def _check_pip(words: list[str]) -> None:
    if words[0] != "install":
        raise Wrong(f"{words[0]} is not what pages do with pip")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in (each for each in words[1:] if each != "-e"):
        package = re.fullmatch(r"(?:\.|hoptrio)(?:\[(\w+)\])?", word)
        if package is None or (package[1] and package[1] not in project["optional-dependencies"]):
            raise Wrong(f"{word} is not there")


def _check_systemctl(words: list[str]) -> None:
    if words not in (["daemon-reload"], ["enable", "--now", "hoptrio"], ["reload", "hoptrio"]):
        raise Wrong(f"{shlex.join(words)} is not known here")


def _check_install(words: list[str]) -> None:
    """`install -d DIRECTORY`, or `install -m MODE SOURCE TARGET` of what is in the repository or built there."""
    if words[0] == "-d" and len(words) == 2:
        return
    if len(words) != 4 or words[0] != "-m" or not re.fullmatch("[67][0-7][0-7]", words[1]):
        raise Wrong("unknown words")
    if words[2] not in ("dist/hoptrio", "/dev/null") and not (ROOT / words[2]).is_file():
        raise Wrong(f"there is no {words[2]}")


def _check_podman(words: list[str]) -> None:
    if words[0] == "build":
        options = dict(zip(words[1:-1:2], words[2:-1:2], strict=True))
        # Podman's own format has no health check.
        if options.pop("--format", "") != "docker":
            raise Wrong("the health check is lost")
        if options.keys() != {"-f", "-t"} or not (ROOT / options["-f"]).is_file() or words[-1] != ".":
            raise Wrong("unknown words")
    elif words[0] == "run":
        _check_hoptrio(words[words.index("hoptrio") + 1 :])
    elif words[:2] == ["compose", "-f"]:
        _check_compose(ROOT / words[2], words[3:])
    else:
        raise Wrong(f"{words[0]} is not known here")


def _check_compose(file: Path, words: list[str]) -> None:
    import yaml

    services = yaml.safe_load(file.read_text(encoding="utf-8"))["services"]
    if words in (["up"], ["up", "--detach"]):
        return
    if words[0] != "exec" or words[1] not in services or words[2] != "hoptrio":
        raise Wrong(f"{shlex.join(words)} is not known here")
    _check_hoptrio(words[3:])


_MADE: Mapping[str, Callable[[list[str]], None]] = {"DEMO_ARGS": _check_demo, "BENCH_ARGS": _check_bench}
_MODULES: Mapping[str, Callable[[list[str]], None]] = {
    "bench": _check_bench,
    "hoptrio": _check_hoptrio,
    "pytest": _check_pytest,
}
CHECKED: Mapping[str, Callable[[list[str]], None]] = {
    "install": _check_install,
    "make": _check_make,
    "pip": _check_pip,
    "podman": _check_podman,
    "python": _check_python,
    "python3": _check_python,
    "systemctl": _check_systemctl,
}
