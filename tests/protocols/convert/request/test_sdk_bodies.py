"""Bodies as the official SDKs build them, from everything their users commonly say."""

from __future__ import annotations

import contextlib
import json

import anthropic
import httpx
import httpx2
import openai
import pydantic
import pytest
from google import genai
from google.genai import types

from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from tests.support.conversing import PATHS

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLED = {"name": "weather", "arguments": '{"city":"Rome"}'}
PNG = "iVBORw0KGgo="


class Weather(pydantic.BaseModel):
    city: str
    degrees: int | None = None


class Wire:
    """Keeps the one request and answers with an error, since only the request is wanted. `library` is httpx or its
    successor, whichever the SDK uses."""

    def __init__(self):
        self.request = None

    def transport(self, library=httpx):
        return library.MockTransport(lambda request: self.answer(library, request))

    def answer(self, library, request):
        self.request = request
        return library.Response(400, json={"error": {"message": "no", "code": 400}})


def chat(wire):
    client = openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=wire.transport()))
    with client:
        client.chat.completions.parse(
            model="m",
            messages=[
                {"role": "developer", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Weather?"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
                    ],
                },
                {
                    "role": "assistant",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            ],
            tools=[openai.pydantic_function_tool(Weather)],
            response_format=Weather,
            max_completion_tokens=500,
            temperature=0.2,
            seed=3,
            metadata={"a": "b"},
            store=True,
            user="u",
        )


def responses(wire):
    with openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=wire.transport())) as client:
        client.responses.parse(
            model="m",
            instructions="Be brief.",
            input=[
                {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Rome"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            ],
            tools=[openai.pydantic_function_tool(Weather)["function"] | {"type": "function"}],
            text_format=Weather,
            reasoning={"effort": "low", "summary": "auto"},
            max_output_tokens=500,
            truncation="auto",
            metadata={"a": "b"},
            store=False,
            include=["reasoning.encrypted_content"],
        )


def messages(wire):
    with anthropic.Anthropic(
        api_key="k", max_retries=0, http_client=httpx2.Client(transport=wire.transport(httpx2))
    ) as client:
        client.beta.messages.create(
            model="m",
            max_tokens=500,
            betas=["interleaved-thinking-2025-05-14"],
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Weather?"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
            ],
            tools=[{"name": "weather", "input_schema": CITY, "strict": True}],
            tool_choice={"type": "auto", "disable_parallel_tool_use": False},
            output_config={"format": {"type": "json_schema", "schema": CITY | {"additionalProperties": False}}},
            metadata={"user_id": "u"},
            context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        )


def gemini(wire):
    options = types.HttpOptions(client_args={"transport": wire.transport()})
    client = genai.Client(api_key="k", http_options=options)
    image = types.Part.from_bytes(data=b"x", mime_type="image/png")
    called = types.Part.from_function_call(name="weather", args={"city": "Rome"})
    result = types.Part.from_function_response(name="weather", response={"output": "sunny"})
    declaration = types.FunctionDeclaration(name="weather", parameters_json_schema=CITY)
    client.models.generate_content(
        model="m",
        contents=[
            types.Content(role="user", parts=[types.Part(text="Weather?"), image]),
            types.Content(role="model", parts=[called]),
            types.Content(role="user", parts=[result]),
        ],
        config=types.GenerateContentConfig(
            system_instruction="Be brief.",
            tools=[types.Tool(function_declarations=[declaration])],
            response_mime_type="application/json",
            response_schema=Weather,
            max_output_tokens=500,
            safety_settings=[types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE")],
            thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="LOW"),
        ),
    )


SENDERS = {Protocol.CHAT: chat, Protocol.RESPONSES: responses, Protocol.MESSAGES: messages, Protocol.GEMINI: gemini}


@pytest.fixture(scope="module")
def calls():
    """What each SDK sent, read by its own protocol's rules."""
    found = {}
    for protocol, send in SENDERS.items():
        wire = Wire()
        with contextlib.suppress(openai.APIStatusError, anthropic.APIStatusError, genai.errors.APIError):
            send(wire)
        request = wire.request
        path = request.url.path if protocol is Protocol.GEMINI else PATHS[protocol]
        found[protocol] = RULES[protocol].parse(path, {"alt": "sse"}, dict(request.headers), request.read())
    return found


PAIRS = [(client, channel) for client in Protocol for channel in Protocol if client is not channel]


@pytest.mark.parametrize(("client", "channel"), PAIRS)
def test_what_an_sdk_sends_is_a_valid_request_of_every_other_channel(calls, client, channel):
    made = convert.prepare(calls[client], channel).call
    body = RULES[channel].encode(
        made, model="m", output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=frozenset()
    )
    path = PATHS[channel]
    again = RULES[channel].parse(path, {}, {}, body)
    said = json.dumps(again.body)
    for word in (
        "Be brief.",
        "Weather?",
        '"city',
        "Rome",
        "sunny",
        "degrees" if client is not Protocol.MESSAGES else "city",
    ):
        assert word in said
    assert again.output_limit == 500
    image = client is not Protocol.RESPONSES
    assert (("image" in said) or ("inlineData" in said)) is image
