"""The official Python SDK anthropic, unmodified."""

from __future__ import annotations

import json

import anthropic
import pytest

pytestmark = pytest.mark.sdk

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "weather", "description": "The weather", "input_schema": WEATHER}]
ABCDEF = "sim: text=abcdef events=6 pace=1ms input=50 cached=20"
CALL = 'sim: events=0 tools=1 args=\'{"city":"Köln, Mitte"}\' pace=1ms'
ARGUMENTS = {"city": "Köln, Mitte"}
STATUS_CLASSES = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    402: anthropic.PaymentRequiredError,
    404: anthropic.NotFoundError,
    429: anthropic.RateLimitError,
}


@pytest.fixture
def client(gateway):
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=20) as client:
        yield client


def asked(gateway, text, **more):
    return {
        "model": gateway.model,
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def test_text_stream(client, gateway):
    events = list(client.messages.create(**asked(gateway, ABCDEF), stream=True))
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == "abcdef"
    assert events[-1].type == "message_stop"
    usage = events[-2].usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (30, 20, 6)


def test_text_not_streaming(client, gateway):
    answer = client.messages.create(**asked(gateway, ABCDEF))
    assert answer.content[0].text == "abcdef"
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens == 6


def test_tools(client, gateway):
    events = list(client.messages.create(**asked(gateway, CALL, tools=TOOLS), stream=True))
    fragments = [event.delta.partial_json for event in events if event.type == "content_block_delta"]
    assert json.loads("".join(fragments)) == ARGUMENTS


def test_a_tool_result_is_answered(client, gateway):
    call = client.messages.create(**asked(gateway, CALL, tools=TOOLS))
    assert (call.stop_reason, call.content[0].name, call.content[0].input) == ("tool_use", "weather", ARGUMENTS)
    result = {"type": "tool_result", "tool_use_id": call.content[0].id, "content": "sunny"}
    talk = asked(gateway, CALL.replace("events=0", "events=2"), tools=TOOLS)
    talk["messages"] += [{"role": "assistant", "content": call.content}, {"role": "user", "content": [result]}]
    answer = client.messages.create(**talk)
    assert (answer.stop_reason, answer.content[0].type) == ("end_turn", "text")


def test_stream_helper(client, gateway):
    prompt = "sim: text=abcdef events=6 reasoning=2 tools=2 pace=1ms"
    with client.messages.stream(**asked(gateway, prompt, tools=TOOLS)) as stream:
        assert "".join(stream.text_stream) == "abcdef"
        answer = stream.get_final_message()
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[2].input == {"city": "simulated"}
    assert (answer.stop_reason, answer.usage.output_tokens) == ("tool_use", 2 + 6 + 4)


@pytest.mark.parametrize(("status", "expected"), STATUS_CLASSES.items())
@pytest.mark.parametrize("stream", [True, False])
def test_error_before_the_stream(gateway, status, expected, stream):
    refusal = gateway.refusal(status)
    with (
        anthropic.Anthropic(base_url=gateway.base_url, api_key=refusal.key, max_retries=0) as client,
        pytest.raises(expected) as raised,
    ):
        client.messages.create(**asked(gateway, refusal.prompt) | {"model": refusal.model}, stream=stream)
    assert raised.value.status_code == status
    assert raised.value.type


@pytest.mark.parametrize("how", ["error", "cut"])
def test_failure_in_the_stream(client, gateway, how):
    events = []
    with pytest.raises(anthropic.APIStatusError) as raised:
        events.extend(client.messages.create(**asked(gateway, gateway.prompts[how]), stream=True))
    assert raised.value.status_code == 200
    assert raised.value.type in ("overloaded_error", "api_error")
    assert [event.type for event in events].count("content_block_delta") == 2


def test_keepalives_between_events(client, gateway):
    with client.messages.stream(**asked(gateway, gateway.prompts["keepalive"])) as stream:
        assert stream.get_final_text() == "abcdef"


def test_tokens_are_counted(client, gateway):
    talk = asked(gateway, "12345678")
    counted = client.messages.count_tokens(model=talk["model"], messages=talk["messages"])
    assert counted.input_tokens == 2
    more = client.beta.messages.count_tokens(model=talk["model"], messages=talk["messages"], system="1234", tools=TOOLS)
    assert more.input_tokens == 3


def test_tokens_are_estimated_where_no_channel_counts(client, gateway):
    messages = asked(gateway, "12345678")["messages"]
    raw = client.messages.with_raw_response.count_tokens(model="sim-elsewhere", messages=messages)
    assert raw.headers["x-hoptrio-estimated"] == "true"
    assert raw.parse().input_tokens > 2
