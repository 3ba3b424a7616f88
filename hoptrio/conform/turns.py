"""Turns: the WebSocket mode of Responses: several requests on one connection, each seen like an answer of its own.

A message becomes an event, so that the checks of a stream are those of a turn. A turn's record is ``ID-k``, where ID
is the request id of the handshake and k counts the turns (docs/websocket.md); other gateways have no such record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio
from trio_websocket import ConnectionClosed, HandshakeError, wrap_client_stream

from hoptrio.conform.client import Connection, connect
from hoptrio.conform.wire import Ending, Wire, as_json, read
from hoptrio.limits import CONNECT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trio_websocket import WebSocketConnection

    from hoptrio.conform.target import Target

__all__ = ["NoTurns", "turns"]

_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
_MESSAGE_BYTES_MAX = 16 * 1024 * 1024


class NoTurns(Exception):
    """The gateway opens no WebSocket."""


async def turns(target: Target, asks: Sequence[tuple[str, str]], *, limit_s: float) -> list[Wire]:
    """One turn after the other, each a (model, prompt), within `limit_s` each. Raises NoTurns, Unreachable."""
    stream = await connect(target)
    wires: list[Wire] | None = None
    try:
        async with trio.open_nursery() as nursery:
            socket = await _open(nursery, stream, target)
            wires = await _turns(socket, asks, limit_s)
            nursery.cancel_scope.cancel()
    except* (HandshakeError, ConnectionClosed, trio.BrokenResourceError):
        # A refusal is raised by the library's reader, which is a task of the nursery.
        pass
    finally:
        await trio.aclose_forcefully(stream)
    if wires is None:
        raise NoTurns
    return wires


async def _open(nursery: trio.Nursery, stream: Connection, target: Target) -> WebSocketConnection:
    with trio.move_on_after(CONNECT_S):
        return await wrap_client_stream(
            nursery,
            stream,
            target.address,
            f"{target.base}/v1/responses",
            extra_headers=[(b"authorization", b"Bearer " + target.key.encode())],
            max_message_size=_MESSAGE_BYTES_MAX,
        )
    raise HandshakeError


async def _turns(socket: WebSocketConnection, asks: Sequence[tuple[str, str]], limit_s: float) -> list[Wire]:
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in socket.handshake_headers}
    opened = headers.get("x-request-id")
    wires = []
    for number, (model, prompt) in enumerate(asks, 1):
        told = {"x-request-id": f"{opened}-{number}"} if opened else {}
        wires.append(await _turn(socket, model, prompt, told, limit_s))
    return wires


async def _turn(socket: WebSocketConnection, model: str, prompt: str, headers: dict[str, str], limit_s: float) -> Wire:
    began = trio.current_time()
    pieces: list[tuple[float, bytes]] = []
    ending = Ending.OPEN
    with trio.move_on_after(limit_s):
        try:
            order = {"type": "response.create", "model": model, "input": prompt, "max_output_tokens": 2_000}
            await socket.send_message(msgspec.json.encode(order).decode())
            while ending is Ending.OPEN:
                message = await socket.get_message()
                data = message.encode() if isinstance(message, str) else message
                value = as_json(data)
                kind = value.get("type") if isinstance(value, dict) else None
                pieces.append((trio.current_time() - began, b"event: %s\ndata: %s\n\n" % (str(kind).encode(), data)))
                ending = Ending.CLEAN if kind in _ENDS else Ending.OPEN
        except ConnectionClosed:
            ending = Ending.TRUNCATED
    ended_s = trio.current_time() - began
    return Wire(status=200, headers=headers, pieces=tuple(pieces), ending=ending, ended_s=ended_s, reading=read(pieces))
