"""Usage objects of the OpenAI protocols, read into `Counts`. Pure; says nothing about prices.

A usage object is evidence only if its counts are there and are integers from 0 to `TOKENS_MAX` (contract, "Evidence per
protocol"): ``{}``, null, -1 or 5.0 is none. Details may be absent or null; a wrong one spoils the whole object, since
it would change the price. Sources: protocols page 3.2, 4.2, 10.2 (vendor spellings of the cached part).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hoptrio.limits import TOKENS_MAX
from hoptrio.protocols.events import Counts
from hoptrio.protocols.members import UNREADABLE

__all__ = ["chat_counts", "embedding_counts", "responses_counts"]

Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class _ServerTools(msgspec.Struct, gc=False):
    web_search_requests: Tokens | None = None


class _ChatUsage(msgspec.Struct, gc=False):
    prompt_tokens: Tokens
    completion_tokens: Tokens
    total_tokens: Tokens | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    #: DeepSeek.
    prompt_cache_hit_tokens: Tokens | None = None
    #: Moonshot.
    cached_tokens: Tokens | None = None
    #: Claude behind chat endpoints: Databricks, Snowflake, gateways.
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    #: xAI and older Qwen.
    reasoning_tokens: Tokens | None = None
    #: OpenRouter.
    server_tool_use_details: _ServerTools | None = None


class _EmbeddingUsage(msgspec.Struct, gc=False):
    prompt_tokens: Tokens
    total_tokens: Tokens | None = None


class _HostedTools(msgspec.Struct, gc=False):
    """xAI."""

    web_search_calls: Tokens | None = None
    file_search_calls: Tokens | None = None
    code_interpreter_calls: Tokens | None = None


class _ResponsesUsage(msgspec.Struct, gc=False):
    input_tokens: Tokens
    output_tokens: Tokens
    total_tokens: Tokens | None = None
    input_tokens_details: _PromptDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    server_side_tool_usage_details: _HostedTools | None = None


_CHAT = msgspec.json.Decoder(_ChatUsage)
_EMBEDDING = msgspec.json.Decoder(_EmbeddingUsage)
_RESPONSES = msgspec.json.Decoder(_ResponsesUsage)


def chat_counts(raw: msgspec.Raw, tier: str | None) -> Counts | None:
    """The counts of a Chat usage object; None if it is not evidence."""
    try:
        usage = _CHAT.decode(raw)
    except UNREADABLE:
        return None
    prompt = usage.prompt_tokens_details or _PromptDetails()
    output = usage.completion_tokens_details or _OutputDetails()
    cached = (prompt.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens, usage.cache_read_input_tokens)
    tools = usage.server_tool_use_details
    return Counts(
        input=usage.prompt_tokens,
        output=usage.completion_tokens,
        total=usage.total_tokens,
        cached=_first(*cached),
        cache_write=_first(prompt.cache_write_tokens, usage.cache_creation_input_tokens),
        reasoning=_first(output.reasoning_tokens, usage.reasoning_tokens),
        tool_calls=_nonzero(web_search=tools.web_search_requests) if tools else {},
        tier=tier,
        raw=bytes(raw),
    )


def embedding_counts(raw: msgspec.Raw) -> Counts | None:
    """The counts of an embeddings usage object, which has no output: 0."""
    try:
        usage = _EMBEDDING.decode(raw)
    except UNREADABLE:
        return None
    return Counts(input=usage.prompt_tokens, output=0, total=usage.total_tokens, raw=bytes(raw))


def responses_counts(raw: msgspec.Raw, tier: str | None, *, tool_calls: dict[str, int]) -> Counts | None:
    """The counts of a Responses (or Images) usage object; None if it is not evidence. `tool_calls` are the hosted tool
    calls seen in the answer, used unless the usage object itself reports them."""
    try:
        usage = _RESPONSES.decode(raw)
    except UNREADABLE:
        return None
    details = usage.input_tokens_details or _PromptDetails()
    output = usage.output_tokens_details or _OutputDetails()
    hosted = usage.server_side_tool_usage_details
    if hosted is not None:
        tool_calls = tool_calls | {
            "web_search": hosted.web_search_calls or 0,
            "file_search": hosted.file_search_calls or 0,
            "code_interpreter": hosted.code_interpreter_calls or 0,
        }
    return Counts(
        input=usage.input_tokens,
        output=usage.output_tokens,
        total=usage.total_tokens,
        cached=details.cached_tokens,
        cache_write=details.cache_write_tokens,
        reasoning=output.reasoning_tokens,
        tool_calls=_nonzero(**tool_calls),
        tier=tier,
        raw=bytes(raw),
    )


def _first(*values: int | None) -> int | None:
    """The first spelling that reports something: a vendor may send one as 0 and the real one under another name."""
    reported = [value for value in values if value is not None]
    return next((value for value in reported if value), reported[0] if reported else None)


def _nonzero(**calls: int | None) -> dict[str, int]:
    return {name: count for name, count in calls.items() if count}
