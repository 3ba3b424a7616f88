"""A `Conversation` as a Messages body (protocols page 6.4, 9.2 and 9.5).

Two demands of the API shape it: user and assistant alternate and a tool's results stand first in the turn that follows
its call; and there is no empty text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.protocols.convert.naming import call_id, joined_name
from hoptrio.protocols.convert.request.conversation import (
    ADAPTIVE,
    INSTRUCTING,
    Image,
    Mode,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
)
from hoptrio.protocols.convert.request.pieces import EMPTY_SCHEMA, instructions, present, user_id
from hoptrio.protocols.convert.request.schemas import closed
from hoptrio.protocols.convert.request.tables import param_of, unconvertible
from hoptrio.protocols.convert.request.tools import arguments_object, chosen, functions
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.conversation import Conversation, Part, Thinking, Turn

__all__ = ["encode", "lacks_thoughts"]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TIERS = {"": None, "auto": "auto", "default": "standard_only"}
_EFFORTS = {"minimal": "low"}
_USER_CHARS_MAX = 256
#: The least thinking budget the API takes.
_BUDGET_MIN = 1024


def encode(conversation: Conversation, limit_tokens: int) -> dict[str, Any]:
    """Raises BadRequest, naming the client's parameter, for what cannot be said."""
    client = conversation.client
    if conversation.tier not in _TIERS:
        raise unconvertible(param_of(client, "tier"), "only auto and default are taken")
    messages = _messages(conversation.turns)
    thinking = _thinking(conversation.thinking, limit_tokens, messages)
    body: dict[str, Any] = {"model": conversation.model, "max_tokens": limit_tokens, "messages": messages}
    system = [{"type": "text", "text": text} for text in instructions(conversation)]
    body |= present(
        system=system or None,
        stream=conversation.stream or None,
        stop_sequences=list(conversation.stop) or None,
        service_tier=_TIERS[conversation.tier],
        thinking=thinking,
        output_config=_output_config(conversation) or None,
    )
    if conversation.user:
        body["metadata"] = {"user_id": user_id(conversation.user, _USER_CHARS_MAX)}
    thinks = thinking is not None and thinking["type"] != "disabled"
    if not thinks:
        body |= _sampling(conversation)
    return body | _tools(conversation, thinks=thinks)


def _messages(turns: tuple[Turn, ...]) -> list[dict[str, Any]]:
    gathered: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = []
    for turn in turns:
        if turn.role in INSTRUCTING:
            continue
        role = "assistant" if turn.role is Role.ASSISTANT else "user"
        blocks = [block for part in turn.parts for block in _block(part)]
        if not blocks:
            continue
        if not gathered or gathered[-1][0] != role:
            gathered.append((role, [], []))
        _, results, rest = gathered[-1]
        (results if turn.role is Role.TOOL else rest).extend(blocks)
    return [{"role": role, "content": results + rest} for role, results, rest in gathered]


def _block(part: Part) -> Iterator[dict[str, Any]]:
    if type(part) is Text:
        if part.text.strip():
            yield {"type": "text", "text": part.text}
    elif type(part) is Reasoning:
        if part.carried.family is Protocol.MESSAGES:
            yield _thought(part)
    elif type(part) is ToolUse:
        name = joined_name(part.tool.name, part.tool.namespace)
        yield {"type": "tool_use", "id": call_id(part.id), "name": name, "input": arguments_object(part)}
    elif type(part) is ToolResult:
        content = [block for each in part.parts for block in _block(each)]
        result = {"type": "tool_result", "tool_use_id": call_id(part.id), "content": content}
        yield result | present(is_error=part.error or None)
    else:
        yield _media(part)


def _thought(part: Reasoning) -> dict[str, Any]:
    if part.carried.redacted:
        return {"type": "redacted_thinking", "data": part.carried.token}
    text = part.text if part.carried.text is None else part.carried.text
    return {"type": "thinking", "thinking": text, "signature": part.carried.token}


def _media(part: Any) -> dict[str, Any]:
    kind = "image" if type(part) is Image else "document"
    titled = present(title=part.title) if kind == "document" else {}
    if part.url:
        return {"type": kind, "source": {"type": "url", "url": part.url}} | titled
    media_type = "image/jpeg" if part.media_type == "image/jpg" else part.media_type
    if media_type not in _IMAGES and (kind == "image" or media_type != "application/pdf"):
        raise unconvertible(part.param, "only JPEG, PNG, GIF, WebP and PDF are taken")
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": part.data}} | titled


def _thinking(thinking: Thinking | None, limit_tokens: int, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    if thinking is None:
        return None
    if thinking.effort == "none":
        return {"type": "disabled"}
    if thinking.effort or thinking.budget_tokens == ADAPTIVE:
        return {"type": "adaptive"} | present(display="summarized" if thinking.summary else None)
    budget = min(thinking.budget_tokens or 0, limit_tokens - 1)
    if thinking.budget_tokens is None or budget < _BUDGET_MIN or lacks_thoughts(messages):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def lacks_thoughts(messages: list[dict[str, Any]]) -> bool:
    """A tool is being called by a turn whose thoughts are lost: with a budget the API wants them back unmodified, so
    that thinking must be off for this request (protocols page 9.8). Adaptive thinking does not ask."""
    if len(messages) < 2 or _first(messages[-1]) != "tool_result":
        return False
    return _first(messages[-2]) not in ("thinking", "redacted_thinking")


def _first(message: dict[str, Any]) -> object:
    """The type of its first block; a client's own message may have none."""
    content = message.get("content")
    block = content[0] if isinstance(content, list) and content else None
    return block.get("type") if isinstance(block, dict) else None


def _output_config(conversation: Conversation) -> dict[str, Any]:
    config: dict[str, Any] = {}
    effort = conversation.thinking.effort if conversation.thinking else ""
    if effort and effort != "none":
        config["effort"] = _EFFORTS.get(effort, effort)
    if conversation.schema is not None:
        config["format"] = {"type": "json_schema", "schema": closed(conversation.schema.schema)}
    return config


def _sampling(conversation: Conversation) -> dict[str, Any]:
    """Newer models refuse sampling parameters, so that what is the default anyway is left out."""
    temperature = conversation.temperature
    return present(
        temperature=temperature if temperature is not None and temperature < 1 else None,
        top_p=conversation.top_p if conversation.top_p != 1 else None,
        top_k=conversation.top_k,
    )


def _tools(conversation: Conversation, *, thinks: bool) -> dict[str, Any]:
    offered = [
        {"name": each.name, "input_schema": EMPTY_SCHEMA if each.schema is None else {"type": "object"} | each.schema}
        | present(description=each.description, strict=each.strict or None)
        for each in functions(conversation)
    ]
    if not offered:
        return {}
    choice = chosen(conversation)
    mode = choice.mode if choice else Mode.AUTO
    if mode is Mode.REQUIRED and thinks:
        raise unconvertible(param_of(conversation.client, "choice"), "a tool cannot be forced while the model thinks")
    kind = {Mode.AUTO: "auto", Mode.NONE: "none", Mode.REQUIRED: "tool" if choice and choice.name else "any"}[mode]
    chose: dict[str, Any] = {"type": kind} | present(name=choice.name if choice else None)
    if conversation.serial and mode is not Mode.NONE:
        chose["disable_parallel_tool_use"] = True
    said = choice is not None or conversation.serial
    return {"tools": offered} | ({"tool_choice": chose} if said else {})
