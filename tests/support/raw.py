"""Requests byte by byte, and what must be true of every refusal: its shape, its headers, and that nothing is held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from tests.support.client import Response
    from tests.support.harness import Harness

#: Nothing more comes after this much silence, in virtual time.
SILENCE_S = 5
POST_PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}


def request(method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    """A request as bytes; a body gets its length unless `headers` frame it."""
    lines = {"host": "x"} | (headers or {})
    if body and "transfer-encoding" not in lines and "content-length" not in lines:
        lines["content-length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


async def ask(world: Harness, data: bytes) -> Response:
    """Send `data` on a connection of its own and read one response."""
    client = world.connect()
    await client.send(data)
    response = await client.read()
    await client.leave()
    return response


async def converse(world: Harness, data: bytes) -> bytes:
    """Send `data` and return everything that comes back until the end or a silence."""
    client = world.connect()
    await client.send(data)
    received = b""
    with trio.move_on_after(SILENCE_S):
        while more := await client.stream.receive_some():
            received += more
    await client.leave()
    return received


async def post(
    world: Harness,
    kind: str,
    body: Any,
    *,
    target: str | None = None,
    headers: dict[str, str] | None = None,
    secret: str | None = None,
) -> Response:
    """One POST to a protocol's path."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"authorization": f"Bearer {secret or world.secret}", "content-type": "application/json"} | (headers or {})
    return await ask(world, request("POST", target or POST_PATHS[kind], lines, raw))


def assert_shape(response: Response, kind: str, status: int, code: str | None = None, *, retry: bool = False) -> None:
    """A refusal as the protocol's own clients read it; `retry`: a retry may mend it."""
    assert response.status == status, response.body
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    assert response.headers.get("x-should-retry") == (None if retry else "false")
    error = response.json["error"]
    if kind in ("chat", "responses"):
        assert set(response.json) == {"error"}
        assert set(error) == {"message", "type", "param", "code"}
        assert code in (None, error["code"])
        return
    assert code is None or error["message"].startswith(f"{code}: ")
    if kind == "messages":
        assert set(response.json) == {"type", "error", "request_id"}
        assert set(error) == {"type", "message"}
        assert response.json["type"] == "error"
        assert response.json["request_id"] == response.headers["request-id"] == response.headers["x-request-id"]
    else:
        assert set(response.json) == {"error"}
        assert error["code"] == status
        assert error["status"] == error["status"].upper()


async def assert_nothing_held(world: Harness, *, charged_nanos: int = 0) -> None:
    """The books add up, no hold is open, and the account has what it had, less what was charged."""
    report = await world.ledger.audit()
    assert (report.ok, report.violations, report.open_holds) == (True, (), 0)
    assert (report.held_nanos, report.captured_nanos) == (0, charged_nanos)
