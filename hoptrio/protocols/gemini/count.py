"""Google's ``models/{model}:countTokens``: ``contents`` alone, or all of a request as ``generateContentRequest``.

Fields: Google's API reference. `Call.body` is the request to be counted, however it came; system instruction and tools
may stand beside ``contents``, too, where some of Google's clients put them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.count import counted, read_count
from hoptrio.protocols.events import Call, Framing, Operation, Protocol
from hoptrio.protocols.gemini.request import KNOWN, camel, resource, snake, survey_of, target

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COUNTING"]

_WHOLE = "generateContentRequest"


class _Counting:
    """See `count.Counting`."""

    def parse(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
        model, _ = target(path)
        value = _request(parse_object(body))
        return Call(
            protocol=Protocol.GEMINI,
            operation=Operation.COUNT_TOKENS,
            model=model,
            stream=False,
            framing=Framing.JSON,
            body=value,
            **survey_of(value).findings(),
        )

    def encode(self, call: Call, *, model: str, drop_unknown: bool) -> bytes:
        body = {
            name: value
            for name, value in call.body.items()
            if name != "model" and (not drop_unknown or camel(name) in KNOWN)
        }
        if body.keys() == {"contents"}:
            return encode_object(body)
        return encode_object({_WHOLE: {**body, "model": model if "/" in model else f"models/{model}"}})

    def path(self, call: Call, model: str) -> str:
        return f"/v1beta/{resource(model)}:countTokens"

    def read(self, body: bytes) -> int | None:
        return read_count(body, "totalTokens")

    def answer(self, tokens: int) -> bytes:
        return counted({"totalTokens": tokens})


def _request(body: dict[str, Any]) -> dict[str, Any]:
    spelt = [name for name in (_WHOLE, snake(_WHOLE)) if body.get(name) is not None]
    if not spelt:
        return body
    if len(spelt) > 1 or body.get("contents") is not None:
        raise BadRequest(f"Give either 'contents' or '{spelt[0]}', and once.", param=spelt[0])
    return fields.optional_object(body, spelt[0]) or {}


COUNTING = _Counting()
