"""The gateway: what every request meets first. Routes it, knows its key, and renders whatever it is refused with.

`Gateway.handle` is the handler of `downstream`; model calls go on in `generate`, everything else in `queries`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hoptrio import errors
from hoptrio.admission.routing import Load
from hoptrio.exchange import cors
from hoptrio.exchange.face import Face
from hoptrio.exchange.generate import generate
from hoptrio.exchange.queries import query
from hoptrio.exchange.registry import Registry
from hoptrio.exchange.routes import What, find, protocol_of
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.contract import Contract
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.downstream.head import Head
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import ApiKey
    from hoptrio.stream.ports import Rendered
    from hoptrio.upstream.client import Upstream

__all__ = ["Gateway"]


class Gateway:
    """Everything a request may need, for the life of a process. `reload` replaces what the config says."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        upstream: Upstream,
        catalogue: Catalogue,
        contracts: Mapping[str, Contract],
        contract: str,
        max_streams: int,
        cors_origins: Sequence[str],
        currency: str,
    ) -> None:
        self.ledger = ledger
        self.upstream = upstream
        self.catalogue = catalogue
        self.contracts = contracts
        self.default_contract = contract
        self.max_streams = max_streams
        self.cors_origins = cors_origins
        self.currency = currency
        self.registry = Registry()
        self.load = Load()
        self.started_at_ms = ledger.now_ms()
        #: Set at shutdown: no new streams.
        self.draining = False

    async def handle(self, exchange: Exchange) -> None:
        """Answer one request; every refusal is an answer in the shape of the protocol called."""
        head = exchange.head
        headers = head.header_map
        face = Face(RULES[protocol_of(head.path, headers)], new_request_id())
        face.extra += cors.allow(headers, self.cors_origins)
        try:
            await self._route(exchange, face)
        except errors.HoptrioError as error:
            await exchange.writer.respond(*face.refusal(error))

    def refuse(self, head: Head | None, error: errors.HoptrioError) -> Rendered:
        """The answer to what never became a request: a head that is not HTTP, too large, or too slow."""
        protocol = protocol_of(head.path, head.header_map) if head is not None else protocol_of("", {})
        return Face(RULES[protocol], new_request_id()).refusal(error)

    def key_of(self, head: Head) -> ApiKey:
        """The caller's key, as it stands in the ledger now. Raises InvalidKey."""
        secret = _secret(head)
        if not secret:
            raise errors.InvalidKey("No API key was given.")
        key = self.ledger.find_key(secret)
        if key is None or key.revoked:
            raise errors.InvalidKey("This API key is not valid.")
        if key.expires_at_ms is not None and key.expires_at_ms <= self.ledger.now_ms():
            raise errors.InvalidKey("This API key has expired.")
        if key.account.disabled:
            raise errors.InvalidKey("This account is disabled.")
        return key

    def contract_of(self, key: ApiKey) -> Contract:
        """The key's contract, else the server's; a contract that was removed from the config is the server's too."""
        return self.contracts.get(key.contract or "", self.contracts[self.default_contract])

    async def _route(self, exchange: Exchange, face: Face) -> None:
        head = exchange.head
        if head.method == b"OPTIONS":
            await exchange.writer.respond(204, [*face.ids(), *cors.preflight(head.header_map, self.cors_origins)], b"")
            return
        target = find(head.method.decode("latin-1"), head.path, head.header_map)
        if target.what is What.GENERATE:
            await generate(self, exchange, face, RULES[target.protocol])
        elif target.what is What.WEBSOCKET:
            _refuse_websocket(head)
        else:
            await query(self, exchange, face, target)


def new_request_id() -> str:
    """96 random bits: unguessable, so that an id alone tells nobody anything."""
    return "req_" + os.urandom(12).hex()


def _secret(head: Head) -> str:
    headers = head.header_map
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if (secret := headers.get("x-api-key") or headers.get("x-goog-api-key")) is not None:
        return secret
    if scheme.lower() == "bearer" and bearer.strip():
        return bearer.strip()
    gemini = protocol_of(head.path, headers) is Protocol.GEMINI
    return head.query.get("key", "") if gemini else ""


def _refuse_websocket(head: Head) -> None:
    if head.header_map.get("upgrade", "").lower() == "websocket":
        raise errors.UpgradeRequired("The Responses WebSocket mode is not offered here; use HTTP.")
    raise errors.MethodNotAllowed("/v1/responses takes POST.")
