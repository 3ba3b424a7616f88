"""Embeddings, on OpenAI's side of a chat channel: ``POST /v1/embeddings``. Fields: OpenAI's API reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.chat.whole import refuse_stream
from hoptrio.protocols.events import Call, Framing, Operation, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["encode", "parse", "path"]

#: Fields of the current API; a channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset({"dimensions", "encoding_format", "input", "model", "user"})


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read the request. Raises BadRequest with `param`; a stream is one."""
    value = parse_object(body)
    model = fields.model_name(value)
    refuse_stream(value, "Embeddings")
    pricing.refuse(value, pricing.CHAT)
    given = value.get("input")
    if given is None:
        raise fields.missing("input")
    if type(given) not in (str, list):
        raise fields.wrong_type("input", "a string or an array", given)
    tier = pricing.tier_of(value, ("service_tier", "speed"), automatic=False)
    return Call(
        protocol=Protocol.CHAT,
        operation=Operation.EMBEDDINGS,
        model=model,
        stream=False,
        framing=Framing.JSON,
        body=value,
        # Other vendors embed images and pages that the body only names.
        opaque_input=any(not _is_plain(each) for each in given) if type(given) is list else False,
        tier=tier.name,
        tier_param=tier.param,
    )


def encode(
    call: Call,
    *,
    model: str,
    output_limit: int | None,
    ask_usage: bool,
    drop_unknown: bool,
    drop_tools: frozenset[str],
) -> bytes:
    """The upstream body. There is no output to limit, and usage is always in the answer."""
    body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
    return encode_object({**body, "model": model})


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL."""
    return "/embeddings"


def _is_plain(item: Any) -> bool:
    """A text, a token, or a list of tokens: each token is at least a byte of the body."""
    return type(item) in (str, int) or (type(item) is list and all(type(each) is int for each in item))
