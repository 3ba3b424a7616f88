"""The load: N streams at a time against one address, raw on sockets, so that the client costs as little as it can."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import trio

__all__ = ["Load", "Result", "run"]

READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class Load:
    """`streams` calls in all, `at_once` of them at a time; `script` is the simulator's ``sim:`` line."""

    streams: int
    at_once: int
    script: str
    spread_s: float = 0.0


@dataclass
class Result:
    """What the clients saw."""

    events: int = 0
    complete: int = 0
    broken: int = 0
    first_event_s: list[float] = field(default_factory=list)


def _request(port: int, key: str, script: str) -> bytes:
    prompt = f"measure\nsim: {script}"
    body = json.dumps(
        {"model": "sim-small", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    ).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
        % (port, key.encode(), len(body), body)
    )


async def run(port: int, key: str, load: Load, opened: trio.Event | None = None) -> Result:
    """Carry the load out; `opened` is set once every stream has its first event."""
    result = Result()
    gate = trio.CapacityLimiter(load.at_once)
    request = _request(port, key, load.script)

    async def one(index: int) -> None:
        async with gate:
            await trio.sleep(load.spread_s * index / max(1, load.at_once))
            try:
                await _stream(port, request, result)
            except OSError:
                result.broken += 1
            if opened is not None and len(result.first_event_s) == load.streams:
                opened.set()

    async with trio.open_nursery() as nursery:
        for index in range(load.streams):
            nursery.start_soon(one, index)
    return result


async def _stream(port: int, request: bytes, result: Result) -> None:
    sock = trio.socket.socket()
    with sock:
        started = trio.current_time()
        await sock.connect(("127.0.0.1", port))
        await sock.send(request)
        tail = b""
        first = True
        while data := await sock.recv(READ_BYTES):
            events = data.count(b"\ndata: ")
            if first and events:
                result.first_event_s.append(trio.current_time() - started)
                first = False
            result.events += events
            tail = (tail + data)[-64:]
        if b"data: [DONE]" in tail:
            result.complete += 1
        else:
            result.broken += 1
