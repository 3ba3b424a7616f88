"""The official Python SDK google-genai, unmodified."""

from __future__ import annotations

import pytest
from google import genai
from google.genai import errors, types

pytestmark = pytest.mark.sdk

WEATHER = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
TOOLS = [types.Tool(function_declarations=[{"name": "weather", "description": "The weather", "parameters": WEATHER}])]
#: The SDK would call Python functions by itself.
BY_HAND = types.GenerateContentConfig(
    tools=TOOLS, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
)
ABCDEF = "sim: text=abcdef events=6 reasoning=2 pace=1ms input=50 cached=20"
CALL = 'sim: events=0 tools=1 args=\'{"city":"Köln, Mitte"}\' pace=1ms'
ARGUMENTS = {"city": "Köln, Mitte"}


def client_of(gateway, key):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=gateway.base_url))


@pytest.fixture
def client(gateway):
    with client_of(gateway, gateway.key) as client:
        yield client


def streamed(client, gateway, text, config=None):
    return client.models.generate_content_stream(model=gateway.model, contents=text, config=config)


def visible(answer):
    """The text that is not thought."""
    parts = [part for each in answer.candidates or [] for part in (each.content.parts or [])]
    return "".join(part.text or "" for part in parts if not part.thought)


def test_text_stream(client, gateway):
    chunks = list(streamed(client, gateway, ABCDEF))
    assert "".join(map(visible, chunks)) == "abcdef"
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    usage = chunks[-1].usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (50, 20)
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (6, 2, 58)


def test_text_not_streaming(client, gateway):
    answer = client.models.generate_content(model=gateway.model, contents=ABCDEF)
    assert visible(answer) == "abcdef"
    assert answer.usage_metadata.total_token_count == 58


def test_tools(client, gateway):
    calls = [call for chunk in streamed(client, gateway, CALL, BY_HAND) for call in chunk.function_calls or []]
    assert [(call.name, call.args) for call in calls] == [("weather", ARGUMENTS)]


def test_a_tool_result_is_answered(client, gateway):
    prompt = CALL.replace("events=0", "events=2")
    call = client.models.generate_content(model=gateway.model, contents=prompt, config=BY_HAND)
    result = types.Part.from_function_response(name="weather", response={"weather": "sunny"})
    talk = [
        types.Content(role="user", parts=[types.Part(text=prompt)]),
        call.candidates[0].content,
        types.Content(role="user", parts=[result]),
    ]
    answer = client.models.generate_content(model=gateway.model, contents=talk, config=BY_HAND)
    assert visible(answer)
    assert not answer.function_calls


def test_chat_helper_keeps_the_history(client, gateway):
    chat = client.chats.create(model=gateway.model)
    assert "".join(map(visible, chat.send_message_stream(ABCDEF))) == "abcdef"
    assert chat.get_history()[0].role == "user"


@pytest.mark.parametrize("status", [400, 401, 402, 404, 429])
@pytest.mark.parametrize("stream", [True, False])
def test_error_before_the_stream(gateway, status, stream):
    refusal = gateway.refusal(status)
    with client_of(gateway, refusal.key) as client:
        call = client.models.generate_content_stream if stream else client.models.generate_content
        with pytest.raises(errors.ClientError) as raised:
            list(call(model=refusal.model, contents=refusal.prompt))
    assert raised.value.code == status
    assert raised.value.status


@pytest.mark.parametrize("how", ["error", "cut"])
def test_failure_in_the_stream(client, gateway, how):
    chunks = []
    with pytest.raises(errors.ServerError) as raised:
        chunks.extend(streamed(client, gateway, gateway.prompts[how]))
    assert raised.value.code >= 500
    assert len(chunks) == 2


def test_keepalives_between_events(client, gateway):
    chunks = list(streamed(client, gateway, gateway.prompts["keepalive"]))
    assert "".join(map(visible, chunks)) == "abcdef"


def test_tokens_are_counted(client, gateway):
    assert client.models.count_tokens(model=gateway.model, contents="12345678").total_tokens == 2


def test_tokens_are_estimated_where_no_channel_counts(client):
    counted = client.models.count_tokens(model="sim-elsewhere", contents="12345678")
    assert counted.total_tokens > 2
    assert counted.sdk_http_response.headers["x-hoptrio-estimated"] == "true"
