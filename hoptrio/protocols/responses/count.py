"""OpenAI's ``POST /v1/responses/input_tokens``: the input of a Responses request. Fields: OpenAI's API reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols import fields
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.count import counted, read_count
from hoptrio.protocols.events import Call, Framing, Operation, Protocol
from hoptrio.protocols.responses.request import survey_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COUNTING"]

#: A channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset(
    """conversation input instructions model parallel_tool_calls personality previous_response_id reasoning text
    tool_choice tools truncation""".split()  # noqa: SIM905
)


class _Counting:
    """See `count.Counting`."""

    def parse(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
        value = parse_object(body)
        return Call(
            protocol=Protocol.RESPONSES,
            operation=Operation.COUNT_TOKENS,
            model=fields.model_name(value),
            stream=False,
            framing=Framing.JSON,
            body=value,
            **survey_of(value).findings(),
        )

    def encode(self, call: Call, *, model: str, drop_unknown: bool) -> bytes:
        body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
        return encode_object({**body, "model": model})

    def path(self, call: Call, model: str) -> str:
        return "/responses/input_tokens"

    def read(self, body: bytes) -> int | None:
        return read_count(body, "input_tokens")

    def answer(self, tokens: int) -> bytes:
        return counted({"object": "response.input_tokens", "input_tokens": tokens})


COUNTING = _Counting()
