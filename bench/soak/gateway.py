"""Gateway: a real ``hoptrio serve`` with two workers and HTTPS on both planes, in a folder of its own, and what an
operator may do to it.

The caps of its config are small, so that whatever is kept by design has its full size in the first minutes: what grows
after that is a leak.
"""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import trio
import trustme

from bench.contestants.hoptrio import catalogue, make_key
from bench.counters import tree
from bench.process import module, running
from bench.soak.visitor import Door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.cores import Cores
    from bench.process import Running
    from bench.soak.database import Database

__all__ = ["SPOOL_BYTES_MAX", "WORKERS", "Gateway", "serving"]

WORKERS = 2
SPOOL_BYTES_MAX = 64 * 1024 * 1024
#: Longer than any stream of the crowd.
_GRACE_S = 120
_STALL_S = 10
_HOST = "127.0.0.1"
_TOKEN = "soak"
_ADDRESSES = re.compile(r"listens on https://127\.0\.0\.1:(\d+); control plane on https://127\.0\.0\.1:(\d+)")
#: A new config or certificate is in force when so many new connections in a row were served with it.
_IN_A_ROW = 8
_POLL_S = 0.2


class Gateway:
    """One that runs."""

    def __init__(self, folder: Path, log: Path, provider_port: int, url: str, key: str, run: int) -> None:
        self.folder = folder
        #: All that it has printed.
        self.log = log
        self._provider_port = provider_port
        self._url = url
        self._key = key
        self._run = run
        self._authority = trustme.CA()
        self._certificate = b""
        self._generation = 0
        self._process: Running | None = None
        self._control_port = 0
        self.tls = ssl.create_default_context()
        self._authority.configure_trust(self.tls)
        self.door = Door(_HOST, 0, self.tls, key, run)

    @property
    def config(self) -> Path:
        """The file."""
        return self.folder / "hoptrio.toml"

    @property
    def spool(self) -> Path:
        """Where it keeps answers."""
        return self.folder / "spool"

    @property
    def pid(self) -> int:
        """The supervisor's."""
        assert self._process is not None
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """Their processes, the oldest first, those that drain included."""
        return list(tree(self.pid)[1:])

    def started(self, process: Running) -> None:
        """It was told to start; wait until it listens."""
        match = _ADDRESSES.search(process.await_line(lambda line: line if _ADDRESSES.search(line) else ""))
        assert match is not None
        self._process = process
        self.door = self.door._replace(port=int(match[1]))
        self._control_port = int(match[2])

    # -- what is done to it -------------------------------------------------------------------------------------------

    async def reload(self) -> str:
        """A changed config, and SIGHUP; until every worker is one of the new. Raises TooSlowError."""
        self._generation += 1
        self.write_config()
        self._hang_up()
        name = f"extra-{self._generation}".encode()

        async def is_new() -> bool:
            return name in await self.door.get("/v1/models")

        await _in_a_row(is_new)
        return f"a model more ({name.decode()})"

    async def renew(self) -> str:
        """A new certificate for both planes, and SIGHUP; until every worker shows it. Raises TooSlowError."""
        self.write_certificate()
        self._hang_up()
        await _in_a_row(self._shows_certificate)
        return "the new certificate is shown"

    async def kill(self, number: int) -> str:
        """kill -9 of a worker; until another has taken its place. Raises TooSlowError."""
        workers = self.workers
        # The youngest are those that serve.
        os.kill(workers[-1 - number % WORKERS], signal.SIGKILL)
        await trio.sleep(_POLL_S)
        while len(self.workers) < len(workers) or not await self.ready():  # noqa: ASYNC110 - other processes are asked
            await trio.sleep(_POLL_S)
        return "a worker, by SIGKILL"

    async def ready(self) -> bool:
        """Somebody serves, and the ledger is there."""
        try:
            return bool(json.loads(await self.door.get("/readyz") or b"{}").get("ready"))
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, ValueError):
            return False

    def end(self, within_s: float) -> int | None:
        """SIGTERM; its exit status. Blocks."""
        assert self._process is not None
        self._process.send(signal.SIGTERM)
        return self._process.ended(within_s)

    def _hang_up(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    async def _shows_certificate(self) -> bool:
        stream = await self.door.connect()
        try:
            return bool(stream.getpeercert(binary_form=True) == self._certificate)
        finally:
            await trio.aclose_forcefully(stream)

    # -- what it says -------------------------------------------------------------------------------------------------

    def metrics(self) -> str:
        """The control plane's, or "" if it does not answer. Blocks."""
        url = f"https://{_HOST}:{self._control_port}/metrics"
        try:
            answer = httpx.get(url, headers={"authorization": f"Bearer {_TOKEN}"}, verify=self.tls, timeout=5)
        except httpx.HTTPError:
            return ""
        return answer.text if answer.status_code == 200 else ""

    async def tasks(self) -> int | None:
        """Tasks of the worker that answers."""
        try:
            found: dict[str, Any] = json.loads(await self.door.get("/readyz"))
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, ValueError):
            return None
        return found.get("tasks")

    # -- its files ----------------------------------------------------------------------------------------------------

    def write_config(self) -> None:
        """Of this generation: one model more for each."""
        extra = "".join(
            f'[models.extra-{each}]\ninput = "1"\noutput = "1"\nmax_input_tokens = 1000\nmax_output_tokens = 1000\n'
            f'[channels.extra-{each}]\nprotocols = ["chat"]\nbase_url = "http://{_HOST}:{self._provider_port}/v1"\n'
            f'api_key = "sk-bench"\nmodels = ["extra-{each}"]\n'
            for each in range(max(0, self._generation - 1), self._generation + 1)
        )
        tls = f'tls_certificate = "{self.folder}/server.pem"\ntls_key = "{self.folder}/server.key"\n'
        self.config.write_text(
            f'[server]\nlisten = "{_HOST}:0"\n{tls}workers = {WORKERS}\nshutdown_grace_seconds = {_GRACE_S}\n'
            f'spool_dir = "{self.spool}"\nspool_bytes_max = {SPOOL_BYTES_MAX}\nreattach_minutes = 1\n'
            # The provider fails more often than any caller is allowed to be the cause of.
            "released_output_limit = 100000\n\n"
            f'[control]\nlisten = "{_HOST}:0"\ntoken = "{_TOKEN}"\n{tls}\n'
            f'[ledger]\nurl = "{self._url}"\n\n'
            f"{catalogue(self._provider_port, stall_s=_STALL_S)}\n{extra}"
        )

    def write_certificate(self) -> None:
        """A new one of the same authority, for a new key."""
        issued = self._authority.issue_cert(_HOST)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        (self.folder / "server.pem").write_bytes(chain)
        (self.folder / "server.key").write_bytes(issued.private_key_pem.bytes())
        self._certificate = ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


async def _in_a_row(holds: Any) -> None:
    """Until it holds on so many new connections, one after another."""
    held = 0
    while held < _IN_A_ROW:
        try:
            held = held + 1 if await holds() else 0
        except (OSError, trio.BrokenResourceError):
            held = 0
        if not held:
            await trio.sleep(_POLL_S)


@contextmanager
def serving(
    folder: Path, log: Path, provider_port: int, database: Database, cores: Cores, run: int
) -> Iterator[Gateway]:
    """The gateway, until the block ends."""
    gateway = Gateway(folder, log, provider_port, database.url, trio.run(make_key, database.url), run)
    gateway.write_certificate()
    gateway.write_config()
    argv = module("hoptrio", "serve", "--config", str(gateway.config))
    with running("hoptrio", argv, cores=cores.workers, folder=folder, log=gateway.log) as process:
        gateway.started(process)
        yield gateway
