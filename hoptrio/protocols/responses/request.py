"""Responses requests: what the gateway reads of one, and the body that goes upstream.

State kept at the provider is what makes this protocol delicate: an id of an earlier answer, a conversation or a stored
item brings input that the body does not hold and that may be another account's. Every such id is reported
(`Call.provider_ids`) so that it can be checked. Fields: protocols page 4.7 and 4.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.limits import HOSTED_CALLS_MAX
from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["encode", "hosted_name", "parse", "path", "survey_of"]

#: Fields of the current API; a channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset(
    """access_programs context_management conversation image include input instructions max_output_tokens
    max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
    temperature text tool_choice tools top_logprobs top_p truncation user""".split()  # noqa: SIM905
)
#: Codex returns this header of an answer with the later requests of a turn (protocols page 4.8).
RELAYED_HEADERS = ("x-codex-turn-state",)

_PLAIN_PARTS = frozenset({"input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"})
#: Items whose every token is text in the body.
_PLAIN_ITEMS = frozenset(
    """apply_patch_call apply_patch_call_output configuration_update custom_tool_call function_call local_shell_call
    local_shell_call_output mcp_approval_response mcp_call mcp_list_tools program program_output shell_call
    shell_call_output tool_search_call""".split()  # noqa: SIM905
)
#: Items whose ``output`` is text or a list of content parts.
_OUTPUT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output"})
#: Items that carry tools, where nothing could drop one that is not sold.
_TOOL_ITEMS = frozenset({"additional_tools", "tool_search_output"})

_CLIENT_TOOLS = ("function", "custom")
#: Tools that the client runs, with a schema of OpenAI's.
_BUILTIN_TOOLS = ("local_shell", "apply_patch", "computer", "computer_use_preview")
#: Run by the provider over the request's own tools, at no price of their own.
_FREE_TOOLS = ("tool_search",)
#: Older names of a tool that one price names.
_ALIASES = {"web_search_preview": "web_search"}


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read ``POST /v1/responses``. Raises BadRequest with `param`."""
    value = parse_object(body)
    model = fields.model_name(value)
    stream = fields.flag(value, "stream")
    _check_options(value, stream=stream)
    pricing.refuse(value, pricing.RESPONSES)
    tier = pricing.tier_of(value, ("service_tier", "speed"), automatic=True)
    survey = survey_of(value)
    return Call(
        protocol=Protocol.RESPONSES,
        model=model,
        stream=stream,
        framing=Framing.SSE if stream else Framing.JSON,
        body=value,
        output_limit=fields.whole(value, "max_output_tokens"),
        tier=tier.name,
        tier_param=tier.param,
        tier_open=tier.open,
        tools_optional=value.get("tool_choice") in (None, "auto"),
        headers=tuple((name, headers[name]) for name in RELAYED_HEADERS if headers.get(name)),
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
    """The upstream body. Usage is always in the answer, so `ask_usage` changes nothing. Hosted tools without a bound
    get the one that the hold is reckoned with."""
    body = {name: value for name, value in call.body.items() if not drop_unknown or name in KNOWN}
    body["model"] = model
    if output_limit is not None and body.get("max_output_tokens") is not None:
        body["max_output_tokens"] = min(body["max_output_tokens"], output_limit)
    if drop_tools:
        _drop_tools(body, drop_tools)
    if drop_tools.issuperset(call.hosted_tools):
        return encode_object(body)
    if body.get("max_tool_calls") is None:
        body["max_tool_calls"] = HOSTED_CALLS_MAX
    return encode_object(body)


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL, which ends in ``/v1`` or the provider's like of it."""
    return "/responses"


def survey_of(body: dict[str, Any]) -> Survey:
    """What the input holds. Raises BadRequest with `param`."""
    survey = Survey()
    _survey_state(survey, body)
    _survey_input(survey, body)
    _survey_tools(survey, body)
    return survey


def _check_options(body: dict[str, Any], *, stream: bool) -> None:
    if fields.optional_object(body, "stream_options") is not None and not stream:
        raise BadRequest("'stream_options' is only allowed when 'stream' is true.", param="stream_options")


def _survey_state(survey: Survey, body: dict[str, Any]) -> None:
    """What the model will read that the provider has stored."""
    if body.get("previous_response_id") is not None:
        survey.provider_id(body["previous_response_id"], "previous_response_id")
    conversation = body.get("conversation")
    if conversation is not None:
        of_object = type(conversation) is dict
        survey.provider_id(conversation.get("id") if of_object else conversation, "conversation")
    if fields.optional_object(body, "prompt") is not None:
        survey.foreign("prompt")
    if type(body.get("instructions", "")) is not str and body["instructions"] is not None:
        survey.opaque = True
    if fields.optional_list(body, "context_management"):
        # A compaction is a second generation over the same input.
        survey.opaque = True
    cache = fields.optional_object(body, "prompt_cache_options") or {}
    if cache.get("ttl") not in (None, "30m"):
        survey.long_cache = True
    if cache.get("comparison_response_id") is not None:
        survey.provider_id(cache["comparison_response_id"], "prompt_cache_options.comparison_response_id")


def _survey_input(survey: Survey, body: dict[str, Any]) -> None:
    value = body.get("input")
    if value is None and not (survey.provider_ids or survey.foreign_param):
        raise fields.missing("input")
    if value is None or type(value) is str:
        return
    for param, item in fields.objects(fields.required_list(body, "input"), "input"):
        _survey_item(survey, param, item)


def _survey_item(survey: Survey, param: str, item: dict[str, Any]) -> None:
    survey.cache_control(item)
    kind = item.get("type")
    if kind == "item_reference" or (kind is None and "role" not in item and "content" not in item):
        survey.provider_id(item.get("id"), f"{param}.id")
    elif kind is None or kind == "message":
        _survey_content(survey, f"{param}.content", item.get("content"))
    elif kind == "reasoning":
        _survey_reasoning(survey, param, item)
    elif type(kind) is not str:
        survey.opaque = True
    elif kind in _OUTPUT_ITEMS:
        _survey_content(survey, f"{param}.output", item.get("output"))
    elif kind in _TOOL_ITEMS:
        _survey_added_tools(survey, f"{param}.tools", item)
    elif kind not in _PLAIN_ITEMS:
        survey.opaque = True


def _survey_reasoning(survey: Survey, param: str, item: dict[str, Any]) -> None:
    """Reasoning that is sent neither in text nor encrypted is looked up by its id, like an item_reference."""
    if item.get("encrypted_content") is None and not item.get("content") and item.get("id") is not None:
        survey.provider_id(item["id"], f"{param}.id")


def _survey_content(survey: Survey, param: str, content: Any) -> None:
    if type(content) is list:
        for path, part in fields.objects(content, param):
            _survey_part(survey, path, part)
    elif content is not None and type(content) is not str:
        survey.opaque = True


def _survey_part(survey: Survey, param: str, part: dict[str, Any]) -> None:
    survey.cache_control(part)
    kind = part.get("type")
    if kind == "input_audio":
        raise pricing.unsupported(f"{param}.type")
    if type(kind) is not str or kind not in _PLAIN_PARTS:
        survey.opaque = True
    survey.foreign_id(part, "file_id", f"{param}.file_id")


def _survey_added_tools(survey: Survey, param: str, item: dict[str, Any]) -> None:
    inner = Survey()
    for path, tool in fields.objects(fields.optional_list(item, "tools", param), param):
        _survey_tool(inner, path, tool, None)
    if inner.hosted:
        raise pricing.unsupported(param)
    survey.opaque = survey.opaque or inner.opaque
    survey.added_input_tokens += inner.added_input_tokens


def _survey_tools(survey: Survey, body: dict[str, Any]) -> None:
    calls_max = fields.count(body, "max_tool_calls")
    tools = fields.optional_list(body, "tools")
    for param, tool in fields.objects(tools, "tools"):
        _survey_tool(survey, param, tool, calls_max)
    if calls_max is not None:
        # The request's bound is one over all tools and all entries of a tool.
        survey.hosted_calls_max = dict.fromkeys(survey.hosted, calls_max)
    if tools:
        survey.any_tools()


def _survey_tool(survey: Survey, param: str, tool: dict[str, Any], calls_max: int | None) -> None:
    survey.cache_control(tool)
    kind = tool.get("type")
    if kind == "namespace":
        for path, nested in fields.objects(fields.optional_list(tool, "tools", f"{param}.tools"), f"{param}.tools"):
            _survey_tool(survey, path, nested, calls_max)
        return
    name = hosted_name(tool, f"{param}.type")
    if name is not None:
        survey.hosted_tool(name, calls_max)
        _survey_resources(survey, param, tool)
    elif kind in _FREE_TOOLS:
        survey.opaque = True
    elif kind not in _CLIENT_TOOLS:
        survey.builtin_tool()


def _survey_resources(survey: Survey, param: str, tool: dict[str, Any]) -> None:
    """Stores, files and containers that a hosted tool is pointed at, and connectors that act on a stored login."""
    for name in ("vector_store_ids", "connector_id"):
        if tool.get(name):
            survey.foreign(f"{param}.{name}")
    for name in ("container", "environment"):
        place = tool.get(name)
        if type(place) is str or (type(place) is dict and (place.get("file_ids") or place.get("container_id"))):
            survey.foreign(f"{param}.{name}")


def hosted_name(tool: dict[str, Any], param: str = "tools") -> str | None:
    """The price-table name of a tool that the provider runs for a price; None for any other tool."""
    kind = tool.get("type")
    if kind in _CLIENT_TOOLS or kind in _BUILTIN_TOOLS or kind in _FREE_TOOLS:
        return None
    environment = tool.get("environment")
    if kind == "shell" and type(environment) is dict and environment.get("type") == "local":
        return None
    name = Survey.tool_name(kind, param)
    return _ALIASES.get(name, name)


def _drop_tools(body: dict[str, Any], names: frozenset[str]) -> None:
    if not body.get("tools"):
        return
    body["tools"] = _kept(body["tools"], names)
    if not body["tools"]:
        # A provider refuses a choice among no tools.
        for name in ("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls"):
            body.pop(name, None)


def _kept(tools: list[dict[str, Any]], names: frozenset[str]) -> list[dict[str, Any]]:
    kept = []
    for tool in tools:
        if tool.get("type") == "namespace":
            kept.append({**tool, "tools": _kept(tool.get("tools") or [], names)})
        elif hosted_name(tool) not in names:
            kept.append(tool)
    return kept
