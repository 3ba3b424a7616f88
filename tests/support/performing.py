"""Asks the simulated provider without a socket: a request in each protocol, and what the steps say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.steps import Send, Sleep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.simulator.steps import Step

__all__ = ["PATHS", "body_of", "data_of", "pauses_of", "perform", "request", "text_of", "usage_of"]

PATHS = {
    Protocol.CHAT: "/v1/chat/completions",
    Protocol.RESPONSES: "/v1/responses",
    Protocol.MESSAGES: "/v1/messages",
    Protocol.GEMINI: "/v1beta/models/sim-small:streamGenerateContent?alt=sse",
}


def request(protocol: Protocol, text: str, *, stream: bool = True, **more: Any) -> tuple[str, bytes]:
    """The target and body of a request that says `text`; `more` are further members of the body."""
    path = PATHS[protocol]
    body: dict[str, Any] = {"model": "sim-small", "stream": stream}
    if protocol is Protocol.GEMINI:
        body = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        path = path if stream else "/v1beta/models/sim-small:generateContent"
    elif protocol is Protocol.RESPONSES:
        body["input"] = text
    else:
        body["messages"] = [{"role": "user", "content": text}]
        body |= {"max_tokens": 1000} if protocol is Protocol.MESSAGES else {}
    if protocol is Protocol.CHAT and stream:
        body["stream_options"] = {"include_usage": True}
    return path, json.dumps(body | more).encode()


def perform(
    protocol: Protocol, text: str, *, stream: bool = True, provider: SimulatedProvider | None = None, **more: Any
) -> list[Step]:
    """All the steps the provider takes for such a request. Not for those without an end."""
    provider = provider or SimulatedProvider()
    target, body = request(protocol, text, stream=stream, **more)
    return list(provider.respond(provider.saw("POST", target, (), body), body))


def body_of(steps: Iterable[Step]) -> bytes:
    """All body bytes."""
    return b"".join(step.data for step in steps if isinstance(step, Send))


def pauses_of(steps: Iterable[Step]) -> list[float]:
    """All pauses in seconds."""
    return [step.seconds for step in steps if isinstance(step, Sleep)]


def data_of(body: bytes) -> list[Any]:
    """The data of each whole event of a well-formed SSE body: JSON values, and ``[DONE]`` as itself."""
    events = body.decode().split("\n\n")[:-1]
    data = [line[6:] for event in events for line in event.split("\n") if line.startswith("data: ")]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def text_of(protocol: Protocol, data: list[Any]) -> str:
    """The visible text of the first choice."""
    return "".join(_text(protocol, event) for event in data if isinstance(event, dict))


def _text(protocol: Protocol, event: dict[str, Any]) -> str:
    if protocol is Protocol.CHAT:
        return "".join(each["delta"].get("content") or "" for each in event.get("choices", []) if each["index"] == 0)
    if protocol is Protocol.RESPONSES:
        return event["delta"] if event["type"] == "response.output_text.delta" else ""
    if protocol is Protocol.MESSAGES:
        return event.get("delta", {}).get("text", "")
    candidates = [each for each in event.get("candidates", []) if each["index"] == 0]
    parts = [part for each in candidates for part in each["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def usage_of(protocol: Protocol, data: list[Any]) -> Any:
    """The last usage object, as the protocol has it; None if there is none."""
    usage = None
    for event in data:
        if isinstance(event, dict):
            holder = event["response"] if protocol is Protocol.RESPONSES and "response" in event else event
            usage = holder.get("usageMetadata" if protocol is Protocol.GEMINI else "usage") or usage
    return usage
