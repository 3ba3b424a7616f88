"""The bodies of the four protocols, from what was collected. Pure.

A tool call whose arguments a limit has cut is left out where they must be an object: half a command must never be run
(cases 40). Without that excuse they are what the model said and what is paid for: Gemini has a finish reason for that,
Anthropic a wrapper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.limits import CHOICES_MAX
from hoptrio.protocols.convert.answer import items
from hoptrio.protocols.convert.answer.amounts import chat_usage, gemini_usage, messages_usage
from hoptrio.protocols.convert.answer.blocks import Sort
from hoptrio.protocols.convert.answer.encode.gemini import call_part, finish_reason, grounding
from hoptrio.protocols.convert.answer.ends import CHAT, MESSAGES, End, refined
from hoptrio.protocols.convert.answer.whole.collector import BodyEncoder
from hoptrio.protocols.convert.carrier import pack
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.members import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.convert.answer.blocks import Block
    from hoptrio.protocols.convert.answer.vocabulary import Origin, Weighed
    from hoptrio.protocols.convert.answer.whole.collector import Collected
    from hoptrio.protocols.convert.carrier import Carried

__all__ = ["ChatBody", "GeminiBody", "MessagesBody", "ResponsesBody"]

_encode = msgspec.json.encode
#: In an object of this one member Anthropic documents arguments that are none (fine-grained tool streaming).
_INVALID = "INVALID_JSON"


class ChatBody(BodyEncoder):
    """``chat.completion``."""

    choices_max = CHOICES_MAX

    def body(self, usage: Weighed | None) -> bytes:
        """See `BodyEncoder`."""
        completion: dict[str, Any] = {
            "id": f"chatcmpl-{self.origin.token}",
            "object": "chat.completion",
            "created": self.origin.created_s,
            "model": self.origin.model,
            "choices": [self._choice(track) for _, track in sorted(self.tracks.items())],
        }
        if usage is not None:
            completion["usage"] = chat_usage(usage)
        return _encode(completion)

    def _choice(self, track: Collected) -> dict[str, Any]:
        end = refined(track.finished, called=track.called, refused=track.refused)
        logprobs = [each for block in track.blocks for each in block.logprobs]
        return {
            "index": track.choice,
            "message": self._message(track),
            "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
            "finish_reason": CHAT[end],
        }

    def _message(self, track: Collected) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": track.text_of(Sort.TEXT) or None,
            "refusal": track.text_of(Sort.REFUSAL) or None,
        }
        if reasoning := track.text_of(Sort.REASONING):
            message["reasoning_content"] = reasoning
        calls = [block for block in track.blocks if block.sort is Sort.TOOL]
        if calls:
            message["tool_calls"] = [_chat_call(block, self.origin, at) for at, block in enumerate(calls)]
        cited = [items.annotation(each) for block in track.blocks for each in block.citations]
        if cited:
            message["annotations"] = [_chat_annotation(each) for each in cited]
        images = [block for block in track.blocks if block.sort is Sort.IMAGE]
        if images:
            message["images"] = [_chat_image(block) for block in images]
        return message


class ResponsesBody(BodyEncoder):
    """The response object."""

    def __init__(self, origin: Origin, request: Mapping[str, Any]) -> None:
        super().__init__(origin)
        self._request = request

    def body(self, usage: Weighed | None) -> bytes:
        """See `BodyEncoder`."""
        track = self.tracks[0]
        output: list[Any] = []
        for block in track.blocks:
            self._put(output, block)
        end = refined(track.finished, called=track.called, refused=track.refused)
        return _encode(items.ended(items.opened(self.origin, self._request), end, output, usage))

    def _put(self, output: list[Any], block: Block) -> None:
        """Texts one after another are parts of one message."""
        at = f"{self.origin.token}_{len(output)}"
        if block.sort is Sort.REASONING:
            output.append(items.reasoning_item(f"rs_{at}", block))
        elif block.sort is Sort.IMAGE:
            output.append(items.image_item(f"ig_{at}", block.text))
        elif block.sort is Sort.TOOL:
            custom = items.is_custom(block, self.origin)
            given = items.custom_input(block) if custom else block.text.strip() or "{}"
            item_id = f"{'ctc' if custom else 'fc'}_{at}"
            output.append(items.call_item(item_id, block, self.origin, status="completed", arguments=given))
        else:
            if not output or output[-1]["type"] != "message":
                output.append(items.message_item(f"msg_{at}", "completed", []))
            output[-1]["content"].append(_responses_part(block))


class MessagesBody(BodyEncoder):
    """The message. `show_thinking`: the client asked for it."""

    def __init__(self, origin: Origin, *, show_thinking: bool) -> None:
        super().__init__(origin)
        self._show_thinking = show_thinking

    def body(self, usage: Weighed | None) -> bytes:
        """See `BodyEncoder`."""
        track = self.tracks[0]
        end = refined(track.finished, called=track.called, refused=track.refused)
        content = [self._block(track, block, at) for at, block in enumerate(track.blocks)]
        return _encode(
            {
                "id": f"msg_{self.origin.token}",
                "type": "message",
                "role": "assistant",
                "model": self.origin.model,
                "content": [each for each in content if each is not None],
                "stop_reason": MESSAGES[end],
                "stop_sequence": track.stop_sequence if end is End.STOP_SEQUENCE else None,
                "usage": messages_usage(usage),
            }
        )

    def _block(self, track: Collected, block: Block, at: int) -> dict[str, Any] | None:
        if block.sort is Sort.REASONING:
            signature = "" if block.carried is None else pack(block.carried)
            thinking = {"type": "thinking", "thinking": block.text, "signature": signature}
            return thinking if self._show_thinking else None
        if block.sort is Sort.IMAGE:
            track.refuse("an image in an answer")
            return None
        return _tool_use(track, block, self.origin, at) if block.sort is Sort.TOOL else _text_block(block)


class GeminiBody(BodyEncoder):
    """The response with its candidates. `show_thoughts`: the client asked for them."""

    choices_max = CHOICES_MAX

    def __init__(self, origin: Origin, *, show_thoughts: bool) -> None:
        super().__init__(origin)
        self._show_thoughts = show_thoughts

    def body(self, usage: Weighed | None) -> bytes:
        """See `BodyEncoder`."""
        response: dict[str, Any] = {"candidates": [self._candidate(track) for _, track in sorted(self.tracks.items())]}
        if usage is not None:
            response["usageMetadata"] = gemini_usage(usage)
        return _encode(response | {"modelVersion": self.origin.model, "responseId": self.origin.token})

    def _candidate(self, track: Collected) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        signature = ""
        malformed = False
        for at, block in enumerate(track.blocks):
            if block.sort is Sort.REASONING:
                if block.carried is not None:
                    parts += _alone(signature)
                    signature = self._signature(block.carried, block.text)
                if self._show_thoughts and block.text:
                    parts.append({"text": block.text, "thought": True})
                continue
            part = self._part(block, f"{track.choice}_{at}")
            malformed = malformed or part is None
            if part is not None:
                parts.append(part | ({"thoughtSignature": signature} if signature else {}))
                signature = ""
        return {
            "content": {"role": "model", "parts": parts + _alone(signature)},
            "finishReason": finish_reason(track, malformed=malformed),
            "index": track.choice,
            **grounding(each for block in track.blocks for each in block.citations),
        }

    def _signature(self, carried: Carried, thoughts: str) -> str:
        text = None if self._show_thoughts else thoughts or None
        return pack(msgspec.structs.replace(carried, text=carried.text or text))

    def _part(self, block: Block, place: str) -> dict[str, Any] | None:
        if block.sort is Sort.TOOL:
            return call_part(block, self.origin, place)
        if block.sort is Sort.IMAGE:
            return {"inlineData": {"mimeType": block.name, "data": block.text}}
        return {"text": block.text}


def _chat_call(block: Block, origin: Origin, at: int) -> dict[str, Any]:
    tool = origin.names.get(block.name) or ToolName(block.name)
    call_id = block.id or f"call_{origin.token}_{at}"
    if block.custom:
        return {"id": call_id, "type": "custom", "custom": {"name": tool.name, "input": block.text}}
    function = {"name": tool.name, "arguments": block.text.strip() or "{}"}
    return {"id": call_id, "type": "function", "function": function}


def _chat_annotation(annotation: dict[str, Any]) -> dict[str, Any]:
    kind = annotation.pop("type")
    return {"type": kind, kind: annotation}


def _chat_image(block: Block) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{block.name};base64,{block.text}"}}


def _alone(signature: str) -> list[dict[str, Any]]:
    """An empty part for a token that has no other."""
    return [{"text": "", "thoughtSignature": signature}] if signature else []


def _responses_part(block: Block) -> dict[str, Any]:
    if block.sort is Sort.REFUSAL:
        return items.refusal_part(block.text)
    return items.text_part(block.text, [items.annotation(each) for each in block.citations], block.logprobs)


def _text_block(block: Block) -> dict[str, Any] | None:
    """Anthropic never has an empty text, and refuses one that comes back."""
    return {"type": "text", "text": block.text} if block.text else None


def _tool_use(track: Collected, block: Block, origin: Origin, at: int) -> dict[str, Any] | None:
    given = loads((block.text.strip() or "{}").encode())
    if not isinstance(given, dict):
        if track.finished is End.LENGTH:
            return None
        given = {_INVALID: block.text}
    tool = origin.names.get(block.name) or ToolName(block.name)
    return {"type": "tool_use", "id": block.id or f"toolu_{origin.token}_{at}", "name": tool.name, "input": given}
