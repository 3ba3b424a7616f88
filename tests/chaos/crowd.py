"""The crowd: visits to a gateway, seeded, with every failure the simulated provider knows and every kind of client."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["BEHAVIOURS", "KEYS", "NO_EVIDENCE", "Sight", "Visit", "visit_all", "visits"]

#: Failures by the place they happen in; "" is none. The weights below keep most streams going.
FAILURES = (
    *(f"status:{code}" for code in (400, 401, 403, 404, 408, 413, 429, 500, 503, 529)),
    *("no-head", "close", "not-http", "html", "json-error", "empty"),
    *("error@0", "error@open", "error@2", "error@end", "error@done", "error:429@0", "error:overloaded@2", "failed@2"),
    *("failed-usage@2", "stray-error@1"),
    *(f"{kind}@{when}" for kind in ("cut", "reset", "inside", "end") for when in ("0", "open", "2", "end")),
    *("silence@0", "silence@2", "silence@end", "silence@done", "comments@1", "pings@1", "no-terminal", "no-finish"),
)
AFTER = ("end", "cut", "reset", "silence", "done", "failed")
USAGES = (
    *("none", "finish", "running", "twice", "late", "start"),
    *("zero", "negative", "huge", "string", "float", "null", "empty", "mismatch"),
)
#: Those that are no evidence.
NO_EVIDENCE = ("none", "negative", "huge", "string", "float", "null", "empty")
WIRES = (
    *("crlf", "cr", "bom", "unnamed", "ids", "nospace", "unterminated", "split", "close", "done"),
    *("gzip", "gzip-unlabelled", "crlf,split", "close,unterminated", "gzip,close"),
)
EXTRAS = (
    "reasoning=3",
    "tools=2",
    "finish=length",
    "finish=filter",
    "finish=block",
    "size=3000",
    "batch=3",
    "trickle=40",
)
BETWEENS = ("comment", "blank", "ping")
#: What a client does, and how often in a hundred.
BEHAVIOURS: Mapping[str, int] = {
    "reads": 52,
    "leaves": 14,
    "resets": 10,
    "stalls": 8,
    "floods": 2,
    "half-closes": 5,
    "vanishes": 4,
    "sends half": 3,
    "speaks 1.0": 2,
}
#: Keys by contract, and how often in a hundred. "patient" waits for the stall clock.
KEYS: Mapping[str, int] = {"hoptrio": 50, "hopbase": 24, "anypath": 24, "patient": 2}
FORMS: Mapping[str, int] = {
    "chat": 25,
    "responses": 18,
    "messages": 18,
    "gemini": 12,
    "gemini-array": 9,
    "chat-whole": 7,
    "responses-whole": 4,
    "messages-whole": 4,
    "gemini-whole": 3,
}
#: An error object; the Responses API has `"error": null` in every response.
_ERROR = re.compile(rb'"error":\s*\{')
#: Nobody waits longer: the longest contract's deadline, and then some.
VISIT_S = 40.0


@dataclass(frozen=True)
class Visit:
    """One request: who asks, in which protocol, for what, and what the client then does."""

    form: str
    key: str
    directive: str
    behaviour: str
    #: Where in the visit the client does it, from 0 to 1.
    moment: float
    #: Nothing goes wrong on either side.
    plain: bool


@dataclass
class Sight:
    """What a client saw."""

    visit: Visit
    status: int = 0
    request_id: str = ""
    body: bytes = b""
    #: The body ended by its framing.
    clean: bool = False

    @property
    def terminal(self) -> bool:
        """The protocol's terminal was shown and the body ended cleanly, without an error."""
        form, body = self.visit.form.partition("-")[0], self.body
        if self.status != 200 or not self.clean or _ERROR.search(body):
            return False
        marks = {"chat": b"[DONE]", "responses": b"event: response.completed", "messages": b"event: message_stop"}
        return self.visit.form.endswith("-whole") or marks.get(form, b'"finishReason"') in body


