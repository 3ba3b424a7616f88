"""What is read of a request in each protocol."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.prompt import Tool, read_prompt

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GEMINI_PATH = "/v1beta/models/sim-small:streamGenerateContent"


def read(protocol, body, path="/v1/x", query=None):
    return read_prompt(protocol, path, query or {}, json.dumps(body).encode())


def test_chat():
    body = {
        "model": "sim-small",
        "stream": True,
        "stream_options": {"include_usage": True},
        "n": 2,
        "max_tokens": 5,
        "max_completion_tokens": 7,
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        "messages": [{"role": "system", "content": "1234"}, {"role": "user", "content": "hello"}],
    }
    prompt = read(Protocol.CHAT, body)
    assert prompt.framing is Framing.SSE
    assert (prompt.model, prompt.text, prompt.text_bytes, prompt.input_tokens) == ("sim-small", "hello", 9, 3)
    assert (prompt.choices, prompt.output_limit, prompt.usage_asked) == (2, 7, True)
    assert prompt.tools == (Tool("weather", SCHEMA),)
    assert prompt.result is None


def test_the_last_user_text_counts_though_a_tool_result_follows():
    messages = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": [{"type": "text", "text": "sim: tools=1"}]},
        {"role": "assistant", "tool_calls": []},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
    ]
    prompt = read(Protocol.CHAT, {"messages": messages})
    assert prompt.text == "sim: tools=1"
    assert prompt.result == "sunny"


def test_responses_takes_a_string_or_items():
    assert read(Protocol.RESPONSES, {"input": "hello"}).text == "hello"
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
    ]
    prompt = read(Protocol.RESPONSES, {"input": items, "instructions": "be brief"})
    assert prompt.text == "hello"
    assert prompt.result == "sunny"
    assert prompt.text_bytes == len("hello" + "sunny" + "be brief")


def test_messages():
    body = {
        "max_tokens": 64,
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "sunny"}]},
        ],
    }
    prompt = read(Protocol.MESSAGES, body)
    assert (prompt.text, prompt.output_limit, prompt.result) == ("hello", 64, "sunny")
    assert prompt.tools == (Tool("weather", SCHEMA),)


def test_a_reminder_behind_a_tool_result_hides_neither_result_nor_script():
    """Claude Code ends every turn with one; whoever overlooks it calls the tool for ever."""
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "sunny"}]}]
    turns = [
        {"role": "user", "content": "sim: tools=1"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "weather", "input": {}}]},
    ]
    reminder = {"role": "system", "content": "9 tokens left"}
    prompt = read(Protocol.MESSAGES, {"messages": [*turns, {"role": "user", "content": blocks}, reminder]})
    assert (prompt.result, prompt.text) == ("sunny", "sim: tools=1")
    answered = {"role": "tool", "tool_call_id": "t", "content": "sunny"}
    assert read(Protocol.CHAT, {"messages": [turns[0], answered, reminder]}).result == "sunny"
    assert read(Protocol.MESSAGES, {"messages": [*turns, reminder]}).result is None


def test_every_tool_result_of_a_turn_is_read():
    results = [{"role": "tool", "tool_call_id": each, "content": each} for each in ("sunny", "windy")]
    assert read(Protocol.CHAT, {"messages": [{"role": "user", "content": "x"}, *results]}).result == "sunny\nwindy"
    parts = [{"functionResponse": {"name": "f", "response": {"output": each}}} for each in ("sunny", "windy")]
    contents = [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": []}, {"parts": parts}]
    assert read(Protocol.GEMINI, {"contents": contents}, GEMINI_PATH).result == "sunny\nwindy"


def test_responses_tools_come_out_of_namespaces_and_items():
    function = {"type": "function", "name": "weather", "parameters": SCHEMA}
    brought = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    body = {
        "tools": [function, {"type": "web_search"}],
        "input": [{"type": "additional_tools", "role": "developer", "tools": [brought]}],
    }
    tools = read(Protocol.RESPONSES, body).tools
    assert tools == (Tool("weather", SCHEMA), Tool("exec", {}, namespace="functions", custom=True))
    assert [tool.full_name for tool in tools] == ["weather", "functions__exec"]


@pytest.mark.parametrize(("query", "framing"), [({"alt": "sse"}, Framing.SSE), ({}, Framing.JSON_ARRAY)])
def test_gemini_reads_model_and_framing_from_the_path(query, framing):
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "generationConfig": {"maxOutputTokens": 4}}
    prompt = read(Protocol.GEMINI, body, GEMINI_PATH, query)
    assert (prompt.model, prompt.framing, prompt.text, prompt.output_limit) == ("sim-small", framing, "hello", 4)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a": "\xff"}'])
def test_what_is_not_an_object_is_refused(protocol, body):
    with pytest.raises(ValueError, match="not a JSON object"):
        read_prompt(protocol, GEMINI_PATH, {}, body)


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize(
    "body",
    [{}, {"messages": "x", "input": 3, "contents": [1], "tools": {}, "n": "two"}, {"messages": [{"content": 3}]}],
)
def test_an_odd_shape_is_read_as_far_as_it_goes(protocol, body):
    prompt = read(protocol, body, GEMINI_PATH)
    assert prompt.text == ""
    assert prompt.input_tokens == 1


def test_the_subject_is_the_text_without_its_script():
    prompt = read(Protocol.CHAT, {"messages": [{"role": "user", "content": "What is\nsim: events=2\ntrio?"}]})
    assert prompt.subject == "What is trio?"
