"""What one request's input turns out to hold, gathered while its messages and tools are walked.

The bytes of a body bound its tokens only if everything the model will read is plain text in it (contract, "The
hold"). A walk therefore marks what it does not know as opaque: a new kind of content part costs a larger hold, never
an unpaid capture.
"""

from __future__ import annotations

import re
from typing import Any

from hoptrio.errors import BadRequest
from hoptrio.limits import QUOTE_BUILTIN_TOOL_TOKENS, QUOTE_TOOLS_TOKENS
from hoptrio.protocols import fields

__all__ = ["Survey"]

#: A tool's type becomes a name in a price table, in a header and in the log, so it may hold nothing else.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
#: Providers date their tools: ``web_search_20250305``, ``web_search_2025_08_26``, ``web_search_preview_2025_03_11``.
_DATED = re.compile(r"_(?:\d{8}|\d{4}_\d{2}_\d{2})$", re.ASCII)


class Survey:
    """A mutable collector; `Call` takes its findings as they are at the end of the parse."""

    __slots__ = (
        "added_input_tokens",
        "foreign_param",
        "hosted",
        "hosted_calls_max",
        "long_cache",
        "opaque",
        "provider_ids",
    )

    def __init__(self) -> None:
        self.opaque = False
        #: Where in the body the first id stands that the gateway cannot know; "" = there is none.
        self.foreign_param = ""
        self.long_cache = False
        self.added_input_tokens = 0
        self.provider_ids: list[str] = []
        #: A dict for its order: names of hosted tools.
        self.hosted: dict[str, None] = {}
        self.hosted_calls_max: dict[str, int] = {}

    def findings(self) -> dict[str, Any]:
        """The members of `Call` that a survey fills."""
        return {
            "opaque_input": self.opaque,
            "foreign_param": self.foreign_param,
            "long_cache": self.long_cache,
            "added_input_tokens": self.added_input_tokens,
            "provider_ids": tuple(self.provider_ids),
            "hosted_tools": tuple(self.hosted),
            "hosted_calls_max": self.hosted_calls_max,
        }

    def foreign(self, param: str) -> None:
        """An id the gateway cannot know (a file, a container, a vector store): its content is elsewhere, too."""
        self.opaque = True
        self.foreign_param = self.foreign_param or param

    def foreign_id(self, holder: dict[str, Any], name: str, param: str) -> None:
        """The same, if `holder` has such an id under that name. Raises BadRequest unless it is a string."""
        if holder.get(name) is not None:
            fields.string(holder, name, param)
            self.foreign(param)

    def provider_id(self, value: object, param: str) -> None:
        """An id that only this account's own earlier request may have produced. Raises BadRequest unless a string."""
        if type(value) is not str or not value:
            raise BadRequest(f"Invalid '{param}': expected the id of an earlier answer.", param=param)
        self.opaque = True
        self.provider_ids.append(value)

    def cache_control(self, holder: dict[str, Any]) -> None:
        """Note a cache entry that lives longer than Anthropic's default of five minutes."""
        control = holder.get("cache_control")
        if type(control) is dict and control.get("ttl") not in (None, "5m"):
            self.long_cache = True

    def hosted_tool(self, name: str, calls_max: int | None = None) -> None:
        """A tool the provider runs. Two entries of one tool may each be called as often as they say."""
        bound = self.hosted_calls_max.get(name, 0) if name in self.hosted else 0
        unbounded = name in self.hosted and name not in self.hosted_calls_max
        self.hosted[name] = None
        if calls_max is None or unbounded:
            self.hosted_calls_max.pop(name, None)
        else:
            self.hosted_calls_max[name] = bound + calls_max

    def builtin_tool(self) -> None:
        """A tool the client runs by a schema that only the provider knows."""
        self.added_input_tokens += QUOTE_BUILTIN_TOOL_TOKENS

    def any_tools(self) -> None:
        """The provider adds instructions of its own as soon as there are tools."""
        self.added_input_tokens += QUOTE_TOOLS_TOKENS

    @staticmethod
    def tool_name(kind: object, param: str) -> str:
        """The name of a hosted tool in a price table: its type without the date. Raises BadRequest for odd ones."""
        if type(kind) is not str or _TOOL_NAME.fullmatch(kind) is None:
            raise BadRequest(f"Invalid '{param}': this is not a tool type.", param=param)
        return _DATED.sub("", kind)
