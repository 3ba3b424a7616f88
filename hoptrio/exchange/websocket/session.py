"""Session: the turns of one WebSocket connection, from its handshake to its close.

    this task   reads the client's messages and never waits for a turn: pings and the close are read here, too
    clock       the connection's age, its idleness, the process's drain
    a task a turn

A turn belongs to its key and its own hold alone. Its client may leave it, or the connection may end: it is read to its
end, settled and charged like any other, and only then is this over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog
import trio

from hoptrio import errors, limits
from hoptrio.downstream.websocket import handshake
from hoptrio.downstream.websocket.connection import converse
from hoptrio.exchange.face import Face
from hoptrio.exchange.generate import generate
from hoptrio.exchange.websocket.chains import Chains
from hoptrio.exchange.websocket.frames import (
    Cancel,
    Create,
    Steer,
    error_frame,
    lane_of,
    read_frame,
    steer_failed,
)
from hoptrio.exchange.websocket.lanes import Lanes
from hoptrio.exchange.websocket.prewarm import prewarm
from hoptrio.exchange.websocket.turn import Turn
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES, SILENT_RESPONSES

if TYPE_CHECKING:
    from hoptrio.downstream.drain import Drain
    from hoptrio.downstream.exchange import Exchange
    from hoptrio.downstream.head import Head
    from hoptrio.downstream.websocket.connection import WebSocket
    from hoptrio.errors import HoptrioError
    from hoptrio.exchange.gateway import Gateway

__all__ = ["open_session"]

log = structlog.get_logger("hoptrio.exchange")

NORMAL, GOING_AWAY, POLICY_VIOLATION = 1000, 1001, 1008


async def open_session(gateway: Gateway, exchange: Exchange, face: Face) -> None:
    """Serve ``GET /v1/responses`` as a WebSocket, until it and its turns are over. Raises the refusal of the handshake
    as a HoptrioError."""
    head = exchange.head
    if not handshake.asks_upgrade(head):
        raise errors.MethodNotAllowed("/v1/responses takes POST.", ("POST",))
    if not gateway.websocket:
        raise errors.UpgradeRequired("The Responses WebSocket mode is not offered here; use HTTP.")
    key = await gateway.key_of(head)
    handshake.check(head)
    if not exchange.writer.body_read:
        raise errors.BadRequest("A WebSocket handshake has no body.")
    origin = head.header("origin")
    if origin is not None and not {"*", origin} & set(gateway.cors_origins):
        raise errors.KeyNotAllowed("Browsers may not call from this origin.")
    contract = gateway.contract_of(key)
    if Protocol.RESPONSES not in contract.protocols:
        raise errors.NotFound(f"The responses protocol is not offered under the contract {contract.name}.")
    if gateway.draining:
        raise errors.Draining("The gateway is shutting down.", retry_after_s=1)
    session = Session(gateway, head, face.request_id, key.account.id, exchange.writer.switch().drain)
    await converse(exchange, face.ids(), session.run)


class _Ending(NamedTuple):
    """No turn begins any more: what is said to whoever asks for one, and how the connection closes after the last."""

    error: HoptrioError
    code: int
    #: Said to the connection, too, before it closes.
    announced: bool = False


class Session:
    """One connection; run once. Turn k is the request ``<id of the handshake>-k``."""

    def __init__(self, gateway: Gateway, head: Head, request_id: str, account_id: str, drain: Drain) -> None:
        self._gateway = gateway
        self._head = _turns_head(head)
        self._request_id = request_id
        self._drain = drain
        self._chains = Chains(gateway.chains, account_id)
        self._lanes: Lanes[Turn] = Lanes()
        #: The turns whose clients listen, by lane.
        self._heard: dict[str, Turn] = {}
        self._turns = 0
        self._ending: _Ending | None = None
        self._active_at = trio.current_time()

    async def run(self, socket: WebSocket) -> None:
        """Talk until the connection is over, then wait for the turns that still run."""
        self._socket = socket
        self._share = socket.share()
        try:
            async with trio.open_nursery() as self._nursery:
                async with trio.open_nursery() as around:
                    around.start_soon(self._clock)
                    while (message := await socket.receive()) is not None:
                        self._active_at = trio.current_time()
                        self._take(message)
                    around.cancel_scope.cancel()
                self._lanes.drop()
        finally:
            self._chains.close()

    # -- what the client says ------------------------------------------------------------------------------------------

    def _take(self, message: str) -> None:
        try:
            frame = read_frame(message)
        except errors.BadRequest as error:
            self._refuse(error, lane_of(message))
            return
        if isinstance(frame, Create):
            self._create(frame)
        elif isinstance(frame, Cancel):
            self._cancel(frame)
        elif isinstance(frame, Steer):
            self._steer(frame)

    def _create(self, create: Create) -> None:
        self._turns += 1
        request_id = f"{self._request_id}-{self._turns}"
        if self._ending is not None:
            self._refuse(self._ending.error, create.lane, request_id)
            return
        turn = Turn(self._gateway, self._head, self._socket, self._chains, create, request_id)
        try:
            self._lanes.put(turn)
        except errors.HoptrioError as error:
            self._refuse(error, create.lane, request_id)
            return
        self._start_ready()

    def _cancel(self, cancel: Cancel) -> None:
        """By its response, wherever it runs, else by its lane."""
        turn = self._named(cancel.response_id) if cancel.response_id else self._heard.get(cancel.lane)
        if turn is None:
            error = errors.BadRequest("There is no such running turn.", param="response_id", code="response_not_found")
            self._refuse(error, cancel.lane)
            return
        turn.writer.cancel()
        del self._heard[turn.lane]
        self._lanes.left(turn)
        self._start_ready()

    def _steer(self, steer: Steer) -> None:
        turn = self._named(steer.response_id)
        known = turn is not None or self._chains.find(steer.response_id) is not None
        self._share.put([steer_failed(steer, known=known, lane="" if turn is None else turn.lane)])

    def _named(self, response_id: str) -> Turn | None:
        """The turn that runs and is known to its client by this id."""
        return next((turn for turn in self._heard.values() if turn.writer.response_id == response_id), None)

    def _refuse(self, error: HoptrioError, lane: str, request_id: str = "") -> None:
        """Refuse what is no turn, or none yet."""
        refusal = Face(RULES[Protocol.RESPONSES], request_id or self._request_id).refusal(error)
        self._share.put([error_frame(refusal, lane)])

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _start_ready(self) -> None:
        for turn in self._lanes.ready():
            self._heard[turn.lane] = turn
            self._nursery.start_soon(self._serve, turn)

    async def _serve(self, turn: Turn) -> None:
        """Carry one turn through. A bug that it meets is never another's."""
        face = Face(RULES[Protocol.RESPONSES], turn.request_id)
        try:
            if turn.create.prewarm:
                await prewarm(self._gateway, turn, SILENT_RESPONSES)
            else:
                await generate(self._gateway, turn, face, SILENT_RESPONSES)
        except errors.HoptrioError as error:
            await turn.writer.respond(*face.refusal(error))
        except Exception as bug:
            log.error("turn failed", request=turn.request_id, error=type(bug).__name__, exc_info=bug)
            await turn.writer.respond(*face.refusal(errors.Internal("The gateway failed to answer this turn.")))
        self._over(turn)

    def _over(self, turn: Turn) -> None:
        if turn.writer.failed:
            turn.failed()
        self._active_at = trio.current_time()
        listened = self._heard.get(turn.lane) is turn
        if listened:
            del self._heard[turn.lane]
        self._lanes.over(turn, left=not listened)
        turn.over()
        if turn.writer.status == errors.InvalidKey.status:
            self._wind_up(_Ending(errors.InvalidKey("This API key is no longer valid."), POLICY_VIOLATION))
        self._start_ready()
        self._close_if_over()

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _clock(self) -> None:
        old_at = trio.current_time() + limits.WEBSOCKET_LIFE_S
        while self._ending is None:
            idle_at = self._active_at + limits.WEBSOCKET_IDLE_S
            with trio.move_on_at(min(old_at, idle_at)):
                await self._drain.started.wait()
                error = errors.Draining("The gateway is shutting down; open a new connection.", retry_after_s=1)
                self._wind_up(_Ending(error, GOING_AWAY))
                break
            if trio.current_time() >= old_at:
                self._wind_up(_Ending(_too_old(), NORMAL, announced=True))
            elif self._lanes.running:
                self._active_at = trio.current_time()
            elif trio.current_time() >= self._active_at + limits.WEBSOCKET_IDLE_S:
                await self._socket.close(NORMAL, "The connection was idle.")
                return
        self._close_if_over()

    def _wind_up(self, ending: _Ending) -> None:
        """Let what runs come to its end, and refuse the rest."""
        if self._ending is not None:
            return
        self._ending = ending
        for turn in self._lanes.drop():
            self._refuse(ending.error, turn.lane, turn.request_id)

    def _close_if_over(self) -> None:
        if self._ending is not None and not self._lanes.running and not self._socket.gone:
            self._nursery.start_soon(self._close, self._ending)

    async def _close(self, ending: _Ending) -> None:
        if ending.announced:
            self._refuse(ending.error, "")
        await self._share.delivered()
        await self._socket.close(ending.code, ending.error.message[:100])


def _too_old() -> HoptrioError:
    minutes = int(limits.WEBSOCKET_LIFE_S // 60)
    return errors.BadRequest(
        f"This connection is {minutes} minutes old, which is the limit; open a new one.",
        code="websocket_connection_limit_reached",
    )


def _turns_head(head: Head) -> Head:
    """The handshake as the head of every turn; an idempotency key in it would make them all one (case 74)."""
    mine = {name: value for name, value in head.header_map.items() if name != "idempotency-key"}
    kept = tuple((name, value) for name, value in head.headers if name != b"idempotency-key")
    return msgspec.structs.replace(head, headers=kept, header_map=mine)