def visits(seed: int, count: int) -> Iterator[Visit]:
    """`count` visits; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        words, behaviour = _directive(chance), _pick(chance, BEHAVIOURS)
        form, key = _pick(chance, FORMS), _pick(chance, KEYS)
        offered = not (key == "hopbase" and form.startswith("gemini"))
        yield Visit(
            form=form,
            key=key,
            directive=" ".join([*words, f"pace={chance.choice((0, 1, 3, 20))}ms"]),
            behaviour=behaviour,
            moment=chance.random(),
            plain=len(words) == 1 and behaviour == "reads" and offered,
        )


def _pick(chance: random.Random, weights: Mapping[str, int]) -> str:
    return chance.choices(tuple(weights), tuple(weights.values()))[0]


def _directive(chance: random.Random) -> list[str]:
    words = [f"events={chance.randint(1, 20)}"]
    if chance.random() < 0.5:
        words.append(f"fail={chance.choice(FAILURES)}")
        words.append(f"after={chance.choice(AFTER)}")
        words.append("every=200ms")
    for share, name, choices in (
        (0.25, "usage", USAGES),
        (0.3, "wire", WIRES),
        (0.1, "between", BETWEENS),
        (0.05, "head_delay", ("50ms", "500ms")),
        (0.05, "delay", ("50ms", "500ms")),
    ):
        if chance.random() < share:
            words.append(f"{name}={chance.choice(choices)}")
    if chance.random() < 0.3:
        words.append(chance.choice(EXTRAS))
    return words


def request_of(visit: Visit, secret: str, model: str) -> bytes:
    """The request's bytes."""
    directive = visit.directive
    if visit.behaviour == "floods":
        directive = "events=400 size=65536 pace=0"
    prompt = f"sim: {directive}"
    protocol, _, rest = visit.form.partition("-")
    stream = rest != "whole"
    said = [{"role": "user", "content": prompt}]
    path, body = {
        "chat": ("/v1/chat/completions", {"messages": said, "stream_options": {"include_usage": True}}),
        "responses": ("/v1/responses", {"input": prompt}),
        "messages": ("/v1/messages", {"messages": said, "max_tokens": 4096}),
        "gemini": ("", {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}),
    }[protocol]
    if protocol == "gemini":
        path = f"/v1beta/models/{model}:" + ("streamGenerateContent" if stream else "generateContent")
        path += "" if rest else "?alt=sse"
    else:
        body |= {"model": model, "stream": stream}
        if not stream:
            body.pop("stream_options", None)
    data = json.dumps(body).encode()
    version = "1.0" if visit.behaviour == "speaks 1.0" else "1.1"
    head = (
        f"POST {path} HTTP/{version}\r\nhost: gateway\r\nauthorization: Bearer {secret}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def visit_all(
    address: tuple[str, int],
    visits: Sequence[Visit],
    secrets: Mapping[str, str],
    *,
    model: str,
    at_once: int,
    done: Callable[[Sight], None],
) -> None:
    """Make every visit, `at_once` at a time; `done` is called with what each client saw."""
    places = trio.CapacityLimiter(at_once)

    async def one(visit: Visit) -> None:
        async with places:
            sight = Sight(visit)
            with trio.fail_after(VISIT_S):
                await _visit(address, request_of(visit, secrets[visit.key], model), sight)
            done(sight)

    async with trio.open_nursery() as nursery:
        for visit in visits:
            nursery.start_soon(one, visit)


async def _visit(address: tuple[str, int], request: bytes, sight: Sight) -> None:
    visit = sight.visit
    with trio.socket.socket() as connection:
        if visit.behaviour in ("stalls", "floods"):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # A gateway that was killed refuses or resets.
        with suppress(OSError, trio.BrokenResourceError):
            await connection.connect(address)
            await _behave(trio.SocketStream(connection), request, sight)


async def _behave(stream: trio.SocketStream, request: bytes, sight: Sight) -> None:
    behaviour, moment = sight.visit.behaviour, sight.visit.moment
    if behaviour == "sends half":
        await stream.send_all(request[: int(len(request) * moment)])
        return
    await stream.send_all(request)
    if behaviour == "vanishes":
        return
    if behaviour == "half-closes":
        await trio.sleep(moment * 0.4)
        await stream.send_eof()
    if behaviour in ("leaves", "resets"):
        with trio.move_on_after(moment):
            await _read(stream, sight)
        if behaviour == "resets":
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return
    if behaviour in ("stalls", "floods"):
        await trio.sleep(moment * 3)
        if moment < 0.3:
            return
    await _read(stream, sight)


async def _read(stream: trio.SocketStream, sight: Sight) -> None:
    """Read to the end of the connection; what was seen is kept even if this is cancelled or the connection breaks."""
    raw = bytearray()
    ended = False
    try:
        while data := await stream.receive_some(65536):
            raw += data
        ended = True
    finally:
        _understand(bytes(raw), sight, ended=ended)


def _understand(raw: bytes, sight: Sight, *, ended: bool) -> None:
    head, separator, rest = raw.partition(b"\r\n\r\n")
    if not separator:
        return
    sight.status = int(head[9:12])
    found = re.search(rb"\r\nx-request-id: (\S+)", head, re.IGNORECASE)
    sight.request_id = found[1].decode() if found else ""
    length = re.search(rb"\r\ncontent-length: ([0-9]+)", head, re.IGNORECASE)
    if length:
        sight.body, sight.clean = rest, len(rest) == int(length[1])
    elif b"chunked" in head.lower():
        sight.body, sight.clean = _unchunk(rest)
    else:
        sight.body, sight.clean = rest, ended


def _unchunk(rest: bytes) -> tuple[bytes, bool]:
    body = bytearray()
    while True:
        line, separator, rest = rest.partition(b"\r\n")
        if not separator:
            return bytes(body), False
        size = int(line, 16)
        if size == 0:
            return bytes(body), rest == b"\r\n"
        if len(rest) < size + 2:
            return bytes(body + rest[:size]), False
        body += rest[:size]
        rest = rest[size + 2 :]
