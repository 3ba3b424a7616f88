"""Dialog: how the client of the harness asks in a protocol, and what it looks for in the answer.

Every event of the harness's provider carries the moment it was sent (`STAMP`); what is counted as an event is the stamp
in the member that holds an event's text, so that a protocol's summing-up events are not counted again.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from bench.unframe import masked_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DIALOGS", "STAMP", "Dialog", "request", "turn", "upgrade"]

#: Where a template has the time; 19 digits of CLOCK_MONOTONIC in ns.
STAMP = "~0000000000000000000~"
_OUTPUT_TOKENS_MAX = 100_000


class Dialog(NamedTuple):
    """One protocol."""

    path: str
    #: The header that carries the key, and what stands before it.
    key: tuple[str, str]
    headers: tuple[tuple[str, str], ...]
    stamp: re.Pattern[bytes]
    terminal: bytes
    #: Of the usage object: a part to look for, and the two counts.
    usage_hint: bytes
    usage: re.Pattern[bytes]


def _stamp(member: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'"' + member + rb'": ?"~(\d{19})~')


def _usage(first: bytes, second: bytes) -> re.Pattern[bytes]:
    return re.compile(rb'"' + first + rb'": ?(\d+)[^{}]*(?:\{[^{}]*\}[^{}]*)*"' + second + rb'": ?(\d+)')


_BEARER = ("authorization", "Bearer ")
_VERSION = (("anthropic-version", "2023-06-01"),)
DIALOGS = {
    "chat": Dialog(
        "/v1/chat/completions",
        _BEARER,
        (),
        _stamp(b"content"),
        b"[DONE]",
        b'"completion_tokens":',
        _usage(b"prompt_tokens", b"completion_tokens"),
    ),
    "responses": Dialog(
        "/v1/responses",
        _BEARER,
        (),
        _stamp(b"delta"),
        b'"response.completed"',
        b'"output_tokens":',
        _usage(b"input_tokens", b"output_tokens"),
    ),
    "messages": Dialog(
        "/v1/messages",
        ("x-api-key", ""),
        _VERSION,
        _stamp(b"text"),
        b'"message_stop"',
        b'"output_tokens":',
        _usage(b"input_tokens", b"output_tokens"),
    ),
    "gemini": Dialog(
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        ("x-goog-api-key", ""),
        (),
        _stamp(b"text"),
        b'"finishReason"',
        b'"candidatesTokenCount":',
        _usage(b"promptTokenCount", b"candidatesTokenCount"),
    ),
}


def request(
    protocol: str,
    *,
    base: str,
    host: str,
    key: str,
    model: str,
    prompt: str,
    call: str,
    usage_asked: bool,
    stream: bool = True,
    headers: Iterable[tuple[str, str]] = (),
    keep: bool = False,
) -> bytes:
    """A whole HTTP request, on a connection of its own unless `keep`; `call` is the caller's id of it."""
    dialog = DIALOGS[protocol]
    body = json.dumps(_body(protocol, model, prompt, usage_asked=usage_asked, stream=stream)).encode()
    path = dialog.path if stream else dialog.path.replace(":streamGenerateContent?alt=sse", ":generateContent")
    name, prefix = dialog.key
    lines = [
        f"POST {base}{path.format(model=model)} HTTP/1.1",
        f"host: {host}",
        f"{name}: {prefix}{key}",
        f"x-client-request-id: {call}",
        *(f"{name}: {value}" for name, value in (*dialog.headers, *headers)),
        "content-type: application/json",
        *([] if keep else ["connection: close"]),
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def upgrade(*, base: str, host: str, key: str, call: str) -> bytes:
    """The opening handshake of Responses over WebSocket (RFC 6455, 4.1); `call` is the caller's id of its turn."""
    name, prefix = DIALOGS["responses"].key
    lines = [
        f"GET {base}{DIALOGS['responses'].path} HTTP/1.1",
        f"host: {host}",
        f"{name}: {prefix}{key}",
        f"x-client-request-id: {call}",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        f"sec-websocket-key: {base64.b64encode(os.urandom(16)).decode()}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def turn(*, model: str, prompt: str) -> bytes:
    """The message that begins a turn, framed."""
    return masked_text(json.dumps({"type": "response.create", "model": model, "input": prompt}).encode())


def _body(protocol: str, model: str, prompt: str, *, usage_asked: bool, stream: bool) -> dict[str, object]:
    messages = [{"role": "user", "content": prompt}]
    if protocol == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    body: dict[str, object] = {"model": model} | ({"stream": True} if stream else {})
    if protocol == "responses":
        return body | {"input": prompt}
    if protocol == "messages":
        return body | {"max_tokens": _OUTPUT_TOKENS_MAX, "messages": messages}
    asked = {"stream_options": {"include_usage": True}} if usage_asked and stream else {}
    return body | asked | {"messages": messages}
