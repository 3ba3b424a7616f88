"""Parameters whose value changes on the way: from this body, that member."""

from __future__ import annotations

import pytest

from hoptrio.errors import BadRequest
from hoptrio.limits import CONVERTED_OUTPUT_TOKENS
from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Framing, Protocol
from tests.support.conversing import conversation, converted, parsed

HELLO = {
    "chat": {"messages": [{"role": "user", "content": "hello"}]},
    "responses": {"input": "hello"},
    "messages": {"messages": [{"role": "user", "content": "hello"}]},
    "gemini": {"contents": [{"parts": [{"text": "hello"}]}]},
}
OPEN = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"type": "object", "additionalProperties": False}}},
    "additionalProperties": False,
}
TOOLS = {
    "chat": [{"type": "function", "function": {"name": name}} for name in "fgh"],
    "responses": [{"type": "function", "name": name} for name in "fgh"],
    "messages": [{"name": name, "input_schema": {"type": "object"}} for name in "fgh"],
    "gemini": [{"functionDeclarations": [{"name": name} for name in "fgh"]}],
}
ALLOWED = {"mode": "required", "tools": [{"type": "function", "function": {"name": name}} for name in "fg"]}
#: client, channel, what the client adds, what the channel's body then has.
VALUES = [
    # Output limits: the larger of two spellings counts, as in the hold; Messages demands one.
    ("chat", "responses", {"max_tokens": 5, "max_completion_tokens": 7}, {"max_output_tokens": 7}),
    ("responses", "messages", {}, {"max_tokens": CONVERTED_OUTPUT_TOKENS}),
    ("messages", "chat", {"max_tokens": 9}, {"max_tokens": 9, "max_completion_tokens": None}),
    ("messages", "gemini", {"max_tokens": 9}, {"generationConfig": {"maxOutputTokens": 9}}),
    # Sampling: Anthropic's goes to 1, and newer models take none at all, so that defaults are left out.
    ("chat", "messages", {"temperature": 1.7, "top_p": 1}, {"temperature": None, "top_p": None}),
    ("chat", "messages", {"temperature": 0, "top_p": 0.9}, {"temperature": 0, "top_p": 0.9}),
    ("chat", "messages", {"temperature": 0, "reasoning_effort": "low"}, {"temperature": None}),
    ("gemini", "chat", {"generationConfig": {"topK": 64, "topP": 0.95}}, {"top_p": 0.95, "top_k": None}),
    ("chat", "messages", {"presence_penalty": 0, "frequency_penalty": 0.0}, {"presence_penalty": None}),
    # Stop.
    ("chat", "messages", {"stop": "END"}, {"stop_sequences": ["END"]}),
    ("messages", "chat", {"stop_sequences": ["A", "B"]}, {"stop": ["A", "B"]}),
    # Thinking.
    ("chat", "responses", {"reasoning_effort": "high"}, {"reasoning": {"effort": "high", "summary": "auto"}}),
    (
        "chat",
        "messages",
        {"reasoning_effort": "minimal"},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
    ),
    ("chat", "messages", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}, "output_config": None}),
    ("responses", "messages", {"reasoning": {"summary": "auto"}}, {"thinking": None}),
    ("messages", "chat", {"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"reasoning_effort": "low"}),
    ("messages", "chat", {"thinking": {"type": "enabled", "budget_tokens": 16000}}, {"reasoning_effort": "medium"}),
    ("messages", "chat", {"thinking": {"type": "enabled", "budget_tokens": 31999}}, {"reasoning_effort": "high"}),
    ("messages", "chat", {"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}),
    ("messages", "chat", {"thinking": {"type": "adaptive"}}, {"reasoning_effort": None}),
    (
        "messages",
        "responses",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        {"reasoning": {"effort": "max", "summary": "auto"}},
    ),
    (
        "messages",
        "gemini",
        {"thinking": {"type": "enabled", "budget_tokens": 31999, "display": "omitted"}},
        {"generationConfig": {"maxOutputTokens": 4000, "thinkingConfig": {"thinkingBudget": 24576}}},
    ),
    (
        "responses",
        "gemini",
        {"reasoning": {"effort": "medium", "summary": "auto"}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": True}}},
    ),
    (
        "gemini",
        "messages",
        {"generationConfig": {"maxOutputTokens": 3000, "thinkingConfig": {"thinkingBudget": 8000}}},
        {"thinking": {"type": "enabled", "budget_tokens": 2999}},
    ),
    (
        "gemini",
        "messages",
        {"generationConfig": {"maxOutputTokens": 1000, "thinkingConfig": {"thinkingBudget": 8000}}},
        {"thinking": None},
    ),
    ("gemini", "chat", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, {"reasoning_effort": "none"}),
    (
        "gemini",
        "chat",
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH"}}},
        {"reasoning_effort": "high"},
    ),
    (
        "gemini",
        "messages",
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}},
        {"thinking": {"type": "adaptive"}},
    ),
    # Structured output.
    (
        "chat",
        "messages",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": OPEN}}},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
    ),
    (
        "messages",
        "chat",
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "response", "schema": CLOSED, "strict": True},
            }
        },
    ),
    (
        "gemini",
        "responses",
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseSchema": {
                    "type": "OBJECT",
                    "properties": {"a": {"type": "STRING", "nullable": True}, "b": {"type": "ARRAY", "minItems": "2"}},
                    "propertyOrdering": ["b", "a"],
                },
            }
        },
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "response",
                    "strict": False,
                    "schema": {
                        "type": "object",
                        "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "array", "minItems": 2}},
                    },
                }
            }
        },
    ),
    (
        "responses",
        "gemini",
        {"text": {"format": {"type": "json_object"}}},
        {"generationConfig": {"responseMimeType": "application/json"}},
    ),
    # Tools: `strict` is said to Responses, where its absence means true; a schema is given where one is wanted.
    (
        "chat",
        "responses",
        {"tools": TOOLS["chat"][:1]},
        {
            "tools": [
                {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
            ]
        },
    ),
    (
        "chat",
        "messages",
        {"tools": TOOLS["chat"][:1]},
        {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]},
    ),
    ("responses", "chat", {"tools": TOOLS["responses"][:1]}, {"tools": TOOLS["chat"][:1]}),
    # Choices.
    ("chat", "messages", {"tools": TOOLS["chat"], "tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    ("chat", "messages", {"tools": TOOLS["chat"], "tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    ("chat", "messages", {"tools": TOOLS["chat"], "tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    (
        "chat",
        "messages",
        {"tools": TOOLS["chat"], "parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    (
        "chat",
        "messages",
        {"tools": TOOLS["chat"], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        {"tool_choice": {"type": "tool", "name": "g"}},
    ),
    (
        "chat",
        "responses",
        {"tools": TOOLS["chat"], "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}},
        {
            "tool_choice": "required",
            "tools": [
                {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, "strict": False}
                for name in "fg"
            ],
        },
    ),
    (
        "messages",
        "chat",
        {
            "tools": TOOLS["messages"],
            "tool_choice": {"type": "tool", "name": "g", "disable_parallel_tool_use": True},
        },
        {"tool_choice": {"type": "function", "function": {"name": "g"}}, "parallel_tool_calls": False},
    ),
    (
        "messages",
        "gemini",
        {"tools": TOOLS["messages"], "tool_choice": {"type": "tool", "name": "g"}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}}},
    ),
    (
        "gemini",
        "chat",
        {
            "tools": TOOLS["gemini"],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}},
        },
        {"tool_choice": "required", "tools": TOOLS["chat"][:2]},
    ),
    ("chat", "gemini", {"tool_choice": "auto"}, {"toolConfig": None, "tools": None}),
    # Who asks; long ids are hashed, since OpenAI takes 64 characters.
    ("chat", "messages", {"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
    ("messages", "chat", {"metadata": {"user_id": "u"}}, {"user": "u"}),
    ("messages", "responses", {"metadata": {"user_id": "u" * 64}}, {"safety_identifier": "u" * 64}),
    (
        "messages",
        "responses",
        {"metadata": {"user_id": "u" * 65}},
        {"safety_identifier": "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"},
    ),
    # Tiers.
    ("chat", "messages", {"service_tier": "auto"}, {"service_tier": "auto"}),
    ("chat", "messages", {"service_tier": "default"}, {"service_tier": "standard_only"}),
    ("messages", "responses", {"service_tier": "standard_only"}, {"service_tier": "default"}),
    ("responses", "gemini", {"service_tier": "fast"}, {"serviceTier": "priority"}),
    ("gemini", "chat", {"serviceTier": "flex"}, {"service_tier": "flex"}),
    ("gemini", "chat", {"serviceTier": "SERVICE_TIER_UNSPECIFIED"}, {"service_tier": None}),
    # Streams, and what is always asked for.
    ("messages", "chat", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ("chat", "responses", {"store": True}, {"store": False, "include": None}),
    ("messages", "responses", {}, {"store": False, "include": ["reasoning.encrypted_content"]}),
    (
        "chat",
        "responses",
        {"logprobs": True, "top_logprobs": 4},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 4},
    ),
    ("responses", "chat", {"top_logprobs": 4}, {"logprobs": True, "top_logprobs": 4}),
]


@pytest.mark.parametrize(("client", "channel", "change", "expected"), VALUES)
def test_a_value_becomes(client, channel, change, expected):
    out = converted(client, channel, HELLO[client] | change)
    assert {name: out.get(name) for name in expected} == expected


#: client, channel, what the client adds, the parameter that is named.
REFUSALS = [
    ("chat", "responses", {"stop": ["a"]}, "stop"),
    ("chat", "responses", {"n": 2}, "n"),
    ("chat", "messages", {"n": 2}, "n"),
    ("gemini", "messages", {"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount"),
    ("chat", "messages", {"presence_penalty": 0.1}, "presence_penalty"),
    ("chat", "messages", {"response_format": {"type": "json_object"}}, "response_format"),
    ("responses", "messages", {"text": {"format": {"type": "json_object"}}}, "text.format"),
    ("chat", "messages", {"service_tier": "flex"}, "service_tier"),
    ("chat", "gemini", {"service_tier": "scale"}, "service_tier"),
    ("chat", "gemini", {"tools": TOOLS["chat"], "parallel_tool_calls": False}, "parallel_tool_calls"),
    (
        "messages",
        "gemini",
        {"tools": TOOLS["messages"], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "tool_choice",
    ),
    (
        "chat",
        "messages",
        {"tools": TOOLS["chat"], "tool_choice": "required", "reasoning_effort": "high"},
        "tool_choice",
    ),
    ("chat", "messages", {"tool_choice": "required"}, "tool_choice"),
    ("gemini", "chat", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "toolConfig.functionCallingConfig"),
    ("messages", "chat", {"stop_sequences": list("abcde")}, "stop_sequences"),
    ("responses", "chat", {"previous_response_id": "resp_1"}, "previous_response_id"),
    ("responses", "messages", {"conversation": "conv_1"}, "conversation"),
    ("responses", "messages", {"prompt": {"id": "pmpt_1"}}, "prompt"),
    ("responses", "chat", {"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0].type"),
    ("responses", "chat", {"input": [{"type": "computer_call", "call_id": "c"}]}, "input[0].type"),
    ("responses", "chat", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, "tools[0].type"),
    ("responses", "chat", {"tools": [{"type": "local_shell"}]}, "tools[0].type"),
    ("responses", "chat", {"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tools[0].type"),
    ("responses", "chat", {"tool_choice": {"type": "file_search"}, "tools": TOOLS["responses"]}, "tool_choice.type"),
    ("messages", "chat", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ("messages", "chat", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    ("messages", "chat", {"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
    (
        "messages",
        "chat",
        {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
        "messages[0].content[0].type",
    ),
    ("gemini", "chat", {"tools": [{"codeExecution": {}}]}, "tools[0]"),
    ("gemini", "chat", {"cachedContent": "cachedContents/1"}, "cachedContent"),
    ("gemini", "chat", {"contents": [{"parts": [{"executableCode": {"code": "1"}}]}]}, "contents[0].parts[0]"),
    ("chat", "messages", {"functions": [{"name": "f"}]}, "functions"),
    ("chat", "messages", {"web_search_options": {}}, "web_search_options"),
    ("chat", "messages", {"messages": [{"role": "function", "name": "f", "content": ""}]}, "messages[0].role"),
    (
        "chat",
        "messages",
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
        "messages[0].content[0].file.file_id",
    ),
]


@pytest.mark.parametrize(("client", "channel", "change", "param"), REFUSALS)
def test_what_cannot_be_carried_is_named(client, channel, change, param):
    with pytest.raises(BadRequest) as refused:
        converted(client, channel, HELLO[client] | change)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_a_limit_is_lowered_to_the_models_maximum_or_is_it_where_one_is_needed():
    assert converted("chat", "messages", HELLO["chat"], output_max=99)["max_tokens"] == 99
    assert converted("chat", "messages", HELLO["chat"] | {"max_tokens": 500}, output_max=99)["max_tokens"] == 99
    assert "max_tokens" not in converted("responses", "chat", HELLO["responses"], output_max=99)


@pytest.mark.parametrize(
    ("client", "tools", "name"),
    [
        ("chat", [{"type": "browser"}], "browser"),
        ("responses", [{"type": "code_interpreter"}], "code_interpreter"),
        ("messages", [{"type": "web_search_20250305", "name": "web_search"}], "web_search"),
        ("gemini", [{"codeExecution": {}}], "code_execution"),
    ],
)
def test_a_hosted_tool_that_admission_drops_is_left_out(client, tools, name):
    with pytest.raises(BadRequest):
        conversation(client, HELLO[client] | {"tools": tools})
    assert conversation(client, HELLO[client] | {"tools": tools}, drop_tools=frozenset({name})).tools == ()


def test_hosted_options_that_admission_drops_are_left_out():
    dropped = conversation("chat", HELLO["chat"] | {"web_search_options": {}}, drop_tools=frozenset({"web_search"}))
    assert dropped == conversation("chat", HELLO["chat"])
    servers = HELLO["messages"] | {"mcp_servers": [{"type": "url"}]}
    assert conversation("messages", servers, drop_tools=frozenset({"mcp"})) == conversation(
        "messages", HELLO["messages"]
    )


def test_only_a_chat_stream_on_a_gemini_channel_is_impossible():
    impossible = {
        (client, channel, stream)
        for client in Protocol
        for channel in Protocol
        for stream in (True, False)
        if client is not channel and not convert.possible(client, channel, stream=stream)
    }
    assert impossible == {(Protocol.CHAT, Protocol.GEMINI, True)}
    assert not any(convert.possible(protocol, protocol, stream=False) for protocol in Protocol)
    with pytest.raises(BadRequest) as refused:
        convert.prepare(parsed("chat", HELLO["chat"] | {"stream": True}), Protocol.GEMINI)
    assert refused.value.param == "stream"


def test_the_channels_call_is_one_of_its_own_protocol():
    call = parsed("gemini", HELLO["gemini"], path="/v1beta/models/m:streamGenerateContent")
    made = convert.prepare(call, Protocol.MESSAGES, output_max=77).call
    assert (made.protocol, made.framing, made.output_limit) == (Protocol.MESSAGES, Framing.SSE, 77)
    assert made.headers == (("anthropic-version", "2023-06-01"),)
    assert (call.tier_open, made.tier_open) == (False, True)
    said = parsed("gemini", HELLO["gemini"] | {"serviceTier": "standard"})
    assert not convert.prepare(said, Protocol.CHAT).call.tier_open
    back = convert.prepare(parsed("messages", HELLO["messages"], {"anthropic-beta": "a"}), Protocol.CHAT).call
    assert (back.headers, back.query, back.usage_asked) == ((), (), False)
    hosted = parsed("responses", HELLO["responses"] | {"tools": [{"type": "web_search"}]})
    assert hosted.hosted_tools
    assert convert.prepare(hosted, Protocol.CHAT).call.hosted_tools == ()
    assert convert.prepare(hosted, Protocol.CHAT).names == {}
