"""The official Python SDKs, fed with given bytes in place of a server: what a client's own accumulator makes of it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
from google import genai

__all__ = ["Heard", "hear"]


class Heard(NamedTuple):
    """An answer as an SDK gives it to its user, in words that are the same for all of them."""

    text: str
    #: (name, arguments) of each call, parsed where they are JSON.
    calls: list[tuple[str, Any]]
    #: stop, length, tool_calls or filtered.
    finish: str | None
    #: all input, cached input, all output, reasoning; None = the SDK has no usage.
    usage: tuple[int, int, int, int] | None
    reasoning: str = ""
    ids: tuple[str, ...] = ()


def hear(protocol: str, wire: bytes) -> Heard:
    """Run the SDK of a protocol over a stream. Raises what it raises."""
    return _HEARERS[protocol](wire)


def _transport(wire: bytes) -> httpx2.MockTransport:
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=wire))


def _openai(wire: bytes) -> openai.OpenAI:
    client = httpx2.Client(transport=_transport(wire))
    return openai.OpenAI(base_url="http://gateway/v1", api_key="k", max_retries=0, http_client=client)


def _chat(wire: bytes) -> Heard:
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream_options": {"include_usage": True}}
    with _openai(wire) as client, client.chat.completions.stream(**asked) as stream:
        try:
            for _ in stream:
                pass
            answer = stream.get_final_completion()
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            # The helper refuses to parse an answer that was cut; its snapshot is what a user has.
            answer = stream.current_completion_snapshot
    choice = answer.choices[0]
    calls = [_chat_call(call) for call in choice.message.tool_calls or []]
    named = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "filtered"}
    return Heard(
        text=(choice.message.content or "") + (choice.message.refusal or ""),
        calls=[(name, given) for _, name, given in calls],
        finish=named[choice.finish_reason],
        usage=_openai_usage(answer.usage, "prompt_tokens", "completion_tokens"),
        reasoning=getattr(choice.message, "reasoning_content", None) or "",
        ids=tuple(call_id for call_id, _, _ in calls),
    )


def _chat_call(call: Any) -> tuple[str, str, Any]:
    if call.type == "custom":
        return call.id, call.custom["name"], call.custom["input"]
    return call.id, call.function.name, _parsed(call.function.arguments)


def _responses(wire: bytes) -> Heard:
    with _openai(wire) as client, client.responses.stream(model="m", input="x") as stream:
        last = [event for event in stream][-1]
    answer = last.response
    calls = [item for item in answer.output if item.type in ("function_call", "custom_tool_call")]
    finish = "tool_calls" if calls else "stop"
    if answer.status == "incomplete":
        finish = {"max_output_tokens": "length", "content_filter": "filtered"}[answer.incomplete_details.reason]
    parts = [part for item in answer.output if item.type == "message" for part in item.content]
    thoughts = [part.text for item in answer.output if item.type == "reasoning" for part in item.summary]
    return Heard(
        text="".join(part.refusal if part.type == "refusal" else part.text for part in parts),
        calls=[(each.name, _parsed(each.arguments if hasattr(each, "arguments") else each.input)) for each in calls],
        finish=finish,
        usage=_openai_usage(answer.usage, "input_tokens", "output_tokens"),
        reasoning="".join(thoughts),
        ids=tuple(call.call_id for call in calls),
    )


def _openai_usage(usage: Any, given: str, made: str) -> tuple[int, int, int, int] | None:
    if usage is None:
        return None
    before, after = getattr(usage, f"{given}_details"), getattr(usage, f"{made}_details")
    cached = (before.cached_tokens or 0) if before else 0
    reasoning = (after.reasoning_tokens or 0) if after else 0
    return getattr(usage, given), cached, getattr(usage, made), reasoning


def _messages(wire: bytes) -> Heard:
    http = httpx2.Client(transport=_transport(wire))
    asked = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "x"}]}
    with (
        anthropic.Anthropic(base_url="http://gateway", api_key="k", max_retries=0, http_client=http) as client,
        client.messages.stream(**asked) as stream,
    ):
        for _ in stream:
            pass
        answer = stream.get_final_message()
    named = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "filtered"}
    named |= {"stop_sequence": "stop"}
    usage = answer.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = getattr(usage, "output_tokens_details", None)
    calls = [block for block in answer.content if block.type == "tool_use"]
    return Heard(
        text="".join(block.text for block in answer.content if block.type == "text"),
        calls=[(call.name, call.input) for call in calls],
        finish=named.get(answer.stop_reason, answer.stop_reason),
        usage=(usage.input_tokens + cached + written, cached, usage.output_tokens, _thinking(details)),
        reasoning="".join(block.thinking for block in answer.content if block.type == "thinking"),
        ids=tuple(call.id for call in calls),
    )


def _thinking(details: Any) -> int:
    value = details.get("thinking_tokens") if isinstance(details, dict) else getattr(details, "thinking_tokens", 0)
    return value or 0


def _gemini(wire: bytes) -> Heard:
    http = httpx2.Client(transport=_transport(wire))
    options = {"base_url": "http://gateway", "httpx_client": http}
    client = genai.Client(api_key="k", http_options=options)
    chunks = list(client.models.generate_content_stream(model="m", contents="x"))
    candidates = [each for chunk in chunks for each in chunk.candidates or [] if not each.index]
    parts = [part for each in candidates if each.content for part in each.content.parts or []]
    calls = [part.function_call for part in parts if part.function_call]
    reasons = [each.finish_reason for each in candidates if each.finish_reason]
    finish = {"STOP": "tool_calls" if calls else "stop", "MAX_TOKENS": "length", "SAFETY": "filtered"}
    usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
    return Heard(
        text="".join(part.text for part in parts if part.text and not part.thought),
        calls=[(call.name, call.args) for call in calls],
        finish=finish.get(reasons[-1].value, reasons[-1].value) if reasons else None,
        usage=_gemini_usage(usages[-1]) if usages else None,
        reasoning="".join(part.text for part in parts if part.text and part.thought),
        ids=tuple(call.id for call in calls),
    )


def _gemini_usage(usage: Any) -> tuple[int, int, int, int]:
    thoughts = usage.thoughts_token_count or 0
    made = (usage.candidates_token_count or 0) + thoughts
    given = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    return given, usage.cached_content_token_count or 0, made, thoughts


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


_HEARERS = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}
