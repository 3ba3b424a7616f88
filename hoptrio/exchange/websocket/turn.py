"""Turn: one ``response.create`` as the request that it is, and `stream.ports.Writer` for its answer.

A turn's answer has no head and no end of its own on the wire. What a status says there is an ``error`` frame here, what
the end of a body says is the last event: a terminal or ``response.failed``. Only an answer that breaks off without
either (contract, `failure = truncate`) ends the connection, since nothing less could tell it from one that goes on.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec
import trio

from hoptrio import limits
from hoptrio.errors import BadRequest
from hoptrio.exchange.websocket.chains import Link, body_with, items_of, output_of
from hoptrio.exchange.websocket.frames import error_frame, to_lane
from hoptrio.protocols.members import loads, split_members
from hoptrio.protocols.responses.lifecycle import cancelled
from hoptrio.protocols.sse import Splitter
from hoptrio.stream.ports import Rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.downstream.head import Head
    from hoptrio.downstream.websocket.connection import WebSocket
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.exchange.websocket.chains import Chains
    from hoptrio.exchange.websocket.frames import Create
    from hoptrio.protocols.events import SseEvent

__all__ = ["Turn", "TurnWriter"]

TRUNCATED = 1011
_ENDS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "error", "response.cancelled"})


class Turn:
    """One turn, as `generate` takes a request: a head, a body, a writer."""

    def __init__(
        self, gateway: Gateway, head: Head, socket: WebSocket, chains: Chains, create: Create, request_id: str
    ) -> None:
        self._gateway = gateway
        self._chains = chains
        self.create = create
        self.request_id = request_id
        self.head = head
        self.previous_id = _previous_id(create)
        self._parent: Link | None = None
        self._own = b""
        self.writer = TurnWriter(socket, create.lane, self._answered)

    @property
    def idempotency_key(self) -> None:
        """None: the handshake's header would make all turns of a connection one."""

    @property
    def lane(self) -> str:
        """See `lanes.Turn`."""
        return self.create.lane

    @property
    def size(self) -> int:
        """See `lanes.Turn`."""
        return self.create.size

    async def read_body(self) -> bytes:
        """The body of the POST that this turn is, with the conversation it continues, where that is known here.

        Raises BadRequest for an id that is neither known here nor this account's own at a provider; those of a provider
        are the gate's to judge, like in a POST.
        """
        if self.previous_id:
            self._parent = self._chains.find(self.previous_id)
            if self._parent is None and not await self._is_own(self.previous_id):
                raise BadRequest(
                    "The previous response was not found.",
                    param="previous_response_id",
                    code="previous_response_not_found",
                )
        body, self._own = body_with(self.create.body, self._parent)
        return body

    async def _is_own(self, response_id: str) -> bool:
        key = await self._gateway.key_of(self.head)
        owner = (await self._gateway.ledger.owners_of((response_id,))).get(response_id)
        return owner is not None and owner[0] == key.account.id

    def keep(self, response_id: str, output: bytes) -> None:
        """This turn has an answer that may be continued. What a provider keeps of a conversation is not known here."""
        if self.create.body.get("conversation", _NULL) != _NULL:
            return
        items = b",".join(part for part in (self._own, output) if part)
        base = "" if self._parent is not None else self.previous_id
        self._chains.keep(response_id, Link(self._parent, self.lane, items, base))

    def failed(self) -> None:
        """A continuation that failed takes its parent with it, in the lane where that was answered."""
        if self._parent is not None and self._parent.lane == self.lane:
            self._chains.evict(self.previous_id)

    def over(self) -> None:
        """Nothing more is written: without a cycle turn and writer are freed at once, and not by the collector."""
        del self.writer.answered

    def _answered(self, response_id: str, output: list[msgspec.Raw]) -> None:
        self.keep(response_id, items_of(output))


_NULL = msgspec.Raw(b"null")


def _previous_id(create: Create) -> str:
    value = loads(create.body.get("previous_response_id", _NULL))
    return value if type(value) is str else ""


