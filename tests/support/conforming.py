"""Gateways to try the conformance cases on: a real hoptrio by the printed config, and one that hides every break."""

from __future__ import annotations

import tomllib
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import h11
import trio

from bench.process import free_port
from hoptrio.conform.configs import config_for
from hoptrio.conform.session import Plan, conduct
from hoptrio.conform.settings import Settings
from hoptrio.conform.target import target_at
from hoptrio.ledger.ledger import open_ledger
from tests.support.deployment import Deployment, served
from tests.support.provider import END, SSE_HEAD, chunk, plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from hoptrio.conform.report import Report

__all__ = ["BRISK", "Place", "by_number", "hoptrio_at", "swallowing", "tried"]

#: Intervals that a test can wait for.
BRISK = Settings(keepalive_s=3.0)


@dataclass(frozen=True)
class Place:
    """A gateway that runs: its URL and key, and the port of the provider that it asks."""

    url: str
    key: str
    port: int


async def _account(url: str) -> str:
    async with open_ledger(url) as ledger:
        await ledger.create_account("conform", deposit_nanos=10**12)
        _, secret = await ledger.create_key("conform")
    return secret


@contextmanager
def hoptrio_at(folder: Path, settings: Settings = BRISK) -> Iterator[Place]:
    """`hoptrio serve` by the config that ``conform --print-config hoptrio`` prints."""
    port = free_port()
    printed = config_for("hoptrio", f"127.0.0.1:{port}", target_at("http://127.0.0.1", key="none"), settings)
    config = tomllib.loads(printed)
    config["server"]["listen"] = "127.0.0.1:0"
    deployment = Deployment(folder, config)
    secret = trio.run(_account, f"sqlite:///{folder / 'conform.db'}")
    with served(deployment) as server:
        yield Place(server.url, secret, port)


async def tried(place: Place, **plan) -> Report:
    """What becomes of the cases of `plan` there."""
    target = target_at(place.url, key=place.key)
    plan = {"settings": BRISK, "allowed_s": 15.0, "streams": 24} | plan
    made = Plan(target=target, listen=("127.0.0.1", place.port), name="under test", **plan)
    return await conduct(made, lambda total: None, lambda row: None)


def by_number(report: Report, verdict: str) -> set[int]:
    """The cases that have this verdict in some protocol."""
    return {row.number for row in report.rows if verdict in (row.verdict, row.money)}


@asynccontextmanager
async def swallowing() -> AsyncIterator[Place]:
    """A gateway that ends every answer properly, whatever became of the provider: with a last chunk, and ``[DONE]``. It
    shows an account, and no record of any stream."""
    port = free_port()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, partial(_swallow, port), 0, host="127.0.0.1"))
        yield Place(f"http://127.0.0.1:{listener.socket.getsockname()[1]}", "none", port)
        nursery.cancel_scope.cancel()


async def _swallow(port: int, client: trio.SocketStream) -> None:
    request = await client.receive_some()
    while b"\r\n\r\n" not in request or len(request) < _length(request):
        request += await client.receive_some()
    if request.startswith(b"GET /v1/account "):
        await client.send_all(b"".join(plain(200, b'{"balance":"10","held":"0"}')))
        return
    async with await trio.open_tcp_stream("127.0.0.1", port) as provider:
        await provider.send_all(request)
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        http.send(h11.EndOfMessage())
        await client.send_all(SSE_HEAD)
        async for data in _body(provider, http):
            await client.send_all(chunk(data))
        done = b"data: [DONE]\n\n" if b"/chat/" in request.split(b"\r\n")[0] else b""
        await client.send_all((chunk(done) if done else b"") + END)


def _length(request: bytes) -> int:
    head, _, _ = request.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    return len(head) + 4 + sum(map(int, lengths))


async def _body(provider: trio.SocketStream, http: h11.Connection) -> AsyncIterator[bytes]:
    """What comes, until anything ends it; the provider's own [DONE] is left out, since there will be one."""
    try:
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await provider.receive_some()))
            elif isinstance(event, h11.Data):
                if data := bytes(event.data).replace(b"data: [DONE]\n\n", b""):
                    yield data
            elif not isinstance(event, h11.Response):
                return
    except (trio.BrokenResourceError, h11.RemoteProtocolError):
        return
