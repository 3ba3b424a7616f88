"""Images, on OpenAI's side of a chat channel: ``POST /v1/images/generations``. Fields: OpenAI's API reference.

An image is sold at a price of its own, whatever its size and quality, or by the tokens that the answer reports, or by
both; which of them, the model's prices say (`Call.by_image`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.chat.whole import refuse_stream
from hoptrio.protocols.events import Call, Framing, Operation, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["encode", "parse", "path"]

#: Fields of the current API; a channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset(
    """background model moderation n output_compression output_format partial_images prompt quality response_format
    size stream style user""".split()  # noqa: SIM905
)


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read the request. Raises BadRequest with `param`; a stream is one."""
    value = parse_object(body)
    model = fields.model_name(value)
    refuse_stream(value, "Images")
    fields.required_string(value, "prompt")
    count = fields.count(value, "n")
    pricing.refuse(value, pricing.IMAGES)
    tier = pricing.tier_of(value, ("service_tier", "speed"), automatic=False)
    return Call(
        protocol=Protocol.CHAT,
        operation=Operation.IMAGES,
        model=model,
        stream=False,
        framing=Framing.JSON,
        body=value,
        choices=count or 1,
        # Other vendors take pictures to begin from, by URL or in base64, under names of their own.
        opaque_input=not KNOWN.issuperset(name for name, member in value.items() if member is not None),
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
    """The upstream body. An image has no limit of its own, and usage is in the answer if there is any."""
    body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
    return encode_object({**body, "model": model})


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL."""
    return "/images/generations"