class TurnWriter:
    """See `stream.ports.Writer`; an event of the stream is a message."""

    def __init__(self, socket: WebSocket, lane: str, answered: Callable[[str, list[msgspec.Raw]], None]) -> None:
        """`answered` is called with the id and the output of an answer before the client is told its end."""
        self._socket = socket
        self._share = socket.share()
        self._lane = lane
        self.answered = answered
        self._splitter = Splitter(event_bytes_max=limits.TURN_EVENT_BYTES_MAX)
        self.head_written = False
        self.half_closed = False
        self.last_write_at = trio.current_time()
        #: The client left this turn alone.
        self.cancelled = False
        #: The status of a refusal, 0 if it was not refused.
        self.status = 0
        #: It came to an end that is none of success.
        self.failed = False
        self._ended = False
        #: The last response object as written, for a cancelled turn to repeat.
        self._response = msgspec.Raw(b"")
        self._sequence_number = 0
        #: Items that ended, for answers whose terminal does not repeat them.
        self._items: list[msgspec.Raw] = []
        self._items_bytes = 0

    @property
    def gone(self) -> bool:
        """See `stream.ports.Writer`."""
        return self.cancelled or self._socket.gone

    @property
    def blocked_since(self) -> float | None:
        """See `stream.ports.Writer`."""
        return self._socket.blocked_since

    @property
    def response_id(self) -> str:
        """What the client knows this turn by, once it was told."""
        value = loads(split_members(self._response).get("id", _NULL))
        return value if type(value) is str else ""

    def start(self) -> None:
        """Nothing: the connection watches its client."""

    def stop(self) -> None:
        """Nothing, as with `start`."""

    def head(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """From now on failures are events."""
        self.head_written = True

    def write(self, data: bytes) -> None:
        """Write whole events, a message each; comments are not for this client."""
        if self.gone:
            return
        self._put([frame for event in self._splitter.feed(data) if (frame := self._frame(event))])

    def say(self, frame: bytes) -> None:
        """Write a message that is no event of a stream."""
        self._put([to_lane(frame, self._lane)])

    def _put(self, frames: list[bytes]) -> None:
        if frames:
            self.last_write_at = trio.current_time()
            self._share.put(frames)

    def _frame(self, event: SseEvent) -> bytes:
        """An event whose data is no object cannot be told: its name has no place."""
        members = split_members(event.data)
        if not members:
            return b""
        named = loads(members.get("type", _NULL))
        kind = named if type(named) is str else event.name.decode("utf-8", "replace")
        self._notice(kind, members)
        return to_lane(event.data, self._lane, kind="" if named else kind)

    def _notice(self, kind: str, members: dict[str, msgspec.Raw]) -> None:
        number = loads(members.get("sequence_number", _NULL))
        self._sequence_number = (number if type(number) is int else self._sequence_number) + 1
        self._response = members.get("response", self._response)
        if kind == "response.output_item.done":
            self._remember(members.get("item", _NULL))
        elif kind in _ENDS:
            self._ended = True
            response_id, output = output_of(self._response)
            if response_id:
                self.answered(response_id, output or self._items)
        elif kind in _FAILURES:
            self._ended = self.failed = True

    def _remember(self, item: msgspec.Raw) -> None:
        self._items_bytes += len(item)
        if self._items_bytes > limits.CHAINS_BYTES_MAX:
            self._items.clear()
        else:
            self._items.append(item)

    def cancel(self) -> None:
        """The client leaves this turn, which goes on without it; this is the last message of it."""
        self.cancelled = True
        self.say(cancelled(seen=self._response, sequence_number=self._sequence_number))

    def leave(self) -> None:
        """The client takes nothing of what it is sent."""
        self._socket.leave()

    async def flush(self) -> None:
        """Wait until the client has what was written."""
        await self._share.delivered()

    async def end(self, until: float = inf) -> None:
        """Deliver what waits."""
        await self._deliver(until)

    async def abort(self, until: float = inf) -> None:
        """Deliver what waits; where the last of it told no end, end the connection."""
        await self._deliver(until)
        if not self._ended:
            self.failed = True
            await self._socket.close(TRUNCATED, "The answer broke off.")

    async def respond(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, until: float = inf
    ) -> None:
        """A refusal, as an ``error`` frame."""
        if self.gone or self._ended:
            return
        self.status = status
        self._ended = self.failed = True
        self._put([error_frame(Rendered(status, headers, body), self._lane)])
        await self._deliver(until)

    async def _deliver(self, until: float) -> None:
        with trio.move_on_at(until) as late:
            await self._share.delivered()
        if late.cancelled_caught:
            self.leave()
