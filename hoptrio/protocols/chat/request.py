"""Chat Completions requests: what the gateway reads of one, and the body that goes upstream.

Only fields that decide routing, price or framing are read; a message's text never is. Fields: protocols page 3.2 and
3.3; prices: contract, "The hold".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["encode", "hosted_name", "limited_in", "parse", "path"]

#: Spellings of the output limit; a provider may honour either, so the largest counts.
LIMITS = ("max_tokens", "max_completion_tokens")
#: Spellings of the number of choices; ``best_of`` are generated and paid, though ``n`` are shown.
CHOICES = ("n", "best_of")
#: Fields that the providers of this protocol have in common; a channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset(
    """messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
    web_search_options""".split()  # noqa: SIM905
)

_PLAIN_PARTS = frozenset({"text", "refusal", "thinking", "reasoning"})
_CLIENT_TOOLS = ("function", "custom")


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read ``POST /v1/chat/completions``. Raises BadRequest with `param`."""
    value = parse_object(body)
    model = fields.model_name(value)
    messages = fields.required_list(value, "messages")
    stream = fields.flag(value, "stream")
    limits = [fields.whole(value, name) for name in LIMITS]
    choices = [fields.count(value, name) for name in CHOICES]
    usage_asked = _usage_asked(value, stream=stream)
    pricing.refuse(value, pricing.CHAT)
    _refuse_other_output(value)
    tier = pricing.tier_of(value, ("service_tier", "speed"), automatic=True)
    survey = Survey()
    _survey_context(survey, value)
    for param, message in fields.objects(messages, "messages"):
        _survey_message(survey, param, message)
    _survey_tools(survey, value)
    return Call(
        protocol=Protocol.CHAT,
        model=model,
        stream=stream,
        framing=Framing.SSE if stream else Framing.JSON,
        body=value,
        usage_asked=usage_asked,
        output_limit=max((limit for limit in limits if limit is not None), default=None),
        choices=max((count for count in choices if count is not None), default=1),
        tier=tier.name,
        tier_param=tier.param,
        tier_open=tier.open,
        tools_optional=value.get("tool_choice") in (None, "auto"),
        **survey.findings(),
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
    """The upstream body. `ask_usage` sets ``stream_options.include_usage`` on a stream and keeps its other options;
    without it the channel refuses ``stream_options``, so none are sent."""
    body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
    body["model"] = model
    if output_limit is not None:
        for name in LIMITS:
            if body.get(name) is not None:
                body[name] = min(body[name], output_limit)
    if not ask_usage:
        body.pop("stream_options", None)
    elif call.stream:
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    if drop_tools:
        _drop_tools(body, drop_tools)
    return encode_object(body)


def limited_in(call: Call, name: str) -> Call:
    """The call with its output limit, if it has one, in this member of `LIMITS` and no other."""
    limits = [call.body[each] for each in LIMITS if call.body.get(each) is not None]
    if not limits:
        return call
    others = {key: value for key, value in call.body.items() if key not in LIMITS}
    return msgspec.structs.replace(call, body=others | {name: max(limits)})


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL, which ends in ``/v1`` or the provider's like of it."""
    return "/chat/completions"


def _usage_asked(body: dict[str, Any], *, stream: bool) -> bool:
    """``stream_options`` is legal only on a stream, as at OpenAI (protocols page 3.2)."""
    options = fields.optional_object(body, "stream_options")
    if options is None:
        return False
    if not stream:
        raise BadRequest("'stream_options' is only allowed when 'stream' is true.", param="stream_options")
    return fields.flag(options, "include_usage", "stream_options.include_usage")


def _refuse_other_output(body: dict[str, Any]) -> None:
    """Nothing but text has a price here."""
    if any(str(each).lower() != "text" for each in fields.optional_list(body, "modalities")):
        raise pricing.unsupported("modalities")


def _survey_context(survey: Survey, body: dict[str, Any]) -> None:
    """Vendor fields by which a provider adds input of its own: Azure's retrieval, Gemini's cached content."""
    survey.cache_control(body)
    if body.get("data_sources") is not None:
        survey.foreign("data_sources")
    extra = body.get("extra_body")
    if extra is not None:
        survey.opaque = True
    google = extra.get("google") if type(extra) is dict else None
    if type(google) is dict:
        survey.foreign_id(google, "cached_content", "extra_body.google.cached_content")


def _survey_message(survey: Survey, param: str, message: dict[str, Any]) -> None:
    survey.cache_control(message)
    if message.get("audio") is not None:
        raise pricing.unsupported(f"{param}.audio")
    content = message.get("content")
    if type(content) is list:
        for index, part in enumerate(content):
            _survey_part(survey, f"{param}.content[{index}]", part)
    elif content is not None and type(content) is not str:
        survey.opaque = True


def _survey_part(survey: Survey, param: str, part: Any) -> None:
    if type(part) is str:
        return
    kind = part.get("type") if type(part) is dict else None
    if kind == "input_audio":
        raise pricing.unsupported(f"{param}.type")
    if kind is None or type(kind) is not str or kind not in _PLAIN_PARTS:
        survey.opaque = True
    if type(part) is not dict:
        return
    survey.cache_control(part)
    file = part.get("file")
    if type(file) is dict:
        survey.foreign_id(file, "file_id", f"{param}.file.file_id")


def _survey_tools(survey: Survey, body: dict[str, Any]) -> None:
    tools = fields.optional_list(body, "tools")
    for param, tool in fields.objects(tools, "tools"):
        survey.cache_control(tool)
        name = hosted_name(tool, f"{param}.type")
        if name is not None:
            survey.hosted_tool(name)
    if fields.optional_object(body, "web_search_options") is not None:
        survey.hosted_tool("web_search")
    if tools or fields.optional_list(body, "functions"):
        survey.any_tools()


def hosted_name(tool: dict[str, Any], param: str = "tools") -> str | None:
    """The price-table name of a tool that the provider runs; None for one that the client runs."""
    kind = tool.get("type", "function")
    return None if kind in _CLIENT_TOOLS else Survey.tool_name(kind, param)


def _drop_tools(body: dict[str, Any], names: frozenset[str]) -> None:
    if "web_search" in names:
        body.pop("web_search_options", None)
    tools = body.get("tools")
    if not tools:
        return
    body["tools"] = [tool for tool in tools if hosted_name(tool) not in names]
    if not body["tools"]:
        # A provider refuses a choice among no tools.
        for name in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(name, None)
