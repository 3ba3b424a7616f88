"""Anthropic Messages requests: what the gateway reads of one, and the body that goes upstream.

``anthropic-version`` and ``anthropic-beta`` are part of the request and are relayed as they came; what a version
refuses (sampling parameters since 2026-10-21) is for the provider to say. Fields: protocols page 6.1 and 6.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.limits import HOSTED_CALLS_MAX
from hoptrio.protocols import fields, pricing
from hoptrio.protocols.body import encode_object, parse_object
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["encode", "hosted_name", "parse", "path", "relayed_headers", "relayed_query", "survey_of"]

#: What the API asks for where a caller without an SDK sends no version.
VERSION = "2023-06-01"
#: Fields of the current API and its betas; a channel with ``unknown_fields = "drop"`` gets no other.
KNOWN = frozenset(
    """cache_control compaction container context_management diagnostics inference_geo max_tokens mcp_servers messages
    metadata model output_config output_format service_tier speed stop_sequences stream system temperature thinking
    thread tool_choice tools top_k top_p""".split()  # noqa: SIM905
)

#: The least thinking budget the API takes.
_BUDGET_MIN = 1024
#: Blocks whose every token is text in the body.
_PLAIN_BLOCKS = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "tool_reference"}
)
#: Blocks that are as plain as the blocks in their ``content``.
_NESTING_BLOCKS = frozenset({"tool_result", "mcp_tool_result", "search_result"})
#: Tools that the client runs, by the beginning of their type, with a schema of Anthropic's.
_BUILTIN_TOOLS = ("bash_2", "text_editor_", "memory_")
#: The same, with schemas so large, or answers so visual, that no margin bounds them.
_VISUAL_TOOLS = ("computer_", "browser_")
#: Run by the provider over the request's own tools, at no price of their own.
_FREE_TOOLS = ("tool_search_tool_",)
#: Hosted tools with a ``max_uses`` of their own.
_BOUNDED_TOOLS = ("web_search", "web_fetch")


def parse(path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    """Read ``POST /v1/messages``. Raises BadRequest with `param`."""
    value = parse_object(body)
    model = fields.model_name(value)
    limit = fields.whole(value, "max_tokens")
    if limit is None:
        raise fields.missing("max_tokens")
    survey = survey_of(value)
    stream = fields.flag(value, "stream")
    pricing.refuse(value, pricing.MESSAGES)
    _refuse_priced_betas("anthropic-beta", headers.get("anthropic-beta", "").split(","))
    for name in ("anthropic_beta", "betas"):  # Where it is in the body, on Bedrock, say.
        _refuse_priced_betas(name, fields.optional_list(value, name))
    tier = pricing.tier_of(value, ("service_tier", "speed"), automatic=True)
    choice = fields.optional_object(value, "tool_choice")
    return Call(
        protocol=Protocol.MESSAGES,
        model=model,
        stream=stream,
        framing=Framing.SSE if stream else Framing.JSON,
        body=value,
        output_limit=max(limit, _thinking_budget(value) or 0),
        tier=tier.name,
        tier_param=tier.param,
        tier_open=tier.open,
        tools_optional=choice is None or choice.get("type") == "auto",
        headers=relayed_headers(headers),
        query=relayed_query(query),
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
    if output_limit is not None:
        _lower(body, output_limit)
    if call.hosted_tools:
        _bound_tools(body, drop_tools)
    return encode_object(body)


def path(call: Call, model: str) -> str:
    """Behind the channel's base URL; beta calls of the SDKs carry ``?beta=true``."""
    query = "&".join(f"{name}={value}" for name, value in call.query)
    return f"/v1/messages?{query}" if query else "/v1/messages"


def survey_of(body: dict[str, Any]) -> Survey:
    """What the input holds. Raises BadRequest with `param`."""
    survey = Survey()
    messages = fields.required_list(body, "messages")
    _survey_context(survey, body)
    for param, message in fields.objects(messages, "messages"):
        _survey_content(survey, f"{param}.content", message.get("content"))
    _survey_tools(survey, body)
    return survey


