"""The official Python SDK openai, unmodified: Chat Completions and Responses."""

from __future__ import annotations

import base64
import json

import httpx
import openai
import pytest

pytestmark = pytest.mark.sdk

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
RESPONSES_TOOLS = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
ABCDEF = "sim: text=abcdef events=6 pace=1ms input=50"
CALL = 'sim: events=0 tools=1 args=\'{"city":"Köln, Mitte"}\' pace=1ms'
ARGUMENTS = {"city": "Köln, Mitte"}
STATUS_CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    402: openai.APIStatusError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
}


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=gateway.key, max_retries=0, timeout=20) as client:
        yield client


def said(text):
    return [{"role": "user", "content": text}]


def chat(client, gateway, text, **more):
    return client.chat.completions.create(model=gateway.model, messages=said(text), **more)


def chat_stream(client, gateway, text, **more):
    return chat(client, gateway, text, stream=True, stream_options={"include_usage": True}, **more)


def responses_stream(client, gateway, text, **more):
    return client.responses.create(model=gateway.model, input=text, stream=True, **more)


def test_chat_text_stream(client, gateway):
    chunks = list(chat_stream(client, gateway, ABCDEF))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "abcdef"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    usage = chunks[-1].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (50, 6, 56)


def test_chat_text_not_streaming(client, gateway):
    answer = chat(client, gateway, ABCDEF)
    assert answer.choices[0].message.content == "abcdef"
    assert answer.usage.total_tokens == 56


def test_chat_tools(client, gateway):
    fragments = []
    for chunk in chat_stream(client, gateway, CALL, tools=CHAT_TOOLS):
        for choice in chunk.choices:
            fragments += [call.function.arguments for call in choice.delta.tool_calls or []]
    assert json.loads("".join(fragments)) == ARGUMENTS


def test_chat_a_tool_result_is_answered(client, gateway):
    call = chat(client, gateway, CALL, tools=CHAT_TOOLS).choices[0].message
    assert call.tool_calls[0].function.name == "weather"
    result = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "sunny"}
    talk = [*said(CALL.replace("events=0", "events=2")), call, result]
    answer = client.chat.completions.create(model=gateway.model, messages=talk, tools=CHAT_TOOLS)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content


def test_chat_stream_helper(client, gateway):
    prompt = "sim: text=abcdef events=6 reasoning=2 tools=2 pace=1ms"
    with client.chat.completions.stream(
        model=gateway.model, messages=said(prompt), tools=CHAT_TOOLS, stream_options={"include_usage": True}
    ) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    message = answer.choices[0].message
    assert message.role == "assistant"
    assert message.content == "abcdef"
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [{"city": "simulated"}] * 2
    assert answer.usage.completion_tokens == 2 + 6 + 4


@pytest.mark.parametrize(("status", "expected"), STATUS_CLASSES.items())
@pytest.mark.parametrize("stream", [True, False])
def test_chat_error_before_the_stream(gateway, status, expected, stream):
    refusal = gateway.refusal(status)
    with (
        openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=refusal.key, max_retries=0) as client,
        pytest.raises(expected) as raised,
    ):
        client.chat.completions.create(model=refusal.model, messages=said(refusal.prompt), stream=stream)
    assert raised.value.status_code == status
    assert raised.value.message


@pytest.mark.parametrize("how", ["error", "cut"])
def test_chat_failure_in_the_stream(client, gateway, how):
    chunks = []
    with pytest.raises(openai.APIError) as raised:
        chunks.extend(chat_stream(client, gateway, gateway.prompts[how]))
    assert not isinstance(raised.value, openai.APIStatusError)
    assert raised.value.message
    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) == 2


def test_chat_keepalives_between_events(client, gateway):
    chunks = list(chat_stream(client, gateway, gateway.prompts["keepalive"]))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "abcdef"


def test_responses_text_stream(client, gateway):
    events = list(responses_stream(client, gateway, ABCDEF))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "abcdef"
    assert events[-1].type == "response.completed"
    assert events[-1].response.usage.total_tokens == 56


def test_responses_text_not_streaming(client, gateway):
    answer = client.responses.create(model=gateway.model, input=ABCDEF)
    assert answer.output_text == "abcdef"
    assert answer.usage.total_tokens == 56


def test_responses_tools(client, gateway):
    events = list(responses_stream(client, gateway, CALL, tools=RESPONSES_TOOLS))
    deltas = [event.delta for event in events if event.type == "response.function_call_arguments.delta"]
    assert json.loads("".join(deltas)) == ARGUMENTS
    call = events[-1].response.output[0]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", ARGUMENTS)


def test_responses_stream_helper(client, gateway):
    prompt = "sim: text=abcdef events=6 reasoning=2 tools=2 pace=1ms"
    with client.responses.stream(model=gateway.model, input=prompt, tools=RESPONSES_TOOLS) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_response()
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call", "function_call"]
    assert answer.output_text == "abcdef"
    assert answer.usage.output_tokens == 2 + 6 + 4


@pytest.mark.parametrize(("status", "expected"), STATUS_CLASSES.items())
def test_responses_error_before_the_stream(gateway, status, expected):
    refusal = gateway.refusal(status)
    with (
        openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=refusal.key, max_retries=0) as client,
        pytest.raises(expected) as raised,
    ):
        client.responses.create(model=refusal.model, input=refusal.prompt, stream=True)
    assert raised.value.status_code == status


