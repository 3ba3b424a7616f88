"""The pinned packages of the clients, kept beside the tests; installing them again costs nothing.

They are some 1.5 GB (three agents bring a runtime of their own), so that the suite does without them.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GUIDES", "MODULES", "PYTHON", "install"]

#: The guides that are followed with these packages.
GUIDES = ("ai-sdk", "claude-code", "codex", "gemini-cli", "langchain", "opencode")

_FOLDER = Path(__file__).parent
_NODE = _FOLDER / "node"
_VENV = _FOLDER / ".venv"
MODULES = _NODE / "node_modules"
#: LangChain brings plugins for pytest and its own choice of SDK versions: it has an interpreter of its own.
PYTHON = _VENV / "bin" / "python"


def install() -> None:
    """Bring what is missing. Raises CalledProcessError if npm or pip cannot."""
    # Without a lock, whose list of every platform's binaries a mirror may not have in full; the versions are exact, and
    # the agents depend on nothing else.
    _once(MODULES / ".installed", _NODE / "package.json", lambda: _run(["npm", "install", "--loglevel=error"], _NODE))
    _once(_VENV / ".installed", _FOLDER / "requirements.txt", _make_venv)


def _make_venv() -> None:
    _run([sys.executable, "-m", "venv", "--clear", str(_VENV)], _FOLDER)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    _run([*pip, "--requirement", "requirements.txt"], _FOLDER)


def _once(stamp: Path, what: Path, make: Callable[[], None]) -> None:
    """`make`, unless the stamp says that it was made of the same file."""
    checksum = str(zlib.crc32(what.read_bytes()))
    if not stamp.is_file() or stamp.read_text() != checksum:
        make()
        stamp.write_text(checksum)


def _run(argv: list[str], directory: Path) -> None:
    subprocess.run(argv, cwd=directory, check=True, stdout=subprocess.DEVNULL)
