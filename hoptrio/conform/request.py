"""Request: what a case asks, as bytes in any of the four protocols. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.target import Target

__all__ = ["Ask", "lookup", "request"]

_PATHS = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.RESPONSES: "/v1/responses",
    Protocol.MESSAGES: "/v1/messages",
}
_OUTPUT_TOKENS = 2_000


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular about a request; the rest is a plain stream."""

    #: Chat: ``stream_options.include_usage``.
    usage: bool = True
    #: Gemini: without ``alt=sse``.
    array: bool = False
    #: On the model whose channel speaks this protocol, if not the client's own.
    channel: Protocol | None = None
    #: Members of the body.
    extra: dict[str, Any] = {}
    output_limit: int = _OUTPUT_TOKENS
    #: Characters behind the prompt, so that what is held covers a large report of usage.
    padding: int = 0


def request(target: Target, protocol: Protocol, prompt: str, ask: Ask) -> bytes:
    """The whole request, on a connection of its own."""
    model = target.model_for(ask.channel or protocol)
    prompt += "\n" + "x" * ask.padding if ask.padding else ""
    body = msgspec.json.encode(_body(protocol, model, prompt, ask) | ask.extra)
    lines = [
        f"POST {target.base}{_path(protocol, model, ask)} HTTP/1.1",
        f"host: {target.address}",
        *_headers(target, protocol),
        "content-type: application/json",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def lookup(target: Target, path: str) -> bytes:
    """A GET of `path`."""
    lines = [
        f"GET {target.base}{path} HTTP/1.1",
        f"host: {target.address}",
        f"authorization: Bearer {target.key}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _path(protocol: Protocol, model: str, ask: Ask) -> str:
    if protocol is not Protocol.GEMINI:
        return _PATHS[protocol]
    return f"/v1beta/models/{model}:streamGenerateContent" + ("" if ask.array else "?alt=sse")


def _headers(target: Target, protocol: Protocol) -> list[str]:
    if protocol is Protocol.MESSAGES:
        return [f"x-api-key: {target.key}", "anthropic-version: 2023-06-01"]
    if protocol is Protocol.GEMINI:
        return [f"x-goog-api-key: {target.key}"]
    return [f"authorization: Bearer {target.key}"]


def _body(protocol: Protocol, model: str, prompt: str, ask: Ask) -> dict[str, Any]:
    if protocol is Protocol.GEMINI:
        config = {"maxOutputTokens": ask.output_limit}
        return {"contents": [{"role": "user", "parts": [{"text": prompt}]}], "generationConfig": config}
    body: dict[str, Any] = {"model": model, "stream": True}
    if protocol is Protocol.RESPONSES:
        return body | {"max_output_tokens": ask.output_limit, "input": prompt}
    body |= {"max_tokens": ask.output_limit, "messages": [{"role": "user", "content": prompt}]}
    if protocol is Protocol.CHAT and ask.usage:
        body |= {"stream_options": {"include_usage": True}}
    return body