@pytest.mark.parametrize("how", ["failed", "cut"])
def test_responses_failure_in_the_stream(client, gateway, how):
    events = []
    with pytest.raises(openai.APIConnectionError):
        events.extend(responses_stream(client, gateway, gateway.prompts[how]))
    types = [event.type for event in events]
    assert types[-1] == "response.failed"
    assert types.count("response.output_text.delta") == 2


def test_responses_keepalives_between_events(client, gateway):
    events = list(responses_stream(client, gateway, gateway.prompts["keepalive"]))
    assert events[-1].response.output_text == "abcdef"


# -- coming back -------------------------------------------------------------------------------------------------------


def interrupted(client, gateway, events, prompt="sim: text=abcdefghij events=10 pace=100ms"):
    """A Responses stream that is hung up on after some events: the id and the events, as the SDK gave them."""
    seen = []
    with responses_stream(client, gateway, prompt) as stream:
        for event in stream:
            seen.append(event)
            if len(seen) == events:
                break
    return seen[0].response.id, seen


def test_a_response_is_resumed_where_it_broke_off(client, gateway):
    response_id, seen = interrupted(client, gateway, 6)
    running = client.responses.retrieve(response_id)
    assert (running.id, running.status) == (response_id, "in_progress")
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number))
    numbers = [event.sequence_number for event in seen + rest]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert rest[-1].type == "response.completed"
    assert rest[-1].response.output_text == "abcdefghij"
    final = client.responses.retrieve(response_id)
    assert (final.status, final.output_text, final.usage) == ("completed", "abcdefghij", rest[-1].response.usage)


def test_the_stream_helper_picks_a_response_up_by_its_id(client, gateway):
    response_id, seen = interrupted(client, gateway, 6)
    with client.responses.stream(response_id=response_id, starting_after=seen[-1].sequence_number) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[0].sequence_number == seen[-1].sequence_number + 1
    assert (final.id, final.output_text) == (response_id, "abcdefghij")


def test_a_response_nobody_has_is_the_sdks_not_found(client, gateway):
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_nobody_has")


def test_a_retry_with_an_idempotency_key_is_the_same_answer(client, gateway):
    more = {"extra_headers": {"Idempotency-Key": "sdk-1"}}
    first = list(chat_stream(client, gateway, ABCDEF, **more))
    assert list(chat_stream(client, gateway, ABCDEF, **more)) == first
    with pytest.raises(openai.ConflictError):
        chat_stream(client, gateway, "something else", **more)


# -- what is not streamed ----------------------------------------------------------------------------------------------


def test_input_tokens_are_counted(client, gateway):
    counted = client.responses.input_tokens.count(model=gateway.model, input="12345678", instructions="1234")
    assert (counted.object, counted.input_tokens) == ("response.input_tokens", 3)


def test_input_tokens_are_estimated_where_no_channel_counts(client):
    raw = client.responses.input_tokens.with_raw_response.count(model="sim-elsewhere", input="12345678")
    assert raw.headers["x-hoptrio-estimated"] == "true"
    assert raw.parse().input_tokens > 2


def test_embeddings(client):
    """The SDK asks for base64 and unpacks it, unless it is told otherwise."""
    made = client.embeddings.create(model="sim-embedding", input=["one", "two"], dimensions=4)
    assert [len(each.embedding) for each in made.data] == [4, 4]
    assert (made.usage.prompt_tokens, made.usage.total_tokens) == (2, 2)
    plain = client.embeddings.create(model="sim-embedding", input="one", dimensions=4, encoding_format="float")
    assert plain.data[0].embedding == made.data[0].embedding


def test_images(client):
    made = client.images.generate(model="sim-image", prompt="a cat\nsim: events=7", n=2)
    assert [base64.b64decode(each.b64_json)[:8] for each in made.data] == [b"\x89PNG\r\n\x1a\n"] * 2
    assert made.usage.output_tokens == 14


def test_both_are_charged_to_the_billionth(client, gateway):
    """0.02 for a million tokens of input, 0.04 for an image."""
    embedded = client.embeddings.with_raw_response.create(model="sim-embedding", input="one\nsim: input=17")
    drawn = client.images.with_raw_response.generate(model="sim-image", prompt="a cat", n=3)
    for raw, charge in ((embedded, "0.00000034"), (drawn, "0.12")):
        path = f"{gateway.base_url}/v1/requests/{raw.headers['x-request-id']}"
        told = httpx.get(path, headers={"authorization": f"Bearer {gateway.key}"}).json()
        assert (told["state"], told["evidence"], told["charge"]) == ("captured", "json_body", charge)


def test_a_stream_of_images_is_refused(client):
    with pytest.raises(openai.BadRequestError) as raised:
        client.images.generate(model="sim-image", prompt="a cat", stream=True)
    assert (raised.value.param, raised.value.code) == ("stream", "unsupported_parameter")


@pytest.mark.parametrize(("status", "expected"), STATUS_CLASSES.items())
def test_embeddings_fail_as_everything_does(gateway, status, expected):
    refusal = gateway.refusal(status)
    model = "no-such-model" if status == 404 else "sim-embedding"
    with (
        openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=refusal.key, max_retries=0) as client,
        pytest.raises(expected) as raised,
    ):
        client.embeddings.create(model=model, input=refusal.prompt)
    assert raised.value.status_code == status


def test_what_is_not_served_says_so(client):
    with pytest.raises(openai.NotFoundError, match="hoptrio does not serve the endpoint /v1/moderations"):
        client.moderations.create(input="x")
