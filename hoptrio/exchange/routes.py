"""Paths of the data plane (interface page): what a path is, whose protocol its errors speak, which methods it takes."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from hoptrio import errors
from hoptrio.exchange.unserved import UNSERVED_VERBS, unserved
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Target", "What", "find", "protocol_of"]


class What(Enum):
    """What a path asks for."""

    GENERATE = auto()
    COUNT = auto()
    MODELS = auto()
    REQUEST = auto()
    EVENTS = auto()
    RESPONSE = auto()
    ACCOUNT = auto()
    HEALTH = auto()
    READY = auto()
    WEBSOCKET = auto()


class Target(NamedTuple):
    """A path that exists, with a method that it takes. `name` is the model or request id in it, "" if none."""

    what: What
    protocol: Protocol
    name: str = ""


READ = ("GET", "HEAD")
_EXACT: Mapping[str, tuple[What, Protocol]] = {
    "/v1/chat/completions": (What.GENERATE, Protocol.CHAT),
    "/v1/responses": (What.GENERATE, Protocol.RESPONSES),
    "/v1/messages": (What.GENERATE, Protocol.MESSAGES),
    "/v1/embeddings": (What.GENERATE, Protocol.CHAT),
    "/v1/images/generations": (What.GENERATE, Protocol.CHAT),
    "/v1/messages/count_tokens": (What.COUNT, Protocol.MESSAGES),
    "/v1/responses/input_tokens": (What.COUNT, Protocol.RESPONSES),
    "/v1/account": (What.ACCOUNT, Protocol.CHAT),
    "/healthz": (What.HEALTH, Protocol.CHAT),
    "/readyz": (What.READY, Protocol.CHAT),
}
_GEMINI_VERBS: Mapping[str, What] = {
    "generateContent": What.GENERATE,
    "streamGenerateContent": What.GENERATE,
    "countTokens": What.COUNT,
}
#: What takes a POST, and what a GET alone; everything else is read.
_ALLOWED: Mapping[What, tuple[str, ...]] = {
    What.GENERATE: ("POST",),
    What.COUNT: ("POST",),
    What.EVENTS: ("GET",),
    What.RESPONSE: ("GET",),
}
#: Names of models may hold colons, too (``ft:gpt-5:acme``), so a colon alone does not make a path Google's.
_GEMINI_CALL = re.compile(rf"/v1/(?:models|tunedModels)/.*:(?:{'|'.join((*_GEMINI_VERBS, *UNSERVED_VERBS))})")
#: A response that a provider keeps.
_STORED = re.compile(r"/v1/responses/[^/]+")


def protocol_of(path: str, headers: Mapping[str, str]) -> Protocol:
    """Whose error shape a caller of this path understands, whether or not the path exists."""
    if (vendor := unserved(path, headers)) is not None:
        return vendor
    if path.startswith("/v1/messages"):
        return Protocol.MESSAGES
    if path.startswith("/v1/responses"):
        return Protocol.RESPONSES
    if path.startswith("/v1beta/") or _GEMINI_CALL.fullmatch(path) or "x-goog-api-key" in headers:
        return Protocol.GEMINI
    if "anthropic-version" in headers:
        return Protocol.MESSAGES
    return Protocol.CHAT


def find(method: str, path: str, headers: Mapping[str, str]) -> Target:
    """The target of a request; raises NotFound or MethodNotAllowed."""
    if unserved(path, headers) is not None:
        raise errors.NotFound(f"hoptrio does not serve the endpoint {path[:100]}.", code="endpoint_not_served")
    if method == "DELETE" and path not in _EXACT and _STORED.fullmatch(path):
        raise errors.NotFound(f"hoptrio does not serve DELETE {path[:100]}.", code="endpoint_not_served")
    target = _match(path, headers)
    if target is None:
        raise errors.NotFound(f"There is no {path[:100]} here.", code="unknown_path")
    if target.what is What.GENERATE and path == "/v1/responses" and method == "GET":
        return target._replace(what=What.WEBSOCKET)
    if target.what is What.MODELS and method == "POST" and ":" in target.name:
        verb, served = target.name.rpartition(":")[2], ", ".join(_GEMINI_VERBS)
        raise errors.NotFound(f"Models have no method {verb[:100]} here; {served} are served.", code="unknown_path")
    allowed = _ALLOWED.get(target.what, READ)
    if method not in allowed:
        raise errors.MethodNotAllowed(f"{path[:100]} takes {' and '.join(allowed)}, not {method[:20]}.", allowed)
    return target


def _match(path: str, headers: Mapping[str, str]) -> Target | None:
    if path in _EXACT:
        return Target(*_EXACT[path])
    if path.startswith("/v1/requests/"):
        return _match_request(path.removeprefix("/v1/requests/"))
    if path.startswith("/v1/responses/"):
        response_id = path.removeprefix("/v1/responses/")
        there = response_id and "/" not in response_id
        return Target(What.RESPONSE, Protocol.RESPONSES, response_id) if there else None
    for prefix in ("/v1/models", "/v1beta/models", "/v1/tunedModels", "/v1beta/tunedModels"):
        if path == prefix or path.startswith(prefix + "/"):
            return _match_model(path.removeprefix(prefix).lstrip("/"), path, headers)
    return None


def _match_request(rest: str) -> Target | None:
    request_id, slash, what = rest.partition("/")
    if not slash:
        return Target(What.REQUEST, Protocol.CHAT, request_id)
    return Target(What.EVENTS, Protocol.CHAT, request_id) if what == "events" else None


def _match_model(rest: str, path: str, headers: Mapping[str, str]) -> Target | None:
    name, colon, verb = rest.rpartition(":")
    if colon and verb in _GEMINI_VERBS:
        return Target(_GEMINI_VERBS[verb], Protocol.GEMINI, name)
    return Target(What.MODELS, protocol_of(path, headers), rest)
