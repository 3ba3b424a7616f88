"""The values that travel between a protocol's rules and everything else. Pure, frozen.

Bytes of a provider become `SseEvent`s (`protocols.sse`), a protocol's reader makes a `Step` of each, and what it
learned about usage is a `Counts`: the numbers as reported, before `metering` interprets them.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import msgspec

__all__ = ["Call", "Counts", "Finish", "Framing", "Kind", "Operation", "Protocol", "ProviderError", "SseEvent", "Step"]


class Protocol(StrEnum):
    """The four client and channel protocols."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GEMINI = "gemini"


class Operation(StrEnum):
    """What a call asks for."""

    GENERATE = "generate"
    COUNT_TOKENS = "count_tokens"
    #: Chat channels serve these two.
    EMBEDDINGS = "embeddings"
    IMAGES = "images"


class Framing(StrEnum):
    """How the answer is written to the client."""

    SSE = "sse"
    #: Gemini's streamGenerateContent without ``alt=sse``: one JSON array, an element an event.
    JSON_ARRAY = "json_array"
    #: Not streaming: one JSON body.
    JSON = "json"


class SseEvent(NamedTuple):
    """One dispatched event: its ``event:`` name (b"" if none) and its data, lines joined by LF (WHATWG HTML 9.2.6).

    `stray` is True for a line outside the grammar that holds a JSON object: some providers write their error so.
    """

    name: bytes
    data: bytes
    stray: bool = False


class Kind(IntEnum):
    """What one event of the provider means for the stream."""

    #: Moves nothing: pings, comments, empty deltas, repeated ``response.in_progress``. Not progress.
    QUIET = 0
    #: Comes before the answer (role-only chunk, ``response.created``, ``message_start``). Not progress.
    OPENING = 1
    #: Moves the model's answer: the only kind that resets the stall clock.
    ANSWER = 2
    #: The protocol's terminal, or what may turn out to be it: held back until settled.
    TERMINAL = 3
    #: The provider's own error event.
    FAILURE = 4


class Step(NamedTuple):
    """An event's kind and the bytes for a client of the same protocol; b"" = nothing is forwarded."""

    kind: Kind
    wire: bytes


class Finish(NamedTuple):
    """What the end of the body means: was the stream complete, and what is still to be written as its terminal."""

    complete: bool
    #: Bytes to write after the settlement, behind any held-back terminal (a supplied ``[DONE]``); b"" = nothing.
    wire: bytes


class Counts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Token counts exactly as the provider reported them, in its own protocol's arithmetic. None = not reported.

    OpenAI and Gemini count cached input inside `input`, Anthropic beside it; `metering` resolves that.
    """

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cached: int | None = None
    #: Input written to a cache, that of `cache_write_1h` included.
    cache_write: int | None = None
    cache_write_1h: int | None = None
    reasoning: int | None = None
    #: Gemini's tool-use prompt, counted beside `input`.
    tool_input: int | None = None
    #: Billable hosted tool calls, e.g. {"web_search": 2}.
    tool_calls: dict[str, int] = {}
    #: Images produced, for image models.
    images: int | None = None
    #: The price tier the provider says it used, e.g. "priority".
    tier: str | None = None
    #: The usage object as received, kept beside the charge.
    raw: bytes = b""


class ProviderError(msgspec.Struct, frozen=True, kw_only=True):
    """An error the provider reported, in its body or in an event. `status` is HTTP's, mapped from the type if in a
    stream; `message` is the provider's own and is shown only where it is about the request (protocols page 9.10)."""

    status: int
    code: str = ""
    type: str = ""
    message: str = ""
    retry_after_s: int | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed model request, as far as routing, pricing and writing need to know it.

    `body` is the parsed JSON value and is never changed; the upstream body is serialised from it (`rules.encode`).
    """

    protocol: Protocol
    operation: Operation = Operation.GENERATE
    model: str
    stream: bool
    framing: Framing
    body: dict[str, Any]
    #: Chat: the client set ``stream_options.include_usage: true`` itself.
    usage_asked: bool = False
    #: The largest of all spellings of the output limit in the request; None = none given.
    output_limit: int | None = None
    #: Choices or candidates asked for.
    choices: int = 1
    #: The model has a price by the image, so that images are counted; in Images they are evidence without token counts
    #: beside them.
    by_image: bool = False
    #: The field that asks for images in a text model's answer, which takes a price by the image; "" = none does.
    image_param: str = ""
    #: Something in the input is not plain text in the body (image, file, URL, stored prompt ...), so that its bytes
    #: bound nothing. Hosted tools have the same effect unless they are dropped, which `admission.quote` knows.
    opaque_input: bool = False
    #: Tokens the provider adds to the input for what the body only names (tools whose schema is its own).
    added_input_tokens: int = 0
    #: The request may write to a cache of longer life, at `Prices.cache_write_1h`.
    long_cache: bool = False
    #: The value of a field that selects another price (``service_tier``, ``speed`` ...); None = the standard price.
    tier: str | None = None
    #: The field that selected it; "" = none did.
    tier_param: str = ""
    #: ``service_tier`` is auto or absent where auto is the default: the provider itself may choose its priority tier.
    tier_open: bool = False
    #: Hosted tools asked for, by the name a price table uses, e.g. ("web_search",).
    hosted_tools: tuple[str, ...] = ()
    #: The most calls of a hosted tool that the request itself allows; a tool it sets no bound for is not in here.
    hosted_calls_max: dict[str, int] = {}
    #: True when ``tool_choice`` is auto or absent: an unpriced hosted tool may then be dropped.
    tools_optional: bool = True
    #: Provider-side ids the request refers to (``previous_response_id``, ``conversation``, ``item_reference``).
    provider_ids: tuple[str, ...] = ()
    #: The parameter by which the request names a file or another id that the gateway cannot know; "" = none does.
    foreign_param: str = ""
    #: Headers of the client that belong to the protocol and are relayed, e.g. ``anthropic-version``.
    headers: tuple[tuple[str, str], ...] = ()
    #: Query parameters of the client that belong to the protocol and are relayed, e.g. ``beta=true``.
    query: tuple[tuple[str, str], ...] = ()