def relayed_query(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The query parameters that belong to the protocol."""
    return (("beta", query["beta"]),) if query.get("beta") in ("true", "false") else ()


def relayed_headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that belong to the protocol."""
    version = ("anthropic-version", headers.get("anthropic-version") or VERSION)
    betas = headers.get("anthropic-beta")
    return (version, ("anthropic-beta", betas)) if betas else (version,)


def _refuse_priced_betas(param: str, betas: Iterable[Any]) -> None:
    if any(str(beta).strip().lower().startswith(pricing.MESSAGES_BETAS) for beta in betas):
        raise pricing.unsupported(param)


def _thinking_budget(body: dict[str, Any]) -> int | None:
    """Below max_tokens it is part of it; interleaved thinking may go above, and is output all the same."""
    thinking = fields.optional_object(body, "thinking") or {}
    return fields.whole(thinking, "budget_tokens", "thinking.budget_tokens")


def _lower(body: dict[str, Any], limit: int) -> None:
    """Lower max_tokens, and a thinking budget with it: the API wants the budget below max_tokens."""
    body["max_tokens"] = min(body["max_tokens"], limit)
    thinking = body.get("thinking") or {}
    budget = thinking.get("budget_tokens")
    if budget is not None and budget >= body["max_tokens"] > _BUDGET_MIN:
        body["thinking"] = {**thinking, "budget_tokens": body["max_tokens"] - 1}


def _survey_context(survey: Survey, body: dict[str, Any]) -> None:
    """Everything beside messages and tools that the model reads or that refers elsewhere."""
    survey.cache_control(body)
    _survey_content(survey, "system", body.get("system"))
    _survey_container(survey, body)
    _survey_compaction(survey, body)
    thread = fields.optional_object(body, "thread") or {}
    if thread.get("previous_message_id") is not None:
        survey.provider_id(thread["previous_message_id"], "thread.previous_message_id")


def _survey_container(survey: Survey, body: dict[str, Any]) -> None:
    """An id, or an object with one and with skills of an account."""
    if type(body.get("container")) is str or fields.optional_object(body, "container") is not None:
        survey.foreign("container")


def _survey_compaction(survey: Survey, body: dict[str, Any]) -> None:
    """A compaction is a second generation over the same input, so that the body is read twice (protocols page 6.3)."""
    management = fields.optional_object(body, "context_management") or {}
    edits = fields.optional_list(management, "edits", "context_management.edits")
    compacts = [str(edit.get("type")).startswith("compact") for _, edit in fields.objects(edits, "context_management")]
    if body.get("compaction") is not None or any(compacts):
        survey.opaque = True


def _survey_content(survey: Survey, param: str, content: Any) -> None:
    if type(content) is list:
        for path, block in fields.objects(content, param):
            _survey_block(survey, path, block)
    elif content is not None and type(content) is not str:
        survey.opaque = True


def _survey_block(survey: Survey, param: str, block: dict[str, Any]) -> None:
    survey.cache_control(block)
    kind = block.get("type")
    if type(kind) is not str:
        survey.opaque = True
    elif kind in _NESTING_BLOCKS:
        _survey_content(survey, f"{param}.content", block.get("content"))
    elif kind in ("document", "image"):
        _survey_source(survey, f"{param}.source", block.get("source"))
        _survey_citations(survey, f"{param}.citations", block)
    elif kind == "tool_addition":
        _survey_addition(survey, f"{param}.tool", block.get("tool"))
    elif kind == "container_upload":
        survey.foreign(f"{param}.file_id")
    elif kind not in _PLAIN_BLOCKS:
        survey.opaque = True


def _survey_source(survey: Survey, param: str, source: Any) -> None:
    kind = source.get("type") if type(source) is dict else None
    if kind == "content":
        _survey_content(survey, f"{param}.content", source.get("content"))
    elif kind == "file":
        survey.foreign(f"{param}.file_id")
    elif kind != "text":
        survey.opaque = True


def _survey_citations(survey: Survey, param: str, block: dict[str, Any]) -> None:
    """A document that may be cited is cut into numbered sentences first, which takes more tokens than it has bytes."""
    citations = fields.optional_object(block, "citations", param)
    if citations is not None and citations.get("enabled") is not False:
        survey.opaque = True


def _survey_addition(survey: Survey, param: str, tool: Any) -> None:
    """A tool offered in mid-conversation: a reference to ``tools``, or defined here, where nothing could drop it."""
    definition = tool.get("definition") if type(tool) is dict else None
    if definition is None:
        return
    inner = Survey()
    for path, each in fields.objects([definition], param):
        _survey_tool(inner, path, each)
    if inner.hosted:
        raise pricing.unsupported(param)
    survey.opaque = survey.opaque or inner.opaque
    survey.added_input_tokens += inner.added_input_tokens


def _survey_tools(survey: Survey, body: dict[str, Any]) -> None:
    tools = fields.optional_list(body, "tools")
    for param, tool in fields.objects(tools, "tools"):
        _survey_tool(survey, param, tool)
    if fields.optional_list(body, "mcp_servers"):
        survey.hosted_tool("mcp")
    if tools or "mcp" in survey.hosted:
        survey.any_tools()


def _survey_tool(survey: Survey, param: str, tool: dict[str, Any]) -> None:
    survey.cache_control(tool)
    kind = tool.get("type")
    if kind in (None, "custom"):
        return
    name = hosted_name(tool, f"{param}.type")
    if name is not None:
        survey.hosted_tool(name, fields.count(tool, "max_uses", f"{param}.max_uses"))
    elif kind.startswith(_BUILTIN_TOOLS):
        survey.builtin_tool()
    else:
        survey.opaque = True


def hosted_name(tool: dict[str, Any], param: str = "tools") -> str | None:
    """The price-table name of a tool that the provider runs for a price; None for any other tool."""
    kind = tool.get("type")
    if kind in (None, "custom"):
        return None
    name = Survey.tool_name(kind, param)
    if str(kind).startswith(_BUILTIN_TOOLS + _VISUAL_TOOLS + _FREE_TOOLS):
        return None
    return "mcp" if name == "mcp_toolset" else name


def _bound_tools(body: dict[str, Any], drop: frozenset[str]) -> None:
    if "mcp" in drop:
        body.pop("mcp_servers", None)
    if not body.get("tools"):
        return
    body["tools"] = [_bounded(tool) for tool in body["tools"] if hosted_name(tool) not in drop]
    if not body["tools"]:
        for name in ("tools", "tool_choice"):
            body.pop(name, None)


def _bounded(tool: dict[str, Any]) -> dict[str, Any]:
    if hosted_name(tool) in _BOUNDED_TOOLS and tool.get("max_uses") is None:
        return {**tool, "max_uses": HOSTED_CALLS_MAX}
    return tool
