"""Why an answer ends, in each protocol's words (protocols page 9.6). Pure tables."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CHAT",
    "FROM_CHAT",
    "FROM_GEMINI",
    "FROM_INCOMPLETE",
    "FROM_MESSAGES",
    "GEMINI",
    "INCOMPLETE",
    "MESSAGES",
    "End",
    "refined",
]


class End(Enum):
    """A provider's reason to stop."""

    STOP = auto()
    STOP_SEQUENCE = auto()
    TOOL_CALLS = auto()
    #: The limit, the context, a pause that the client's protocol does not know, a failure of the model: more was to
    #: come.
    LENGTH = auto()
    #: The provider's filter.
    FILTERED = auto()
    #: The model refused in words.
    REFUSED = auto()


#: Any other value is a stop: vendors have their own names for it (``eos``, ``end_turn``).
FROM_CHAT: Mapping[str, End] = {
    "length": End.LENGTH,
    "max_tokens": End.LENGTH,
    "model_length": End.LENGTH,
    "tool_calls": End.TOOL_CALLS,
    "function_call": End.TOOL_CALLS,
    "content_filter": End.FILTERED,
    "refusal": End.FILTERED,
    "stop_sequence": End.STOP_SEQUENCE,
    # In a stream the native reader takes it for an error.
    "error": End.LENGTH,
    "insufficient_system_resource": End.LENGTH,
}
#: ``incomplete_details.reason``; any other means that something is missing all the same.
FROM_INCOMPLETE: Mapping[str, End] = {"content_filter": End.FILTERED}
#: ``pause_turn`` and ``compaction`` want the turn to be continued, which no other protocol can say.
FROM_MESSAGES: Mapping[str, End] = {
    "stop_sequence": End.STOP_SEQUENCE,
    "tool_use": End.TOOL_CALLS,
    "max_tokens": End.LENGTH,
    "model_context_window_exceeded": End.LENGTH,
    "pause_turn": End.LENGTH,
    "compaction": End.LENGTH,
    "refusal": End.FILTERED,
}
#: Any other is one of Gemini's failures (MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, OTHER ...) and `LENGTH`: a stop
#: would tell an agent that it has everything. Natively such an answer is complete, so it is everywhere.
FROM_GEMINI: Mapping[str, End] = {
    "STOP": End.STOP,
    "MAX_TOKENS": End.LENGTH,
    "CONTINUATION": End.LENGTH,
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "MODEL_ARMOR",
            "ESCALATION",
        ),
        End.FILTERED,
    ),
}

CHAT: Mapping[End, str] = {
    End.STOP: "stop",
    End.STOP_SEQUENCE: "stop",
    End.TOOL_CALLS: "tool_calls",
    End.LENGTH: "length",
    End.FILTERED: "content_filter",
    End.REFUSED: "stop",
}
#: Responses' ``incomplete_details.reason``; every other end is ``completed``.
INCOMPLETE: Mapping[End, str] = {End.LENGTH: "max_output_tokens", End.FILTERED: "content_filter"}
MESSAGES: Mapping[End, str] = {
    End.STOP: "end_turn",
    End.STOP_SEQUENCE: "stop_sequence",
    End.TOOL_CALLS: "tool_use",
    End.LENGTH: "max_tokens",
    End.FILTERED: "refusal",
    End.REFUSED: "refusal",
}
GEMINI: Mapping[End, str] = {
    End.STOP: "STOP",
    End.STOP_SEQUENCE: "STOP",
    End.TOOL_CALLS: "STOP",
    End.LENGTH: "MAX_TOKENS",
    End.FILTERED: "SAFETY",
    End.REFUSED: "SAFETY",
}


def refined(end: End, *, called: bool, refused: bool) -> End:
    """An end with what the answer itself says: agents key on tool calls, whatever the provider called its stop."""
    if end is not End.STOP:
        return end
    if called:
        return End.TOOL_CALLS
    return End.REFUSED if refused else end
