"""The gateway: what every request of a process shares, and who a caller is. `handler` is the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import errors
from hoptrio.admission.breaker import Breakers
from hoptrio.admission.certificates import Certificates
from hoptrio.admission.pauses import Pauses
from hoptrio.admission.routing import Load, Router
from hoptrio.contract import Reason
from hoptrio.exchange.counts import Counts
from hoptrio.exchange.ended import StreamEnd
from hoptrio.exchange.rates import Rates
from hoptrio.exchange.refusals import Refusals
from hoptrio.exchange.registry import Registry
from hoptrio.exchange.released import ReleasedOutput
from hoptrio.exchange.routes import protocol_of
from hoptrio.exchange.suspicion import Suspicion
from hoptrio.exchange.websocket.chains import Budget
from hoptrio.protocols.events import Protocol
from hoptrio.telemetry.tally import Labels, Tally, add

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hoptrio.admission.catalogue import Catalogue
    from hoptrio.contract import Contract
    from hoptrio.downstream.head import Head
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import ApiKey, RequestRecord
    from hoptrio.spool.playback import Playback
    from hoptrio.spool.spools import Spools
    from hoptrio.upstream.client import Upstream

__all__ = ["Gateway"]

log = structlog.get_logger("hoptrio.exchange")


class Gateway:
    """Everything a request may need, for the life of a process; a reload replaces what the config says."""

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
        released_output_limit: int,
        breakers: Breakers | None = None,
        websocket: bool = True,
        spools: Spools | None = None,
    ) -> None:
        """`breakers`: the health of channels, if other processes share it. `websocket`: the mode is offered. `spools`:
        where streams are kept for clients that come back; None = nowhere."""
        self.ledger = ledger
        self.upstream = upstream
        self.catalogue = catalogue
        self.contracts = contracts
        self.default_contract = contract
        self.max_streams = max_streams
        self.cors_origins = cors_origins
        self.currency = currency
        self.spools = spools
        self.registry = Registry()
        self.tally = Tally()
        #: Each is called with every stream that is over, behind its last byte.
        self.observers: list[Callable[[StreamEnd], None]] = []
        self.load = Load()
        self.certificates = Certificates(ledger)
        breakers = breakers or Breakers(now=trio.current_time)
        self.pauses = Pauses(ledger, breakers.board)
        self.router = Router(
            self.load, breakers, self.certificates.certified, self.pauses.paused, probing=lambda: self.probing
        )
        self.suspicion = Suspicion()
        self.refusals = Refusals(ledger)
        self.rates = Rates()
        self.counts = Counts()
        self.released = ReleasedOutput(released_output_limit)
        self.websocket = websocket
        #: What the conversations on WebSocket connections weigh.
        self.chains = Budget()
        self.started_at_ms = ledger.now_ms()
        #: The first round of probes is not over (`certification.prober`).
        self.probing = False
        #: Set at shutdown: no new streams.
        self.draining = False

    async def key_of(self, head: Head) -> ApiKey:
        """The caller's key, as it stands in the ledger now. Raises InvalidKey."""
        secret = _secret(head)
        if not secret:
            raise errors.InvalidKey("No API key was given.")
        key = await self.ledger.find_key(secret)
        if key is None or key.revoked:
            raise errors.InvalidKey("This API key is not valid.")
        if key.expired:
            raise errors.InvalidKey("This API key has expired.")
        if key.account.disabled:
            raise errors.InvalidKey("This account is disabled.")
        return key

    async def find_stream(self, account_id: str, name: str, *, follow: bool = True) -> Playback | None:
        """What was answered to a request of this account, by the request's id or the name its client knows it by."""
        return None if self.spools is None else await self.spools.find(account_id, name, follow=follow)

    def ended(self, end: StreamEnd) -> None:
        """Tell the observers; one that fails harms nobody."""
        for observe in self.observers:
            try:
                observe(end)
            except Exception as error:
                log.error("observer failed", error=type(error).__name__, exc_info=error)

    def orphaned(self, record: RequestRecord, account: str) -> None:
        """A stream of a process that died was released here: it is counted and told of as any other that ends."""
        labels = Labels(record.protocol, record.model, record.channel or "")
        add(self.tally.group(labels).outcomes, Reason.ORPHANED.value)
        self.ended(
            StreamEnd(
                record=record,
                account=account,
                spoken=record.protocol,
                events=0,
                settled=True,
                ended_at_ms=self.ledger.now_ms(),
                traceparent="",
            )
        )

    def check_room(self) -> None:
        """Raise Draining or ServerFull where this process takes no further calls."""
        if self.draining:
            raise errors.Draining("The gateway is shutting down.", retry_after_s=1)
        if len(self.registry) + self.counts.running >= self.max_streams:
            raise errors.ServerFull("The gateway runs as many streams as it may.", retry_after_s=1)

    def contract_of(self, key: ApiKey) -> Contract:
        """The key's contract, else the server's; a contract that was removed from the config is the server's too."""
        return self.contracts.get(key.contract or "", self.contracts[self.default_contract])


def _secret(head: Head) -> str:
    headers = head.header_map
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if (secret := headers.get("x-api-key") or headers.get("x-goog-api-key")) is not None:
        return secret
    if scheme.lower() == "bearer" and bearer.strip():
        return bearer.strip()
    gemini = protocol_of(head.path, headers) is Protocol.GEMINI
    return head.query.get("key", "") if gemini else ""
