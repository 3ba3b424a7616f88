"""A real `hoptrio serve` on a real database and a free port, and raw clients of it over real sockets."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from hoptrio.ledger.ledger import open_ledger
from tests.support.client import Client
from tests.support.running import process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

_CONFIG = """
[server]
listen = "127.0.0.1:0"

[ledger]
url = "{url}"
"""


@dataclass(frozen=True)
class Serving:
    """The running process."""

    pid: int
    port: int
    secret: str

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A new connection."""
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            yield Client(stream)

    def request(self, path: str, body: dict[str, Any]) -> bytes:
        """A whole call."""
        raw = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.secret}\r\n"
        return f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw

    async def get(self, path: str) -> Any:
        """One GET, as JSON."""
        async with self.client() as client:
            await client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.secret}\r\n\r\n".encode())
            return (await client.read()).json

    async def settled(self, request_id: str) -> dict[str, Any]:
        """The request, once it is over."""
        with trio.fail_after(20):
            while (found := await self.get(f"/v1/requests/{request_id}"))["state"] == "running":  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)
        return found


@contextmanager
def serving(folder: Path, tables: str, *, url: str | None = None, workers: int = 1) -> Iterator[Serving]:
    """Serve with `tables` (models and channels, as TOML); the ledger (at `url`, or a new file) gets one account with a
    key and much money."""
    url = url or f"sqlite:///{folder / 'hoptrio.db'}"
    (folder / "hoptrio.toml").write_text(_CONFIG.format(url=url) + tables)
    secret = trio.run(_make_key, url)
    argv = [sys.executable, "-m", "hoptrio", "serve", "--config", str(folder / "hoptrio.toml")]
    argv += ["--workers", str(workers)]
    with process(argv, r"listens on http://127.0.0.1:(\d+)") as (pid, match):
        yield Serving(pid, int(match[1]), secret)


async def _make_key(url: str) -> str:
    async with open_ledger(url) as ledger:
        await ledger.create_account("acme", deposit_nanos=10**15)
        _, secret = await ledger.create_key("acme")
    return secret
