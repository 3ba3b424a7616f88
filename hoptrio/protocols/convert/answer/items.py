"""Output items and the response object of the Responses protocol (protocols page 4.2, 4.4). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.convert.answer.amounts import responses_usage
from hoptrio.protocols.convert.answer.ends import INCOMPLETE, End
from hoptrio.protocols.convert.carrier import Carried, pack
from hoptrio.protocols.convert.naming import CUSTOM_FIELD, ToolName
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.members import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.convert.answer.blocks import Block
    from hoptrio.protocols.convert.answer.vocabulary import Citation, Origin, Weighed

__all__ = [
    "annotation",
    "call_item",
    "custom_input",
    "ended",
    "image_item",
    "is_custom",
    "message_item",
    "opened",
    "reasoning_item",
    "refusal_part",
    "text_part",
]

#: Members of the request that the response repeats; what is long or the caller's own text is not among them.
_ECHOED = ("max_output_tokens", "metadata", "parallel_tool_calls", "temperature", "tool_choice", "top_p")


def opened(origin: Origin, body: Mapping[str, Any]) -> dict[str, Any]:
    """The response object of ``response.created``. `body`: the client's request."""
    echoed = {name: body[name] for name in _ECHOED if body.get(name) is not None}
    return {
        "id": f"resp_{origin.token}",
        "object": "response",
        "created_at": origin.created_s,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": origin.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "metadata": {},
        "usage": None,
        **echoed,
    }


def ended(opened: dict[str, Any], end: End, output: list[Any], usage: Weighed | None) -> dict[str, Any]:
    """The response object of the terminal, or a whole body."""
    reason = INCOMPLETE.get(end)
    return opened | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "usage": None if usage is None else responses_usage(usage),
    }


def message_item(item_id: str, status: str, content: list[Any]) -> dict[str, Any]:
    """A message."""
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": content}


def text_part(text: str, annotations: list[Any], logprobs: list[Any]) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}


def refusal_part(text: str) -> dict[str, Any]:
    """A part of a message."""
    return {"type": "refusal", "refusal": text}


#: Of a Chat channel's reasoning: no provider takes it back.
_NO_STATE = Carried(Protocol.CHAT, "")


def annotation(citation: Citation) -> dict[str, Any]:
    """A source of a text part."""
    return {
        "type": "url_citation",
        "url": citation.url,
        "title": citation.title,
        "start_index": citation.start,
        "end_index": citation.end,
    }


def reasoning_item(item_id: str, block: Block) -> dict[str, Any]:
    """Reasoning, its text as one summary. Its id can be looked up nowhere, so that it always has a state for the client
    to return, even an empty one, asked for or not."""
    text = block.text
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
    if text:
        item["summary"] = [{"type": "summary_text", "text": text}]
    item["encrypted_content"] = pack(block.carried or _NO_STATE)
    return item


def image_item(item_id: str, data: str) -> dict[str, Any]:
    """An image, as the hosted tool of this protocol gives one."""
    return {"id": item_id, "type": "image_generation_call", "status": "completed", "result": data}


def is_custom(block: Block, origin: Origin) -> bool:
    """The client's tool takes free text."""
    tool = origin.names.get(block.name)
    return block.custom or (tool is not None and tool.custom)


def call_item(item_id: str, block: Block, origin: Origin, *, status: str, arguments: str) -> dict[str, Any]:
    """A call of a function, or of a tool of free input, under the client's own name for it."""
    tool = origin.names.get(block.name) or ToolName(block.name)
    custom = is_custom(block, origin)
    item = {
        "id": item_id,
        "type": "custom_tool_call" if custom else "function_call",
        "status": status,
        "call_id": block.id or f"call_{item_id}",
        "name": tool.name,
        "input" if custom else "arguments": arguments,
    }
    if tool.namespace:
        item["namespace"] = tool.namespace
    return item


def custom_input(block: Block) -> str:
    """The free text of a call: its own, or out of the function that stood for the tool. A model that did not keep to
    the function's schema is taken at its word."""
    if block.custom:
        return block.text
    arguments = loads(block.text.encode())
    value = arguments.get(CUSTOM_FIELD) if isinstance(arguments, dict) else None
    if isinstance(value, str):
        return value
    return block.text if value is None else msgspec.json.encode(value).decode()
