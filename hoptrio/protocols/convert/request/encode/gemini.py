"""A `Conversation` as a Gemini body (protocols page 7.2 and 9.8). The model and the verb are in the path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert.naming import call_id, joined_name
from hoptrio.protocols.convert.request.conversation import (
    INSTRUCTING,
    Image,
    Mode,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
)
from hoptrio.protocols.convert.request.efforts import budget_of
from hoptrio.protocols.convert.request.pieces import PARAGRAPH, instructions, joined, present
from hoptrio.protocols.convert.request.tables import param_of, unconvertible
from hoptrio.protocols.convert.request.tools import arguments_object, chosen, functions
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.protocols.convert.request.conversation import Conversation, Turn

__all__ = ["NO_SIGNATURE", "encode"]

#: Gemini 3 refuses a call without its signature; Google documents this one for calls that another model made.
NO_SIGNATURE = "skip_thought_signature_validator"
#: In Google's words; "auto" is what an absent one is.
_TIERS = {"": None, "auto": None, "default": "standard", "flex": "flex", "priority": "priority", "fast": "priority"}
_MODES = {Mode.AUTO: "AUTO", Mode.NONE: "NONE", Mode.REQUIRED: "ANY"}


def encode(conversation: Conversation, limit_tokens: int | None) -> dict[str, Any]:
    """Raises BadRequest, naming the client's parameter, for what cannot be said."""
    if conversation.tier not in _TIERS:
        raise unconvertible(param_of(conversation.client, "tier"), "there is no such tier")
    system = [{"text": text} for text in instructions(conversation)]
    body: dict[str, Any] = {"contents": _Contents().write(conversation.turns)}
    return body | present(
        systemInstruction={"parts": system} if system else None,
        generationConfig=_config(conversation, limit_tokens) or None,
        serviceTier=_TIERS[conversation.tier],
        **_tools(conversation),
    )


class _Contents:
    """Writes ``contents`` in order: a result must name its call's function, and a token goes to the part behind it."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def write(self, turns: tuple[Turn, ...]) -> list[dict[str, Any]]:
        contents: list[dict[str, Any]] = []
        for turn in turns:
            if turn.role in INSTRUCTING:
                continue
            role = "model" if turn.role is Role.ASSISTANT else "user"
            parts = self._parts(turn)
            if not parts:
                continue
            if not contents or contents[-1]["role"] != role:
                contents.append({"role": role, "parts": []})
            for part in parts:
                _add(contents[-1]["parts"], part)
        return contents

    def _parts(self, turn: Turn) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        signature = ""
        signed = False
        for part in turn.parts:
            if type(part) is Reasoning:
                if part.carried.family is Protocol.GEMINI:
                    parts += _alone(signature)
                    signature = part.carried.token
                continue
            written = self._part(part)
            if "functionCall" in written and not signature and not signed:
                signature = NO_SIGNATURE
            # Of calls made at once only the first has a signature.
            signed = signed or "functionCall" in written
            if signature:
                written["thoughtSignature"] = signature
                signature = ""
            parts.append(written)
            if type(part) is ToolResult:
                parts += [self._part(each) for each in part.parts if type(each) is not Text]
        return parts + _alone(signature)

    def _part(self, part: Any) -> dict[str, Any]:
        if type(part) is Text:
            return {"text": part.text}
        if type(part) is ToolUse:
            name = joined_name(part.tool.name, part.tool.namespace)
            self.names[part.id] = name
            return {"functionCall": {"id": call_id(part.id), "name": name, "args": arguments_object(part)}}
        if type(part) is ToolResult:
            return {"functionResponse": self._response(part)}
        if part.url:
            return {"fileData": {"fileUri": part.url} | present(mimeType=_media_type(part))}
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}

    def _response(self, result: ToolResult) -> dict[str, Any]:
        name = self.names.get(result.id)
        if name is None:
            raise BadRequest(f"Invalid '{result.param}': it answers no tool call.", param=result.param)
        response = {"error" if result.error else "output": joined(result.parts)}
        return {"id": call_id(result.id), "name": name, "response": response}


def _add(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Google joins texts as they are; elsewhere each is a paragraph."""
    if parts and parts[-1].keys() == part.keys() == {"text"}:
        parts[-1] = {"text": PARAGRAPH.join(text for text in (parts[-1]["text"], part["text"]) if text)}
    else:
        parts.append(part)


def _alone(signature: str) -> list[dict[str, Any]]:
    """A token that has no part of its own comes in an empty one, as Gemini itself sends it."""
    return [{"text": "", "thoughtSignature": signature}] if signature else []


def _media_type(part: Any) -> str:
    """A web address may be without one; the ending then says most of it."""
    if part.media_type:
        return str(part.media_type)
    ending = part.url.partition("?")[0].rpartition(".")[2].lower()
    if type(part) is Image:
        return {"png": "image/png", "webp": "image/webp", "gif": "image/gif"}.get(ending, "image/jpeg")
    return "application/pdf"


def _config(conversation: Conversation, limit_tokens: int | None) -> dict[str, Any]:
    schema = conversation.schema
    return present(
        maxOutputTokens=limit_tokens,
        temperature=conversation.temperature,
        topP=conversation.top_p,
        topK=conversation.top_k,
        seed=conversation.seed,
        candidateCount=conversation.choices,
        presencePenalty=conversation.presence_penalty,
        frequencyPenalty=conversation.frequency_penalty,
        stopSequences=list(conversation.stop) or None,
        responseMimeType="application/json" if schema or conversation.json else None,
        responseJsonSchema=schema.schema if schema else None,
        thinkingConfig=_thinking(conversation) or None,
    )


def _thinking(conversation: Conversation) -> dict[str, Any]:
    thinking = conversation.thinking
    if thinking is None:
        return {}
    return present(thinkingBudget=budget_of(thinking), includeThoughts=thinking.summary or None)


def _tools(conversation: Conversation) -> dict[str, Any]:
    declared = [
        {"name": each.name} | present(description=each.description, parametersJsonSchema=each.schema)
        for each in functions(conversation)
    ]
    if not declared:
        return {}
    members: dict[str, Any] = {"tools": [{"functionDeclarations": declared}]}
    choice = chosen(conversation)
    if choice is not None:
        calling = {"mode": _MODES[choice.mode]} | present(allowedFunctionNames=[choice.name] if choice.name else None)
        members["toolConfig"] = {"functionCallingConfig": calling}
    return members
