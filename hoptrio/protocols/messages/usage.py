"""The usage of one Messages answer, gathered from its pieces. Pure.

Numbers of a ``message_delta`` are cumulative totals that overwrite those of ``message_start``: set, never added (cases
57; protocols page 6.3). The ``output_tokens`` of a ``message_start`` is a placeholder and never read (cases 54). A
piece that is not valid takes everything before it along, since nobody can say which of its numbers it meant.

``iterations`` (protocols page 6.3): the tokens of a ``compaction`` were produced by the same model and are left out of
the totals, so they are added here: else a caller could have context after context summarised for nothing. Those of an
``advisor_message`` belong to another model; they are reported as calls of the hosted tool ``advisor``.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hoptrio.limits import TOKENS_MAX
from hoptrio.protocols.events import Counts
from hoptrio.protocols.members import UNREADABLE

__all__ = ["UsageTally"]

Tokens = Annotated[int, msgspec.Meta(ge=0, le=TOKENS_MAX)]


class _CacheCreation(msgspec.Struct, gc=False):
    ephemeral_5m_input_tokens: Tokens | None = None
    ephemeral_1h_input_tokens: Tokens | None = None


class _ServerToolUse(msgspec.Struct, gc=False):
    web_search_requests: Tokens | None = None
    web_fetch_requests: Tokens | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: Tokens | None = None


class _Iteration(msgspec.Struct):
    type: str = ""
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: _CacheCreation | None = None


class _Usage(msgspec.Struct):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: _CacheCreation | None = None
    server_tool_use: _ServerToolUse | None = None
    output_tokens_details: _OutputDetails | None = None
    iterations: list[_Iteration] | None = None
    service_tier: Any = None
    speed: Any = None


_DECODER = msgspec.json.Decoder(_Usage)


class UsageTally:
    """Takes the pieces in the order they come; `counts` is what they add up to."""

    __slots__ = ("_merged", "_pieces")

    def __init__(self) -> None:
        self._merged = _Usage()
        self._pieces: dict[str, bytes] = {}

    def start(self, usage: bytes) -> None:
        """The usage object of ``message_start``, as received."""
        self._take("message_start", usage, output=False)

    def delta(self, usage: bytes) -> None:
        """The usage object of a ``message_delta``, or of a whole answer, as received."""
        self._take("message_delta", usage, output=True)

    def counts(self) -> Counts | None:
        """What was reported, or None where the input or the output was not."""
        reported = self.reported()
        return None if reported is None or reported.input is None or reported.output is None else reported

    def reported(self) -> Counts | None:
        """What was reported, complete or not; None if nothing was."""
        usage = self._merged
        if not self._pieces:
            return None
        tokens = _with_compactions(usage)
        return Counts(
            input=tokens.input_tokens,
            output=tokens.output_tokens,
            cached=tokens.cache_read_input_tokens,
            cache_write=_cache_write(tokens),
            cache_write_1h=tokens.cache_creation.ephemeral_1h_input_tokens if tokens.cache_creation else None,
            reasoning=usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else None,
            tool_calls=_tool_calls(usage),
            tier=_tier(usage),
            raw=self._raw(),
        )

    def _take(self, piece: str, usage: bytes, *, output: bool) -> None:
        if usage in (b"", b"null"):
            return
        try:
            reported = _DECODER.decode(usage)
        except UNREADABLE:
            self._merged = _Usage()
            self._pieces.clear()
            return
        for name in _Usage.__struct_fields__:
            value = getattr(reported, name)
            if value is not None and (output or name != "output_tokens"):
                setattr(self._merged, name, value)
        self._pieces[piece] = usage

    def _raw(self) -> bytes:
        if len(self._pieces) == 1:
            return next(iter(self._pieces.values()))
        return msgspec.json.encode({piece: msgspec.Raw(usage) for piece, usage in self._pieces.items()})


def _cache_write(usage: _Usage | _Iteration) -> int | None:
    """All tokens written to the cache: the total, or the sum of its split where only that was reported."""
    split = usage.cache_creation
    if usage.cache_creation_input_tokens is not None or split is None:
        return usage.cache_creation_input_tokens
    return (split.ephemeral_5m_input_tokens or 0) + (split.ephemeral_1h_input_tokens or 0)


def _with_compactions(usage: _Usage) -> _Iteration:
    """The totals with the tokens of every ``compaction`` added."""
    counted: list[_Usage | _Iteration] = [usage]
    counted += [each for each in usage.iterations or () if each.type == "compaction"]
    if len(counted) == 1:
        return _Iteration(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cache_read_input_tokens,
            cache_creation_input_tokens=usage.cache_creation_input_tokens,
            cache_creation=usage.cache_creation,
        )
    return _Iteration(
        input_tokens=sum(each.input_tokens or 0 for each in counted),
        output_tokens=sum(each.output_tokens or 0 for each in counted),
        cache_read_input_tokens=sum(each.cache_read_input_tokens or 0 for each in counted),
        cache_creation_input_tokens=sum(_cache_write(each) or 0 for each in counted),
        cache_creation=_CacheCreation(
            ephemeral_1h_input_tokens=sum(
                each.cache_creation.ephemeral_1h_input_tokens or 0 for each in counted if each.cache_creation
            )
        ),
    )


def _tool_calls(usage: _Usage) -> dict[str, int]:
    tools = usage.server_tool_use or _ServerToolUse()
    calls = {
        "web_search": tools.web_search_requests or 0,
        "web_fetch": tools.web_fetch_requests or 0,
        "advisor": sum(each.type == "advisor_message" for each in usage.iterations or ()),
    }
    return {tool: count for tool, count in calls.items() if count}


def _tier(usage: _Usage) -> str | None:
    """The price table the answer selects; a speed multiplies whatever the service tier is, so it goes first."""
    for value in (usage.speed, usage.service_tier):
        if isinstance(value, str) and value.lower() not in ("", "standard"):
            return value.lower()
    return None
