"""The official Python SDKs on channels of other protocols, over sockets: a turn with a tool call, and failures."""

from __future__ import annotations

import json

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import errors, types

from tests.support.deployment import Deployment, config_for, served
from tests.support.running import simulator

pytestmark = pytest.mark.sdk

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TURN = 'sim: text=abcdef events=6 tools=1 args=\'{"city":"Köln, Mitte"}\' pace=1ms input=50'
ARGUMENTS = {"city": "Köln, Mitte"}
CUT = "sim: events=5 pace=1ms fail=cut@2"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A gateway with a model `on-<protocol>` for each protocol, whose one channel speaks nothing else: (URL, key)."""
    with simulator() as provider:
        config = config_for(provider)
        [channel], [model] = config["channels"].values(), config["models"].values()
        config["models"] = {f"on-{each}": model for each in channel["protocols"]}
        config["channels"] = {
            each: channel
            | {
                "protocols": [each],
                "base_url": channel["base_url"][each],
                "models": [{"name": f"on-{each}", "upstream": "sim-small"}],
            }
            for each in channel["protocols"]
        }
        deployment = Deployment(tmp_path_factory.mktemp("converted"), config)
        key = deployment.add_account("rich")
        with served(deployment) as server:
            yield server.url, key


@pytest.fixture
def openai_client(site):
    url, key = site
    with openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def anthropic_client(site):
    url, key = site
    with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20) as client:
        yield client


@pytest.fixture
def google_client(site):
    url, key = site
    with genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url)) as client:
        yield client


def said(text):
    return [{"role": "user", "content": text}]


# -- openai: Responses ------------------------------------------------------------------------------------------------


def responses(client, channel, text):
    tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
    return client.responses.stream(model=f"on-{channel}", input=text, tools=tools)


@pytest.mark.parametrize("channel", ["messages", "chat", "gemini"])
def test_a_responses_client(openai_client, channel):
    with responses(openai_client, channel, TURN) as stream:
        numbers = [event.sequence_number for event in stream if not event.type.endswith("parsed")]
        answer = stream.get_final_response()
    assert answer.output_text == "abcdef"
    (call,) = [item for item in answer.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("weather", ARGUMENTS)
    assert (answer.status, answer.usage.input_tokens) == ("completed", 50)
    assert numbers == sorted(set(numbers))
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    earlier = [item.model_dump(exclude_none=True) for item in answer.output]
    again = openai_client.responses.create(model=f"on-{channel}", input=[*said("go on"), *earlier, result])
    assert again.output_text
    assert again.status == "completed"


def test_a_responses_client_whose_stream_breaks(openai_client):
    kinds = []
    with responses(openai_client, "messages", CUT) as stream, pytest.raises((openai.APIError, httpx.HTTPError)):
        kinds.extend(event.type for event in stream)
    assert not {"response.completed", "response.incomplete"} & set(kinds)


# -- openai: Chat Completions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["messages", "responses"])
def test_a_chat_client(openai_client, channel):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    asked = {"model": f"on-{channel}", "messages": said(TURN), "tools": tools}
    with openai_client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        stream.until_done()
        answer = stream.get_final_completion()
    (choice,) = answer.choices
    (call,) = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("abcdef", "tool_calls")
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", ARGUMENTS)
    assert answer.usage.prompt_tokens == 50
    whole = openai_client.chat.completions.create(**asked)
    assert whole.choices[0].message.content == "abcdef"
    assert whole.usage.prompt_tokens == 50


def test_a_chat_stream_on_gemini_is_refused_and_a_whole_answer_is_not(openai_client):
    asked = {"model": "on-gemini", "messages": said("sim: text=abcdef events=6 pace=1ms")}
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    assert caught.value.body["param"] == "stream"
    assert openai_client.chat.completions.create(**asked).choices[0].message.content == "abcdef"


# -- anthropic --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["chat", "responses", "gemini"])
def test_a_messages_client(anthropic_client, channel):
    tools = [{"name": "weather", "description": "The weather", "input_schema": WEATHER}]
    asked = {"model": f"on-{channel}", "max_tokens": 1000, "tools": tools}
    with anthropic_client.messages.stream(**asked, messages=said(TURN)) as stream:
        answer = stream.get_final_message()
    text, call = answer.content
    assert (text.text, call.name, call.input) == ("abcdef", "weather", ARGUMENTS)
    assert (answer.stop_reason, answer.usage.input_tokens) == ("tool_use", 50)
    turns = [
        *said("go on"),
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}]},
    ]
    again = anthropic_client.messages.create(**asked, messages=turns)
    assert (again.stop_reason, again.content[0].type) == ("end_turn", "text")


@pytest.mark.parametrize(
    ("prompt", "expected"), [(CUT, anthropic.APIError), ("sim: fail=status:429", anthropic.RateLimitError)]
)
def test_a_messages_client_whose_stream_fails(anthropic_client, prompt, expected):
    with pytest.raises(expected):
        list(anthropic_client.messages.create(model="on-chat", max_tokens=9, messages=said(prompt), stream=True))


# -- google-genai -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", ["chat", "responses", "messages"])
def test_a_gemini_client(google_client, channel):
    by_hand = types.AutomaticFunctionCallingConfig(disable=True)
    declared = [{"name": "weather", "description": "The weather", "parameters": WEATHER}]
    tools = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)], automatic_function_calling=by_hand
    )
    chunks = list(google_client.models.generate_content_stream(model=f"on-{channel}", contents=TURN, config=tools))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]
    assert "".join(part.text or "" for part in parts) == "abcdef"
    assert [(part.function_call.name, part.function_call.args) for part in parts if part.function_call] == [
        ("weather", ARGUMENTS)
    ]
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.prompt_token_count == 50


def test_a_gemini_client_whose_call_is_refused(google_client):
    with pytest.raises(errors.ClientError) as caught:
        google_client.models.generate_content(model="on-chat", contents="sim: fail=status:429")
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
