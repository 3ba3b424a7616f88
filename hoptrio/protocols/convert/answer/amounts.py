"""Usage in each client protocol's own arithmetic (protocols page 9.9). Pure.

OpenAI and Gemini count cached input inside the input, Anthropic beside it; Gemini counts reasoning beside the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hoptrio.protocols.convert.answer.vocabulary import Weighed

__all__ = ["chat_usage", "gemini_usage", "messages_usage", "responses_usage"]


def chat_usage(usage: Weighed) -> dict[str, Any]:
    """Chat's ``usage``."""
    return {
        "prompt_tokens": usage.all_input,
        "completion_tokens": usage.output,
        "total_tokens": usage.all_input + usage.output,
        "prompt_tokens_details": _input_details(usage),
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def responses_usage(usage: Weighed) -> dict[str, Any]:
    """Responses' ``usage``."""
    return {
        "input_tokens": usage.all_input,
        "input_tokens_details": _input_details(usage),
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.all_input + usage.output,
    }


def messages_usage(usage: Weighed | None) -> dict[str, Any]:
    """Messages' ``usage``, which must be there even if nothing is known."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    members: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": _written(usage),
        "cache_read_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        members["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return members


def gemini_usage(usage: Weighed) -> dict[str, Any]:
    """Gemini's ``usageMetadata``; absent members are zero."""
    members = {
        "promptTokenCount": usage.all_input,
        "cachedContentTokenCount": usage.cached_input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.all_input + usage.output,
    }
    return {name: count for name, count in members.items() if count or name == "promptTokenCount"}


def _input_details(usage: Weighed) -> dict[str, int]:
    return {"cached_tokens": usage.cached_input, "cache_write_tokens": _written(usage)}


def _written(usage: Weighed) -> int:
    return usage.cache_write + usage.cache_write_1h
