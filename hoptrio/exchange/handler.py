"""The way in: `Handler.handle` is what `downstream` calls with every request. Routes it, renders its refusal.

Model calls go on in `generate`, those on a WebSocket in `websocket.session`, everything else in `queries`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from hoptrio import errors
from hoptrio.exchange import cors
from hoptrio.exchange.count import count
from hoptrio.exchange.face import Face
from hoptrio.exchange.generate import generate
from hoptrio.exchange.queries import query
from hoptrio.exchange.reattach import events, response
from hoptrio.exchange.routes import What, find, protocol_of
from hoptrio.exchange.websocket.session import open_session
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.downstream.head import Head
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.stream.ports import Rendered

__all__ = ["Handler"]


class Handler:
    """Answers requests for one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request; every refusal is an answer in the shape of the protocol called."""
        head = exchange.head
        headers = head.header_map
        face = Face(RULES[protocol_of(head.path, headers)], new_request_id())
        face.extra += cors.allow(headers, self._gateway.cors_origins)
        try:
            await self._route(exchange, face)
        except errors.HoptrioError as error:
            await exchange.writer.respond(*face.refusal(error))

    def refuse(self, head: Head | None, error: errors.HoptrioError) -> Rendered:
        """The answer to what no handler answered: a head that is not HTTP, too large or too slow, or a bug of ours."""
        path, headers = ("", {}) if head is None else (head.path, head.header_map)
        face = Face(RULES[protocol_of(path, headers)], new_request_id())
        face.extra += cors.allow(headers, self._gateway.cors_origins)
        return face.refusal(error)

    async def _route(self, exchange: Exchange, face: Face) -> None:
        head = exchange.head
        if head.method == b"OPTIONS":
            allowed = cors.preflight(head.header_map, self._gateway.cors_origins)
            await exchange.writer.respond(204, [*face.ids(), *allowed], b"")
            return
        target = find(head.method.decode("latin-1"), head.path, head.header_map)
        if target.what is What.GENERATE:
            await generate(self._gateway, exchange, face, RULES[target.protocol])
        elif target.what is What.COUNT:
            await count(self._gateway, exchange, face, target.protocol)
        elif target.what is What.EVENTS:
            await events(self._gateway, exchange, face, target.name)
        elif target.what is What.RESPONSE:
            await response(self._gateway, exchange, face, target.name)
        elif target.what is What.WEBSOCKET:
            await open_session(self._gateway, exchange, face)
        else:
            await query(self._gateway, exchange, face, target)


def new_request_id() -> str:
    """Milliseconds since 1970 and 80 random bits, as in UUIDv7 (RFC 9562 section 5.7): unguessable, and in the order of
    time, so that what a commit adds to the ledger is on few pages. Of eight in a commit each takes SQLite 65 us so, and
    88 with ids without an order."""
    return f"req_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"
