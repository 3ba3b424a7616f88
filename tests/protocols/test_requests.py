"""What holds for the requests of every protocol: any JSON is a call or a refusal, and nothing it says is quoted."""

from __future__ import annotations

import copy
import importlib
import json

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.body import parse_object

SECRET = "the secret prompt"
TOOL = {"type": "function", "function": {"name": "f"}, "name": "f", "parameters": {}}

EXAMPLES = {
    "chat": {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "n": 2,
        "tools": [TOOL, {"type": "browser"}],
        "tool_choice": "auto",
        "web_search_options": {},
        "service_tier": "default",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "file", "file": {"file_id": "x"}}]},
        ],
    },
    "responses": {
        "model": "m",
        "max_output_tokens": 5,
        "max_tool_calls": 2,
        "tools": [TOOL, {"type": "namespace", "tools": [TOOL]}, {"type": "file_search", "vector_store_ids": ["v"]}],
        "tool_choice": "auto",
        "conversation": {"id": "conv"},
        "previous_response_id": "resp",
        "prompt_cache_options": {"ttl": "30m"},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "t", "cache_control": {"ttl": "1h"}}]},
            {"type": "function_call_output", "output": [{"type": "input_image", "file_id": "x"}]},
            {"type": "reasoning", "id": "rs", "summary": []},
            {"type": "additional_tools", "tools": [TOOL]},
        ],
    },
    "messages": {
        "model": "m",
        "max_tokens": 5,
        "stream": False,
        "system": [{"type": "text", "text": "s"}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "f"}, {"type": "web_search_20250305", "max_uses": 2}, {"type": "mcp_toolset"}],
        "tool_choice": {"type": "auto"},
        "mcp_servers": [{"type": "url"}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
        "thread": {"type": "continue", "previous_message_id": "msg"},
        "messages": [
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "t"}]}]},
            {"role": "user", "content": [{"type": "document", "source": {"type": "content", "content": []}}]},
            {"role": "user", "content": [{"type": "tool_addition", "tool": {"definition": {"type": "bash_20250124"}}}]},
        ],
    },
    "gemini": {
        "contents": [
            {"parts": [{"text": "t"}, {"inlineData": {"mimeType": "image/png"}}, {"fileData": {"fileUri": "x"}}]}
        ],
        "systemInstruction": {"parts": {"text": "s"}},
        "generationConfig": {"maxOutputTokens": 5, "candidateCount": 2, "responseModalities": ["TEXT"]},
        "generation_config": {"max_output_tokens": 5},
        "tools": [{"googleSearch": {}, "functionDeclarations": []}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "serviceTier": "standard",
    },
}
RULES = {name: importlib.import_module(f"hoptrio.protocols.{name}.request") for name in EXAMPLES}


def parse(protocol, value):
    target = "/v1beta/models/m:streamGenerateContent"
    return RULES[protocol].parse(target, {}, {"anthropic-beta": "a"}, json.dumps(value).encode())


def encode(protocol, call, drop_tools=frozenset()):
    return RULES[protocol].encode(
        call, model="u", output_limit=3, ask_usage=True, drop_unknown=False, drop_tools=drop_tools
    )


def outcome(protocol, value):
    try:
        return parse(protocol, value), None
    except BadRequest as error:
        return None, error


def places(value, path=()):
    """Every place in a JSON value, as the keys that lead to it."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def replaced(value, place, new):
    value = copy.deepcopy(value)
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = new
    return value


ODD = [
    *(None, True, False, 0, 1, -1, 2**70, 0.5, "", SECRET, "auto", "file"),
    *([], [[]], [None], [SECRET], [{}], [{"type": SECRET}], [{"type": []}], [{"type": "shell"}]),
    *({}, {SECRET: SECRET}, {"type": "file"}, {"type": {}}, {"id": SECRET}, {"type": "auto"}),
]


@pytest.mark.parametrize("protocol", EXAMPLES)
def test_an_example_is_read(protocol):
    assert parse(protocol, EXAMPLES[protocol])


@pytest.mark.parametrize("protocol", EXAMPLES)
def test_any_wrong_value_anywhere_is_a_call_or_a_clear_refusal(protocol):
    for place in places(EXAMPLES[protocol]):
        for odd in ODD:
            call, error = outcome(protocol, replaced(EXAMPLES[protocol], place, odd))
            if error is not None:
                assert error.param
                assert SECRET not in f"{error.message} {error.param}"
            else:
                json.loads(encode(protocol, call))
                json.loads(encode(protocol, call, frozenset(call.hosted_tools)))


@pytest.mark.parametrize("protocol", EXAMPLES)
def test_what_was_dropped_and_lowered_is_gone_upstream(protocol):
    call = parse(protocol, EXAMPLES[protocol])
    assert call.hosted_tools
    assert call.output_limit > 3
    again = parse(protocol, {**parse_object(encode(protocol, call, frozenset(call.hosted_tools))), "model": "m"})
    assert again.hosted_tools == ()
    assert again.output_limit == 3 or protocol == "messages"  # the thinking budget has a minimum of its own


@pytest.mark.parametrize("protocol", EXAMPLES)
def test_bytes_that_are_no_request_are_refused(protocol):
    for body in (b"", b"[]", b"{}", b'{"a": \xff}', b'{"a":' * 1000 + b"1" + b"}" * 1000):
        with pytest.raises(BadRequest):
            RULES[protocol].parse("/v1beta/models/m:generateContent", {}, {}, body)


def test_the_deepest_nesting_that_is_allowed_is_walked():
    block = {"type": "text", "text": "t"}
    for _ in range(97):
        block = {"type": "tool_result", "content": [block]}
    call = parse("messages", {"model": "m", "max_tokens": 1, "messages": [{"content": [block]}]})
    assert not call.opaque_input
