"""A whole gateway in virtual time: memory streams on both sides, the memory ledger, a scripted provider, raw clients.

Nothing of the gateway is faked: the connection driver, the gate, the stream, the pool and the ledger's rules are the
product's own. Only sockets, disks and time are not real.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from hoptrio import limits
from hoptrio.config import build
from hoptrio.downstream.backlog import BacklogTotal
from hoptrio.downstream.connection import serve_connection
from hoptrio.downstream.drain import Drain
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.memory import wall_ms
from hoptrio.ledger.model import RequestFilter
from hoptrio.spool.scribe import InlineScribe
from hoptrio.spool.segments import Segments
from hoptrio.spool.spool import Caps, Spool
from hoptrio.spool.spools import Spools
from hoptrio.upstream.client import Upstream
from tests.support.certified import certify_all
from tests.support.client import Client, Response
from tests.support.provider import Provider, Providers, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.memory import MemoryStore
    from hoptrio.ledger.model import ApiKey, RequestRecord
    from hoptrio.ledger.shelf_memory import MemoryShelf
    from hoptrio.upstream.connect import Connector

#: One price for all: a millionth of the unit per input token, two per output token.
PRICES = {"input": "1", "output": "2", "max_input_tokens": 1000, "max_output_tokens": 100}
NANOS_PER_INPUT, NANOS_PER_OUTPUT = 1000, 2000

#: A chat stream that does not ask for usage, and one that does.
CHAT_SILENT = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
CHAT = {**CHAT_SILENT, "stream_options": {"include_usage": True}}
RESPONSES = {"model": "m", "stream": True, "input": "hi"}
MESSAGES = {"model": "m", "stream": True, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "gemini_array": "/v1beta/models/m:streamGenerateContent",
}
BODIES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GEMINI, "gemini_array": GEMINI}


def settings(**tables: Any) -> dict[str, Any]:
    """A config for tests, as the TOML would be; `tables` replace whole tables."""
    return {
        "models": {"m": PRICES},
        "channels": {
            "one": {
                "protocols": ["chat", "responses", "messages", "gemini"],
                "base_url": "http://provider.test/v1",
                "api_key": "sk-provider-secret",
                "models": ["m"],
            }
        },
    } | tables


def channels(*names: str, **changes: Any) -> dict[str, Any]:
    """A config with a channel for each name, at a host of that name; `changes` go into each."""
    made = {
        name: {
            "protocols": ["chat", "responses", "messages", "gemini"],
            "base_url": f"http://{name}/v1",
            "api_key": "sk-provider-secret",
            "models": ["m"],
            **changes,
        }
        for name in names
    }
    return settings(channels=made)


@dataclass
class Harness:
    """A running gateway."""

    gateway: Gateway
    handler: Handler
    ledger: Ledger
    provider: Provider
    #: Where connections are served; cancel its scope to kill the server alone.
    connections: trio.Nursery
    backlogs: BacklogTotal
    drain: Drain
    secret: str = ""
    key: ApiKey | None = None
    #: With `hosts`: each host's provider.
    hosts: dict[str, Provider] = field(default_factory=dict)

    def connect(self) -> Client:
        """A new client connection."""
        ours, theirs = trio.testing.memory_stream_pair()
        return self.attach(ours, theirs)

    def attach(self, ours: trio.abc.Stream, theirs: trio.abc.Stream) -> Client:
        """A client on `ours`, whose other end is served."""
        self.connections.start_soon(self._serve, theirs)
        return Client(ours)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        await serve_connection(
            stream, self.handler.handle, refuse=self.handler.refuse, backlogs=self.backlogs, drain=self.drain
        )

    async def start(
        self,
        kind: str = "chat",
        body: dict[str, Any] | bytes | None = None,
        *,
        path: str | None = None,
        secret: str | None = None,
        headers: dict[str, str] | None = None,
        client: Client | None = None,
    ) -> Client:
        """Connect, or take `client`, and send one call; read it with `Client.read`."""
        client = client or self.connect()
        raw = body if isinstance(body, bytes) else json.dumps(BODIES[kind] if body is None else body).encode()
        lines = {"host": "x", "authorization": f"Bearer {secret or self.secret}", "content-length": str(len(raw))}
        head = "".join(f"{name}: {value}\r\n" for name, value in (lines | (headers or {})).items())
        await client.send(f"POST {path or PATHS[kind]} HTTP/1.1\r\n{head}\r\n".encode() + raw)
        return client

    async def call(self, kind: str = "chat", body: Any = None, **options: Any) -> Response:
        """One call to its end, on its own connection."""
        client = await self.start(kind, body, **options)
        response = await client.read()
        await client.leave()
        return response

    async def get(self, path: str, *, secret: str | None = None, headers: dict[str, str] | None = None) -> Response:
        """One GET."""
        client = self.connect()
        lines = {"host": "x", "authorization": f"Bearer {secret or self.secret}"} | (headers or {})
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await client.send(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        response = await client.read()
        await client.leave()
        return response

    async def record(self, response: Response) -> RequestRecord:
        """What the ledger keeps of a request."""
        record = await self.ledger.request(response.headers["x-request-id"])
        assert record is not None
        return record

    async def only_record(self) -> RequestRecord:
        """The one request there was."""
        (record,) = await self.ledger.requests(RequestFilter())
        return record

    async def settled(self) -> None:
        """Wait until no stream runs."""
        while len(self.gateway.registry):  # noqa: ASYNC110 - in virtual time a poll costs nothing
            await trio.sleep(0.01)


def _spool(directory: Path | None, caps: Caps | None, bytes_max: int, now_ms: Callable[[], int]) -> Spool | None:
    if directory is None:
        return None
    caps = caps or Caps(kept_s=limits.SPOOL_KEPT_S, stream_bytes_max=limits.SPOOL_STREAM_BYTES_MAX)
    scribe = InlineScribe()
    return Spool(caps, Segments(directory, scribe, bytes_max=bytes_max), scribe, now_ms)


async def _own_nursery(task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
    """A nursery in a task of its own, so that cancelling it cancels nothing of the test."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


