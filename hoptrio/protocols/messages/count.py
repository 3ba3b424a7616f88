"""Anthropic's ``POST /v1/messages/count_tokens``: a Messages request without ``max_tokens`` (protocols page 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols import fields
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.count import counted, read_count
from hoptrio.protocols.events import Call, Framing, Operation, Protocol
from hoptrio.protocols.messages.request import KNOWN, relayed_headers, relayed_query, survey_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COUNTING"]


class _Counting:
    """See `count.Counting`."""

    def parse(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
        value = parse_object(body)
        return Call(
            protocol=Protocol.MESSAGES,
            operation=Operation.COUNT_TOKENS,
            model=fields.model_name(value),
            stream=False,
            framing=Framing.JSON,
            body=value,
            headers=relayed_headers(headers),
            query=relayed_query(query),
            **survey_of(value).findings(),
        )

    def encode(self, call: Call, *, model: str, drop_unknown: bool) -> bytes:
        body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
        return encode_object({**body, "model": model})

    def path(self, call: Call, model: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in call.query)
        return f"/v1/messages/count_tokens?{query}" if query else "/v1/messages/count_tokens"

    def read(self, body: bytes) -> int | None:
        return read_count(body, "input_tokens")

    def answer(self, tokens: int) -> bytes:
        return counted({"input_tokens": tokens})


COUNTING = _Counting()
