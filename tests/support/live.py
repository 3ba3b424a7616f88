"""Streams that are live at a gateway on real sockets while a test does something to it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import trio

from tests.support.client import Client, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.deployment import Server

__all__ = ["Live", "chat_body", "live_streams", "running", "said", "streamed"]

#: Until so many streams run.
STARTED_S = 20.0


@dataclass
class Live:
    """Streams in flight, and in the end what their clients saw."""

    responses: list[Response] = field(default_factory=list)
    _open: int = 0
    _over: trio.Event = field(default_factory=trio.Event)

    async def over(self) -> None:
        """Wait until every connection has ended."""
        await self._over.wait()

    def ended(self, response: Response) -> None:
        """One more has ended."""
        self.responses.append(response)
        self._open -= 1
        if self._open == 0:
            self._over.set()

    def began(self) -> None:
        """One more is on its way."""
        self._open += 1


def chat_body(prompt: str, *, stream: bool = True) -> dict[str, object]:
    """A Chat request for the simulated model."""
    return {"model": "sim-small", "stream": stream, "messages": [{"role": "user", "content": prompt}]}


def chat_request(secret: str, prompt: str) -> bytes:
    """Its bytes on the wire."""
    body = json.dumps(chat_body(prompt)).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer %b\r\n"
        b"content-length: %d\r\n\r\n%b" % (secret.encode(), len(body), body)
    )


@asynccontextmanager
async def live_streams(server: Server, secret: str, *, count: int, prompt: str, beside: int = 0) -> AsyncIterator[Live]:
    """`count` streams that all run when the block begins, `beside` others; what is left at its end is cut off."""
    live = Live()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            live.began()
            nursery.start_soon(_stream, server, chat_request(secret, prompt), live)
        await running(server, count + beside)
        yield live
        nursery.cancel_scope.cancel()


async def _stream(server: Server, request: bytes, live: Live) -> None:
    async with await trio.open_tcp_stream(*server.address) as stream:
        client = Client(stream)
        await client.send(request)
        live.ended(await client.read())


async def running(server: Server, count: int) -> None:
    """Wait until `count` streams run."""
    with trio.fail_after(STARTED_S):
        while (await trio.to_thread.run_sync(server.ready))[1]["streams"] != count:  # noqa: ASYNC110 - another process is asked
            await trio.sleep(0.05)


def streamed(server: Server, secret: str, prompt: str) -> httpx.Response:
    """One whole stream; raises where it is cut."""
    return httpx.post(
        f"{server.url}/v1/chat/completions",
        headers={"authorization": f"Bearer {secret}"},
        json=chat_body(prompt),
        timeout=30,
    )


def said(server: Server, secret: str, prompt: str) -> int:
    """The status of one whole stream."""
    return streamed(server, secret, prompt).status_code