@asynccontextmanager
async def gateway(
    *scripts: list[Step],
    config: dict[str, Any] | None = None,
    contract: str = "hoptrio",
    deposit: str = "1000",
    now_ms: Callable[[], int] = wall_ms,
    certified: bool = True,
    connect: Connector | None = None,
    store: MemoryStore | None = None,
    shelf: MemoryShelf | None = None,
    hosts: dict[str, list[list[Step]]] | None = None,
    spool: Path | None = None,
    caps: Caps | None = None,
    spool_bytes_max: int = limits.SPOOL_BYTES_MAX,
) -> AsyncIterator[Harness]:
    """A gateway whose provider plays `scripts`, with an account of `deposit` and a key under `contract`; its
    channels are certified, unless told not to be. `store` is another gateway's, too; with a `shelf` its settlements are
    journalled. With a `spool`, a directory, streams are kept there within `caps`.

    `hosts`: several providers, each with its own scripts, at these host names; `config` is then by `channels`. With
    `connect`, providers are the caller's own.
    """
    built = build(config or settings())
    async with memory_ledger(store, shelf=shelf, now_ms=now_ms) as ledger, trio.open_nursery() as nursery:
        provider = Provider(nursery, list(scripts))
        connections = await nursery.start(_own_nursery)
        each = {host: Provider(nursery, played) for host, played in (hosts or {}).items()}
        connector = connect or (Providers(each).connect if each else provider.connect)
        kept = _spool(spool, caps, spool_bytes_max, now_ms)
        if kept is not None:
            nursery.start_soon(kept.run)
        async with Upstream(connector) as upstream:
            made = Gateway(
                ledger=ledger,
                upstream=upstream,
                catalogue=built.catalogue,
                contracts=built.contracts,
                contract=built.server.contract,
                max_streams=built.server.max_streams,
                cors_origins=built.server.cors_origins,
                currency=built.ledger.currency,
                released_output_limit=built.server.released_output_limit,
                websocket=built.server.websocket,
                spools=None if kept is None else Spools(kept),
            )
            harness = Harness(made, Handler(made), ledger, provider, connections, BacklogTotal(), Drain(), hosts=each)
            if certified:
                await certify_all(made)
            if await ledger.account("acme") is None:
                await ledger.create_account("acme", deposit_nanos=int(deposit) * 10**9)
            harness.key, harness.secret = await ledger.create_key("acme", contract=contract)
            yield harness
            connections.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
