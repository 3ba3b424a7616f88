"""The official Node SDKs, pinned, installed once beside their tests (tests/sdk/node)."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

__all__ = ["NODE", "install_sdks"]

NODE = Path(__file__).resolve().parents[1] / "sdk" / "node"


def install_sdks() -> None:
    """Bring them if they are missing; test processes that start together wait for one another."""
    with (NODE / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (NODE / "node_modules" / ".package-lock.json").is_file():
            subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=NODE, check=True, capture_output=True)
