"""``python -m tests.clients.websocket``: Codex CLI finishes a turn over WebSocket, or exit status 1.

One `codex exec`: it connects, prewarms, lets the model call its shell and returns the result as a continuation, all on
one connection. Proof is the ledger (the requests are turns of one handshake, each captured at the script's price) and
the file that the tool wrote. Codex is that of `make clients`,
the one on PATH, or from npm in a cache folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.clients.packages import MODULES
from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.running import simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["faults"]

CODEX = "@openai/codex@0.171.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hoptrio-clients"
#: Codex gives up long before.
TURN_S = 120.0
PROMPT = """Do it.
sim: events=3 pace=1ms tools=1 input=1000 output=50 args='{"cmd":"echo done > proof.txt"}'
"""
#: 1,000 and 50 tokens at the prices of `config_for`.
CHARGE = Decimal("0.0006")
TURN_ID = re.compile(r"(req_[0-9a-f]+)-(\d+)")
CONFIG = """
model = "sim-small"
model_provider = "hoptrio"

[model_providers.hoptrio]
name = "hoptrio"
base_url = "{url}/v1"
env_key = "HOPTRIO_API_KEY"
wire_api = "responses"
supports_websockets = true
"""


def codex() -> str:
    """The program. Raises CalledProcessError if npm cannot bring it."""
    installed = CACHE / "node_modules" / ".bin" / "codex"
    for found in (MODULES / ".bin" / "codex", installed):
        if found.exists():
            return str(found)
    found_on_path = shutil.which("codex")
    if found_on_path is None:
        subprocess.run(["npm", "install", "--prefix", str(CACHE), CODEX], check=True, stdout=subprocess.DEVNULL)
    return found_on_path or str(installed)


def faults(directory: Path) -> list[str]:
    """Take the turn in an empty directory; what is wrong with it, [] = nothing."""
    program = codex()
    work, home = directory / "work", directory / "home"
    for each in (work, home):
        each.mkdir()
    with simulator() as provider:
        deployment = Deployment(directory, config_for(provider))
        key = deployment.add_account("acme")
        with served(deployment) as server:
            (home / "config.toml").write_text(CONFIG.format(url=server.url))
            run = _run(program, work, {"CODEX_HOME": str(home), "HOME": str(directory), "HOPTRIO_API_KEY": key})
            return [*_of_client(run, work), *_of_ledger(deployment)]


def _run(program: str, work: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT],
        cwd=work,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TURN_S,
    )


def _of_client(run: subprocess.CompletedProcess[str], work: Path) -> Iterator[str]:
    if run.returncode:
        yield f"exit status {run.returncode}: {run.stderr[-600:]}"
    if not run.stdout.strip():
        yield "it has nothing to say"
    if not (work / "proof.txt").is_file():
        yield "its tool was not called"


def _of_ledger(deployment: Deployment) -> Iterator[str]:
    records = list(as_records(deployment).values())
    turns = [match for record in records if (match := TURN_ID.fullmatch(record["id"]))]
    if len(turns) != len(records) or len({match[1] for match in turns}) != 1:
        yield f"not all came over one WebSocket: {sorted(record['id'] for record in records)}"
    if sorted(int(match[2]) for match in turns) != [2, 3]:
        yield "there are other turns than the call and the result behind the prewarm"
    yield from (fault for record in records for fault in _wrong(record))
    audit = deployment.audit()
    if not audit["ok"] or audit["open_holds"]:
        yield f"the audit says {audit}"


def _wrong(record: dict[str, Any]) -> Iterator[str]:
    if (record["state"], record["evidence"]) != ("captured", "sse_terminal"):
        yield f"{record['id']} is {record['state']} by {record['evidence']}"
    elif Decimal(record["charge"]) != CHARGE:
        yield f"{record['id']} cost {record['charge']}, not {CHARGE}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hoptrio-codex-") as scratch:
        found = faults(Path(scratch))
    sys.stdout.write("\n".join(found or ["Codex finished a turn with a tool call over one WebSocket"]) + "\n")
    sys.exit(bool(found))
