"""The tables say what happens, the page says what the tables say, and no SDK has a parameter that is in none."""

from __future__ import annotations

import copy
import typing

import pytest
from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import message_create_params as anthropic_beta_params
from google.genai import types as genai
from openai.types import shared_params as openai_shared
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from openai.types.responses import response_text_config_param as text_params

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.convert.request.conversation import Conversation
from hoptrio.protocols.convert.request.tables import CHANNEL, CLIENT, Fate
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.gemini.request import camel

CHAT, RESPONSES, MESSAGES, GEMINI = Protocol
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA}

BASES = {
    CHAT: {
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": FUNCTION}],
        "max_tokens": 4000,
    },
    RESPONSES: {"input": "hello", "tools": [{"type": "function", "strict": False, **FUNCTION}]},
    MESSAGES: {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 4000,
        "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}],
    },
    GEMINI: {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}],
    },
}

#: For every parameter that is carried: a change of the base by it, and what it becomes. Where a parameter becomes one
#: of two fields, both are here.
CARRIED = {
    CHAT: [
        ("model", {"model": "other"}, "model"),
        ("messages", {"messages": [{"role": "user", "content": "bye"}]}, "turns"),
        ("stream", {"stream": True}, "stream"),
        ("tools", {"tools": [{"type": "function", "function": {"name": "g"}}]}, "tools"),
        ("tool_choice", {"tool_choice": "required"}, "choice"),
        ("parallel_tool_calls", {"parallel_tool_calls": False}, "serial"),
        ("max_completion_tokens", {"max_completion_tokens": 5000}, "limit_tokens"),
        ("max_tokens", {"max_tokens": 5000}, "limit_tokens"),
        ("temperature", {"temperature": 0.5}, "temperature"),
        ("top_p", {"top_p": 0.5}, "top_p"),
        ("top_k", {"top_k": 40}, "top_k"),
        ("seed", {"seed": -7}, "seed"),
        ("presence_penalty", {"presence_penalty": 0.5}, "presence_penalty"),
        ("frequency_penalty", {"frequency_penalty": -0.5}, "frequency_penalty"),
        ("stop", {"stop": "END"}, "stop"),
        ("logprobs", {"logprobs": True}, "logprobs"),
        ("top_logprobs", {"logprobs": True, "top_logprobs": 3}, "logprobs"),
        (
            "response_format",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
            "schema",
        ),
        ("response_format", {"response_format": {"type": "json_object"}}, "json"),
        ("verbosity", {"verbosity": "low"}, "verbosity"),
        ("reasoning_effort", {"reasoning_effort": "high"}, "thinking"),
        ("safety_identifier", {"safety_identifier": "s"}, "user"),
        ("user", {"user": "u"}, "user"),
        ("prompt_cache_key", {"prompt_cache_key": "k"}, "cache_key"),
        ("service_tier", {"service_tier": "default"}, "tier"),
        ("n", {"n": 2}, "choices"),
    ],
    RESPONSES: [
        ("model", {"model": "other"}, "model"),
        ("input", {"input": "bye"}, "turns"),
        ("instructions", {"instructions": "obey"}, "turns"),
        ("stream", {"stream": True}, "stream"),
        ("tools", {"tools": [{"type": "function", "name": "g"}]}, "tools"),
        ("tool_choice", {"tool_choice": "required"}, "choice"),
        ("parallel_tool_calls", {"parallel_tool_calls": False}, "serial"),
        ("max_output_tokens", {"max_output_tokens": 5000}, "limit_tokens"),
        ("temperature", {"temperature": 0.5}, "temperature"),
        ("top_p", {"top_p": 0.5}, "top_p"),
        ("top_logprobs", {"top_logprobs": 2}, "logprobs"),
        ("include", {"include": ["message.output_text.logprobs"]}, "logprobs"),
        ("text.format", {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}, "schema"),
        ("text.format", {"text": {"format": {"type": "json_object"}}}, "json"),
        ("text.verbosity", {"text": {"verbosity": "low"}}, "verbosity"),
        ("reasoning.effort", {"reasoning": {"effort": "high"}}, "thinking"),
        ("safety_identifier", {"safety_identifier": "s"}, "user"),
        ("user", {"user": "u"}, "user"),
        ("prompt_cache_key", {"prompt_cache_key": "k"}, "cache_key"),
        ("service_tier", {"service_tier": "default"}, "tier"),
    ],
    MESSAGES: [
        ("model", {"model": "other"}, "model"),
        ("messages", {"messages": [{"role": "user", "content": "bye"}]}, "turns"),
        ("system", {"system": "obey"}, "turns"),
        ("stream", {"stream": True}, "stream"),
        ("tools", {"tools": [{"name": "g", "input_schema": {}}]}, "tools"),
        ("tool_choice", {"tool_choice": {"type": "any"}}, "choice"),
        ("tool_choice", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "serial"),
        ("max_tokens", {"max_tokens": 5000}, "limit_tokens"),
        ("temperature", {"temperature": 0.5}, "temperature"),
        ("top_p", {"top_p": 0.5}, "top_p"),
        ("top_k", {"top_k": 40}, "top_k"),
        ("stop_sequences", {"stop_sequences": ["END"]}, "stop"),
        ("output_config.format", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, "schema"),
        ("output_format", {"output_format": {"type": "json_schema", "schema": SCHEMA}}, "schema"),
        ("output_config.effort", {"output_config": {"effort": "high"}}, "thinking"),
        ("thinking", {"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking"),
        ("metadata.user_id", {"metadata": {"user_id": "u"}}, "user"),
        ("service_tier", {"service_tier": "standard_only"}, "tier"),
    ],
    GEMINI: [
        ("contents", {"contents": [{"parts": [{"text": "bye"}]}]}, "turns"),
        ("systemInstruction", {"systemInstruction": {"parts": [{"text": "obey"}]}}, "turns"),
        ("tools", {"tools": [{"functionDeclarations": [{"name": "g"}]}]}, "tools"),
        ("toolConfig.functionCallingConfig", {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "choice"),
        ("serviceTier", {"serviceTier": "standard"}, "tier"),
        *(
            (f"generationConfig.{name}", {"generationConfig": {name: value}}, field)
            for name, value, field in [
                ("maxOutputTokens", 5000, "limit_tokens"),
                ("temperature", 0.5, "temperature"),
                ("topP", 0.5, "top_p"),
                ("topK", 40, "top_k"),
                ("seed", 7, "seed"),
                ("presencePenalty", 0.5, "presence_penalty"),
                ("frequencyPenalty", 0.5, "frequency_penalty"),
                ("stopSequences", ["END"], "stop"),
                ("responseJsonSchema", SCHEMA, "schema"),
                ("responseSchema", {"type": "OBJECT"}, "schema"),
                ("responseMimeType", "application/json", "json"),
                ("thinkingConfig", {"thinkingBudget": 2000}, "thinking"),
                ("candidateCount", 2, "choices"),
            ]
        ),
    ],
}
#: Carried, but only together with another parameter.
TOGETHER = {(RESPONSES, "reasoning.summary"), (RESPONSES, "reasoning.generate_summary")}

PAIRS = [(client, channel) for client in Protocol for channel in Protocol if client is not channel]


def call_of(client, body):
    stream = body.get("stream", False)
    return Call(
        protocol=client,
        model=body.get("model", "m") if client is not GEMINI else "m",
        stream=stream,
        framing=Framing.SSE if stream else Framing.JSON,
        body=body,
    )


def converted(client, channel, change):
    body = copy.deepcopy(BASES[client]) | change
    before = copy.deepcopy(body)
    out = convert.encode(convert.decode(call_of(client, body)), channel)
    assert body == before
    return out


def at(value, path):
    for name in path.split("."):
        if isinstance(value, list):
            value = value[0]
        value = value.get(name) if isinstance(value, dict) else None
    return value


def carried_cases():
    for client, channel in PAIRS:
        for param, change, field in CARRIED[client]:
            yield pytest.param(client, channel, param, change, field, id=f"{client}-{channel}-{param}-{field}")


@pytest.mark.parametrize(("client", "channel", "param", "change", "field"), [*carried_cases()])
def test_what_a_client_may_say_reaches_each_channel_as_its_table_says(client, channel, param, change, field):
    row = CHANNEL[channel][field]
    row = row._replace(fate=row.fate_for(client))
    if client is CHAT and channel is GEMINI and field == "stream":
        row = row._replace(fate=Fate.REFUSED)
    if row.fate is Fate.REFUSED:
        with pytest.raises(BadRequest) as refused:
            converted(client, channel, change)
        # Of two spellings the first is named.
        named_row = CLIENT[client][refused.value.param]
        assert field in (named_row.name, named_row.also)
        return
    out, base = converted(client, channel, change), converted(client, channel, {})
    if row.fate is Fate.DROPPED:
        assert out == base
    elif "obey" in str(change):
        assert "obey" in str(out)
    else:
        assert at(out, row.name) not in (None, at(base, row.name))


def dropped_cases():
    for client, channel in PAIRS:
        for param, row in CLIENT[client].items():
            if row.fate is Fate.DROPPED:
                yield pytest.param(client, channel, param, id=f"{client}-{channel}-{param}")


@pytest.mark.parametrize(("client", "channel", "param"), [*dropped_cases()])
def test_what_is_dropped_changes_nothing(client, channel, param):
    assert converted(client, channel, nested(param, "anything")) == converted(client, channel, {})


def refused_cases():
    for client in Protocol:
        for param, row in CLIENT[client].items():
            if row.fate is Fate.REFUSED:
                yield pytest.param(client, param, row.harmless, id=f"{client}-{param}")


@pytest.mark.parametrize(("client", "param", "harmless"), [*refused_cases()])
def test_what_is_refused_is_named_unless_it_says_nothing(client, param, harmless):
    with pytest.raises(BadRequest) as refused:
        convert.decode(call_of(client, BASES[client] | nested(param, {"any": "thing"})))
    assert (refused.value.param, refused.value.code) == (param, "unsupported_parameter")
    for value in (None, *harmless):
        assert convert.decode(call_of(client, BASES[client] | nested(param, value)))


def nested(param, value):
    outer, _, inner = param.partition(".")
    return {outer: {inner: value}} if inner else {outer: value}


@pytest.mark.parametrize("client", Protocol)
def test_an_unknown_parameter_is_named_and_not_lost(client):
    for param in ("brand_new", "generationConfig.brandNew" if client is GEMINI else "x_new"):
        with pytest.raises(BadRequest) as refused:
            convert.decode(call_of(client, BASES[client] | nested(param, 1)))
        assert camel(refused.value.param) == camel(param)
    with pytest.raises(BadRequest) as refused:
        convert.decode(call_of(client, BASES[client] | {"the secret prompt": 1}))
    assert refused.value.param == "body"
    assert "secret" not in refused.value.message


def test_gemini_names_may_be_in_snake_case():
    change = {"generation_config": {"max_output_tokens": 7, "stop_sequences": ["E"]}, "service_tier": "standard"}
    assert converted(GEMINI, CHAT, change)["max_tokens"] == 7
    assert converted(GEMINI, CHAT, change)["stop"] == ["E"]
    assert converted(GEMINI, CHAT, change)["service_tier"] == "default"


@pytest.mark.parametrize("client", Protocol)
def test_every_carried_parameter_has_its_case(client):
    carried = {param for param, row in CLIENT[client].items() if row.fate is Fate.CARRIED}
    cases = {param for param, _, _ in CARRIED[client]}
    assert carried - cases == {param for protocol, param in TOGETHER if protocol is client}


def test_every_field_has_a_row_on_every_channel():
    fields = set(Conversation.__struct_fields__) - {"client"}
    assert {channel: set(rows) for channel, rows in CHANNEL.items()} == dict.fromkeys(Protocol, fields)


def test_every_carried_parameter_becomes_a_field():
    for rows in CLIENT.values():
        assert {row.name for row in rows.values() if row.fate is Fate.CARRIED} <= CHANNEL[CHAT].keys()


def named(*types):
    return {name for each in types for name in typing.get_type_hints(each)}


#: Arguments of the SDK's own method that never reach the body.
GENAI_OWN = {"httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling", "automaticContinuation"}


def test_every_parameter_of_the_openai_sdk_is_in_the_tables():
    chat = named(chat_params.CompletionCreateParamsNonStreaming, chat_params.CompletionCreateParamsStreaming)
    assert chat - CLIENT[CHAT].keys() == set()
    responses = named(responses_params.ResponseCreateParamsNonStreaming, responses_params.ResponseCreateParamsStreaming)
    nested_names = {f"text.{name}" for name in named(text_params.ResponseTextConfigParam)}
    nested_names |= {f"reasoning.{name}" for name in named(openai_shared.Reasoning)}
    assert (responses - {"text", "reasoning"} | nested_names) - CLIENT[RESPONSES].keys() == set()


def test_every_parameter_of_the_anthropic_sdk_is_in_the_tables():
    plain = named(anthropic_params.MessageCreateParamsNonStreaming, anthropic_params.MessageCreateParamsStreaming)
    beta = named(
        anthropic_beta_params.MessageCreateParamsNonStreaming, anthropic_beta_params.MessageCreateParamsStreaming
    )
    known = CLIENT[MESSAGES].keys()
    assert (plain | beta) - {"output_config", "metadata"} - known == set()
    hints = typing.get_type_hints(anthropic_params.MessageCreateParamsNonStreaming)
    for parent in ("output_config", "metadata"):
        inner = next(each for each in (hints[parent], *typing.get_args(hints[parent])) if hasattr(each, "__total__"))
        assert {f"{parent}.{name}" for name in named(inner)} - known == set()


def test_every_parameter_of_the_google_sdk_is_in_the_tables():
    known = CLIENT[GEMINI].keys()
    config = {camel(name) for name in genai.GenerateContentConfig.model_fields} - GENAI_OWN
    unknown = {name for name in config if name not in known and f"generationConfig.{name}" not in known}
    assert unknown == {"toolConfig"}
    assert {f"toolConfig.{camel(name)}" for name in genai.ToolConfig.model_fields} - known == set()
    assert {f"generationConfig.{camel(name)}" for name in genai.GenerationConfig.model_fields} - known == set()
