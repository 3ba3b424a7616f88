"""The rules of the house (docs/STYLE.md) that a program can hold, over the tracked files."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hoptrio.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hoptrio"
#: Amounts and token counts are computed here, as integers; a float would round money.
INTEGER_ROOMS = ("money.py", "metering/", "ledger/model.py", "admission/quote.py")
#: Longer than this, a function does more than one thing.
FUNCTION_LINES_MAX = 70
#: Distributions whose module has another name.
MODULES = {"toktok-rs": "toktok", "prometheus-client": "prometheus_client", "trio-websocket": "trio_websocket"}
#: Started by name or by Python itself, not by an import.
ROOTS = {"hoptrio", "hoptrio.__main__", "hoptrio.cli.main", "bench.__main__"}
ROOTS |= {f"hoptrio.cli.{lazy.module}" for lazy in COMMANDS.values()}


@cache
def tracked() -> list[Path]:
    """Files under version control or about to be; without git (an unpacked archive) all but the hidden ones."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = listing.stdout.decode().split("\0")
        paths = [ROOT / name for name in names if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not any(part.startswith(".") for part in path.parts)]
    return [path for path in paths if path.is_file() and "node_modules" not in path.parts]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def place(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if isinstance(node, ast.stmt | ast.expr | ast.ExceptHandler) else ""
    return f"{path.relative_to(ROOT)}{line}"


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Every module that may be meant: ``from a.b import c`` is a.b, or a.b.c if that is one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def test_every_module_has_an_importer() -> None:
    imported = {name for tree in trees().values() for name in imports_of(tree)}
    modules = {module_of(path): path for path in trees() if path.name != "__init__.py"}
    orphans = [place(path) for name, path in modules.items() if name not in imported | ROOTS]
    assert not orphans


def test_every_module_begins_with_a_docstring() -> None:
    assert not [place(path) for path, tree in trees().items() if not ast.get_docstring(tree)]


def test_nothing_prints_outside_the_command_line() -> None:
    prints = [
        place(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) == "print" and "cli" not in path.parts
    ]
    assert not prints


def test_nothing_sleeps_in_real_time() -> None:
    sleeps = [
        place(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and called(node) == "time.sleep"
    ]
    assert not sleeps


def test_no_handler_swallows_what_it_must_not() -> None:
    """A bare except takes everything; around a nursery ``except trio.Cancelled`` misses the group it comes in."""
    handlers = [
        place(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and (node.type is None or "Cancelled" in ast.unparse(node.type))
    ]
    assert not handlers


def is_float_arithmetic(node: ast.AST) -> bool:
    return (isinstance(node, ast.Call) and called(node) == "float") or (
        isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
    )


def test_money_knows_no_float() -> None:
    """No ``float()`` and no true division where amounts are computed, nor of an amount anywhere."""
    floats = [
        place(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if is_float_arithmetic(node)
        and (path.relative_to(PACKAGE).as_posix().startswith(INTEGER_ROOMS) or "nanos" in ast.unparse(node))
    ]
    assert not floats


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{place(path, node)} {node.name}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert not long


def test_no_dependency_is_unused() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[ ]", each, maxsplit=1)[0] for each in project["dependencies"]}
    imported = {name.partition(".")[0] for tree in trees().values() for name in imports_of(tree)}
    assert {MODULES.get(name, name) for name in names} - imported == set()


LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", [path for path in tracked() if path.suffix == ".md"], ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_no_file_names_a_path_of_one_machine() -> None:
    home = re.compile(r"(?<![\w.~$}])/(?:home|Users|root|work|mnt)/[\w.-]+")
    found = [
        f"{place(path)}: {match.group()}"
        for path in tracked()
        if path.suffix not in (".sse", ".lock") and path != Path(__file__).resolve()
        for match in home.finditer(text_of(path))
    ]
    assert not found
