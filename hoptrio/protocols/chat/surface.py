"""The requests that a chat channel serves: completions, embeddings and images. The path says which, then the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.protocols.chat import embeddings, images, request
from hoptrio.protocols.events import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.protocols.events import Call

__all__ = ["encode", "parse", "path"]

_PARSE: Mapping[str, Callable[..., Call]] = {
    "/v1/embeddings": embeddings.parse,
    "/v1/images/generations": images.parse,
}
_ENCODE: Mapping[Operation, Callable[..., bytes]] = {
    Operation.GENERATE: request.encode,
    Operation.EMBEDDINGS: embeddings.encode,
    Operation.IMAGES: images.encode,
}
_PATH: Mapping[Operation, Callable[[Call, str], str]] = {
    Operation.GENERATE: request.path,
    Operation.EMBEDDINGS: embeddings.path,
    Operation.IMAGES: images.path,
}


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read a client's request. Raises BadRequest with `param`."""
    return _PARSE.get(path, request.parse)(path, query, headers, body)


def encode(call: Call, **settings: Any) -> bytes:
    """The upstream body, by `rules.Rules.encode`."""
    return _ENCODE[call.operation](call, **settings)


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL, e.g. ``/chat/completions``."""
    return _PATH[call.operation](call, model)
