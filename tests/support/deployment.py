"""A gateway as an operator runs it: a config file, `hoptrio serve` in a process of its own, commands beside it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from hoptrio.cli.main import run
from tests.support import hasty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Deployment", "Server", "as_records", "as_toml", "config_for", "served"]

READY_S = 20.0
ROOT = Path(__file__).resolve().parents[2]
HOPTRIO = [sys.executable, "-m", "hoptrio"]
#: What a command prints is caught from the whole process.
_one_command = threading.Lock()


def config_for(provider: str) -> dict[str, Any]:
    """A config whose one channel is the simulated provider at this base URL; tests change what they need."""
    return {
        "server": {"listen": "127.0.0.1:0", "contract": "test"},
        "control": {"listen": "127.0.0.1:0"},
        "ledger": {"url": "sqlite:///hoptrio.db"},
        "contracts": {"test": {"preset": "hoptrio"}},
        "models": {
            "sim-small": {
                "input": "0.50",
                "output": "2.00",
                "max_input_tokens": 200_000,
                "max_output_tokens": 8_192,
            }
        },
        "channels": {
            "simulated": {
                "protocols": ["chat", "responses", "messages", "gemini"],
                "base_url": {
                    "chat": f"{provider}/v1",
                    "responses": f"{provider}/v1",
                    "messages": provider,
                    "gemini": provider,
                },
                "api_key": "sk-provider",
                "models": ["sim-small"],
            }
        },
    }


def as_toml(config: dict[str, Any]) -> str:
    """The config as TOML: tables two levels deep, everything below them inline."""
    lines = []
    for name, table in config.items():
        lines += [f"[{name}]", *(f"{json.dumps(key)} = {_inline(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


class Deployment:
    """A directory with a config and a database."""

    def __init__(self, directory: Path, config: dict[str, Any]) -> None:
        self.directory = directory
        self.config = config
        self.write_config()

    def write_config(self) -> None:
        """Save `config`, changed or not."""
        self.path.write_text(as_toml(self.config))

    @property
    def path(self) -> Path:
        """The config file."""
        return self.directory / "hoptrio.toml"

    @property
    def database(self) -> Path:
        """The ledger, if it is a file."""
        return self.directory / "hoptrio.db"

    @property
    def url(self) -> str:
        """The ledger's URL, wherever one stands."""
        url = str(self.config["ledger"]["url"])
        return f"sqlite:///{self.database}" if url.startswith("sqlite:") else url

    def command(self, *arguments: str, check: bool = True) -> Any:
        """Run a command of the command line with ``--json`` as a process of its own; what it printed."""
        run = subprocess.run(
            [*HOPTRIO, *arguments, "--json"],
            cwd=self.directory,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if check and run.returncode != 0:
            raise AssertionError(f"hoptrio {' '.join(arguments)}: {run.returncode}\n{run.stdout}{run.stderr}")
        return json.loads(run.stdout)

    def books(self, *arguments: str) -> Any:
        """What a command says with ``--json``, run in this process: for the books before and after a test, which an
        interpreter of its own takes a hundred times as long to open as to read. Whatever its exit status is."""
        out, err = io.StringIO(), io.StringIO()
        # In another thread: trio may run in this one.
        with _one_command, redirect_stdout(out), redirect_stderr(err), ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(run, [*arguments, "--json", "--config", str(self.path)]).result()
        if not out.getvalue():
            raise AssertionError(f"hoptrio {' '.join(arguments)}: {err.getvalue()}")
        return json.loads(out.getvalue())

    def add_account(self, name: str, deposit: str = "1000") -> str:
        """An account with a balance; the secret of its key."""
        self.books("account", "create", name, "--deposit", deposit)
        return str(self.books("key", "create", "--account", name)["secret"])

    def balance(self, name: str) -> tuple[str, str]:
        """(balance, held) of an account."""
        shown = self.books("account", "show", name)
        return shown["balance"], shown["held"]

    def audit(self) -> dict[str, Any]:
        """What ``ledger audit`` says; it is never a failure of the command alone."""
        report: dict[str, Any] = self.books("ledger", "audit")
        return report


def as_records(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """Every request the ledger knows (up to the command's limit), by id."""
    return {record["id"]: record for record in deployment.books("request", "list", "--limit", "10000")}


class Server:
    """A running `hoptrio serve`. Its log is in `log`, complete once it has ended."""

    def __init__(
        self,
        argv: list[str],
        directory: Path,
        *,
        preexec: Any = None,
        module: str = "hoptrio",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = directory / "log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *argv],
                cwd=directory,
                env=_environment() | (environment or {}),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=preexec,
            )
        told = self._await_ready()
        self.url = str(told["listen"][0])
        #: Of the control plane, "" if it is not served.
        self.control = str(next(iter(told["control"]), ""))

    def _await_ready(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        alarm = threading.Timer(READY_S, self.process.kill)
        alarm.start()
        try:
            line = self.process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            self.stop(signal.SIGKILL)
            raise RuntimeError(f"it did not get ready:\n{self.log}")
        told: dict[str, Any] = json.loads(line)
        return told

    @property
    def pid(self) -> int:
        """The gateway's own process."""
        return self.process.pid

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text()

    def logged(self, **members: object) -> list[dict[str, Any]]:
        """The lines of its log that have these members."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if members.items() <= line.items()]

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def ready(self) -> tuple[int, dict[str, Any]]:
        """The status and body of ``/readyz``."""
        answer = httpx.get(f"{self.url}/readyz", timeout=10)
        return answer.status_code, answer.json()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Its exit status."""
        return self.process.wait(timeout_s)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, timeout_s: float = 20.0) -> int:
        """End it, by force if it does not end in time; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.returncode


def _environment() -> dict[str, str]:
    """The project is run from where it lies, installed or not."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


@contextmanager
def served(
    deployment: Deployment, *, preexec: Any = None, limits: Mapping[str, float] | None = None
) -> Iterator[Server]:
    """`hoptrio serve` until the block ends; with `limits`, these are not the product's own (`hasty`)."""
    special: dict[str, Any] = {}
    if limits:
        special = {"module": hasty.__name__, "environment": hasty.environment(limits)}
    server = Server(["serve", "--json"], deployment.directory, preexec=preexec, **special)
    try:
        yield server
    finally:
        server.stop()
