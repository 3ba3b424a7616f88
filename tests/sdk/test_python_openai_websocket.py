"""The official Python SDK openai, unmodified: `client.responses.connect()`, its WebSocket client."""

from __future__ import annotations

import asyncio

import openai
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = [
    pytest.mark.sdk,
    # The SDK enters what newer versions of its library want to be entered by a `with`.
    pytest.mark.filterwarnings(r"ignore:connect\(\) must be used as a context manager:DeprecationWarning"),
]

ABCDEF = "sim: text=abcdef events=6 pace=1ms input=50"
CALL = 'sim: events=0 tools=1 args=\'{"city":"Köln, Mitte"}\' pace=1ms'
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
ENDS = ("response.completed", "response.failed", "error")


def client_of(gateway, key=None):
    return openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=key or gateway.key, max_retries=0, timeout=20)


@pytest.fixture
def connection(gateway):
    with client_of(gateway) as client, client.responses.connect() as connection:
        yield connection


def turn(connection, **body):
    """The events of one turn."""
    connection.response.create(**body)
    events = []
    for event in connection:
        events.append(event)
        if event.type in ENDS:
            return events
    raise AssertionError("the connection ended")


def test_turns_follow_one_another_on_one_connection(connection, gateway):
    first = turn(connection, model=gateway.model, input=ABCDEF, store=False)
    assert "".join(event.delta for event in first if event.type == "response.output_text.delta") == "abcdef"
    assert first[-1].response.output_text == "abcdef"
    assert first[-1].response.usage.total_tokens == 56
    second = turn(connection, model=gateway.model, input=ABCDEF, previous_response_id=first[-1].response.id)
    assert second[-1].response.output_text == "abcdef"


def test_a_tool_is_called_and_its_result_continues_the_answer(connection, gateway):
    asked = turn(connection, model=gateway.model, input=CALL, tools=TOOLS, store=False)[-1].response
    (call,) = asked.output
    assert (call.name, call.arguments) == ("weather", '{"city":"Köln, Mitte"}')
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
    answer = turn(connection, model=gateway.model, input=[result], tools=TOOLS, previous_response_id=asked.id)
    assert answer[-1].type == "response.completed"


def test_a_prewarm_has_an_id_to_continue_from(connection, gateway):
    ready = turn(connection, model=gateway.model, input=[], generate=False)[-1].response
    assert (ready.status, ready.output, ready.usage.total_tokens) == ("completed", [], 0)
    assert turn(connection, model=gateway.model, input=ABCDEF, previous_response_id=ready.id)[-1].response.output_text


def test_lanes_are_told_apart(connection, gateway):
    for lane in ("one", "two"):
        connection.response.create(model=gateway.model, input=ABCDEF, stream_id=lane)
    ended = set()
    for event in connection:
        if event.type == "response.completed":
            ended.add(event.stream_id)
        if len(ended) == 2:
            break
    assert ended == {"one", "two"}


def test_refusals_are_events_and_the_connection_goes_on(connection, gateway):
    error = turn(connection, model="no-such-model", input="hello")[-1]
    assert (error.status, error.error.code, error.error.type) == (404, "model_not_found", "invalid_request_error")
    error = turn(connection, model=gateway.model, input="hello", previous_response_id="resp_never")[-1]
    assert (error.status, error.error.code) == (400, "previous_response_not_found")
    assert turn(connection, model=gateway.model, input=ABCDEF)[-1].type == "response.completed"


def test_steering_is_given_back(connection):
    connection.response.steer(previous_response_id="resp_never", input="left")
    event = connection.recv()
    assert (event.type, event.error.code, event.steer.input) == ("response.steer.failed", "response_not_found", "left")


def test_an_answer_that_breaks_off_is_a_failed_response(connection, gateway):
    failed = turn(connection, model=gateway.model, input=gateway.prompts["cut"])[-1]
    assert failed.type == "response.failed"
    assert failed.response.error.code == "server_error"


def test_a_wrong_key_is_refused_before_there_is_a_connection(gateway):
    with client_of(gateway, "sk-wrong") as client, pytest.raises(InvalidStatus) as refused:
        client.responses.connect().enter()
    assert refused.value.response.status_code == 401


def test_what_is_no_text_ends_the_connection(connection):
    connection._connection.send(b"binary")
    with pytest.raises(ConnectionClosed) as ended:
        connection._connection.recv()
    assert ended.value.rcvd.code == 1003


async def ask_asynchronously(gateway):
    client = openai.AsyncOpenAI(base_url=gateway.base_url + "/v1", api_key=gateway.key, max_retries=0)
    async with client, client.responses.connect() as connection:
        await connection.response.create(model=gateway.model, input=ABCDEF)
        async for event in connection:
            if event.type in ENDS:
                return event
    raise AssertionError("the connection ended")


def test_the_asynchronous_client_takes_a_turn(gateway):
    assert asyncio.run(ask_asynchronously(gateway)).response.output_text == "abcdef"
