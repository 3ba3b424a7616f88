"""Clients on channels of other protocols, through a whole gateway: what they get, what is charged, who is asked."""

from __future__ import annotations

import json

import pytest

from hoptrio.ledger.model import Probed
from hoptrio.protocols import convert
from hoptrio.protocols.convert.carrier import Carried, pack
from hoptrio.protocols.events import Protocol
from tests.support.converting import DIRECTIONS, GOLDEN, bodies
from tests.support.harness import BODIES, channels, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import SAMPLES

TOOL = {"type": "object", "properties": {"x": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": TOOL}}
#: What each client sends: a request with a tool.
ASKED = {
    "chat": {**BODIES["chat"], "tools": [CHAT_TOOL]},
    "responses": {**BODIES["responses"], "tools": [{"type": "function", "name": "f", "parameters": TOOL}]},
    "messages": {**BODIES["messages"], "tools": [{"name": "f", "input_schema": TOOL}]},
    "gemini": {**BODIES["gemini"], "tools": [{"functionDeclarations": [{"name": "f", "parameters": TOOL}]}]},
}
WHOLE = [
    (channel.value, client.value)
    for channel in Protocol
    for client in Protocol
    if convert.possible(client, channel, stream=False)
]
each_direction = pytest.mark.parametrize(("channel", "client"), DIRECTIONS)
each_whole = pytest.mark.parametrize(("channel", "client"), WHOLE)
#: One of each pair for what is the same in all directions.
some_directions = pytest.mark.parametrize(("channel", "client"), [("messages", "responses"), ("chat", "messages")])


def golden(protocol):
    """The golden stream of a provider, an event a piece."""
    return [block + b"\n\n" for block in GOLDEN[protocol].split(b"\n\n")[:-1]]


def on(*protocols, **changes):
    """A config whose one channel speaks these."""
    return channels("a", protocols=list(protocols), **changes)


def two(first, second, **changes):
    """A config with a channel `a` of the first protocol and `b` of the second; `changes` are of `b`."""
    made = [channels(name, protocols=[each])["channels"][name] for name, each in (("a", first), ("b", second))]
    return settings(channels={"a": made[0], "b": made[1] | changes})


def unstreamed(client):
    """A call that does not stream: body and path."""
    body = {name: value for name, value in ASKED[client].items() if name not in ("stream", "stream_options")}
    return body, ("/v1beta/models/m:generateContent" if client == "gemini" else None)


def told(response):
    """The events a client was sent, but for Chat's last."""
    return [json.loads(data) for data in response.data if data != b"[DONE]"]


def said(client, events):
    """The text and the tool calls, as (name, arguments), that a client's events amount to."""
    text, calls = "", {}
    for event in events:
        if client == "chat":
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for each in choice["delta"].get("tool_calls", ()):
                    call = calls.setdefault(each["index"], ["", ""])
                    call[0] += each["function"].get("name", "")
                    call[1] += each["function"]["arguments"]
        elif client == "responses":
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
            if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
                calls[event["output_index"]] = [event["item"]["name"], event["item"]["arguments"]]
        elif client == "messages":
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                calls[event["index"]] = [event["content_block"]["name"], ""]
            if event["type"] == "content_block_delta":
                text += event["delta"].get("text", "")
                if "partial_json" in event["delta"]:
                    calls[event["index"]][1] += event["delta"]["partial_json"]
        else:
            for part in event["candidates"][0].get("content", {}).get("parts", ()):
                text += "" if part.get("thought") else part.get("text", "")
                if call := part.get("functionCall"):
                    calls[len(calls)] = [call["name"], json.dumps(call["args"])]
    return text, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def said_whole(client, body):
    """The same of a whole answer."""
    if client == "chat":
        message = body["choices"][0]["message"]
        calls = [(each["function"]["name"], each["function"]["arguments"]) for each in message["tool_calls"]]
        text = message["content"]
    elif client == "responses":
        content = next(item for item in body["output"] if item["type"] == "message")["content"]
        text = content[0]["text"]
        calls = [(item["name"], item["arguments"]) for item in body["output"] if item["type"] == "function_call"]
    elif client == "messages":
        text = "".join(block.get("text", "") for block in body["content"])
        calls = [
            (block["name"], json.dumps(block["input"])) for block in body["content"] if block["type"] == "tool_use"
        ]
    else:
        return said("gemini", [body])
    return text, [(name, json.loads(arguments)) for name, arguments in calls]


def error_of(client, response):
    """The type or status of the last event, which is an error in the client's own shape."""
    event = json.loads(response.data[-1])
    if client == "responses":
        assert event["type"] == "response.failed"
        assert event["sequence_number"] == len(response.data) - 1
        return event["response"]["error"]["code"]
    if client == "messages":
        assert event["type"] == "error"
        return event["error"]["type"]
    return event["error"]["status" if client == "gemini" else "type"]


# -- what is sold -----------------------------------------------------------------------------------------------------


@each_direction
async def test_a_converted_stream_is_whole_and_costs_what_it_costs_natively(channel, client, autojump_clock):
    script = sse(*golden(channel))
    async with gateway(config=on(channel), hosts={"a": [script]}) as world:
        native = await world.record(await world.call(channel, ASKED[channel]))
        response = await world.call(client, ASKED[client])
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    assert (response.status, response.clean) == (200, True)
    calls = [("f", {"x": 1}), ("g", {})] if channel == "chat" else [("f", {"x": 1})]
    text = "Hello" if channel == "chat" else "Hello world"
    assert said(client, told(response)) == (text, calls)
    assert (response.data[-1] == b"[DONE]") == (client == "chat")
    assert (record.state, record.reason, record.evidence) == ("captured", None, "sse_terminal")
    assert (record.protocol, record.channel, record.attempts) == (client, "a", 1)
    assert native.charge_nanos > 0
    assert (record.charge_nanos, record.usage, record.raw_usage, record.flags) == (
        native.charge_nanos,
        native.usage,
        native.raw_usage,
        native.flags,
    )


@each_whole
async def test_a_converted_body_is_whole_and_costs_what_it_costs_natively(channel, client, autojump_clock):
    script = plain(200, json.dumps(bodies()[channel]).encode())
    async with gateway(config=on(channel), hosts={"a": [script]}) as world:
        own, path = unstreamed(channel)
        native = await world.record(await world.call(channel, own, path=path))
        body, path = unstreamed(client)
        response = await world.call(client, body, path=path)
        record = await world.record(response)
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert said_whole(client, response.json) == ("Hello world", [("f", {"x": 1})])
    assert (record.state, record.evidence, record.protocol) == ("captured", "json_body", client)
    assert (record.charge_nanos, record.usage) == (native.charge_nanos, native.usage)
    assert record.charge_nanos > 0


@each_direction
async def test_the_channel_is_asked_in_its_own_protocol_and_for_its_own_name_of_the_model(
    channel, client, autojump_clock
):
    config = on(channel, models=[{"name": "m", "upstream": "m-2026"}])
    async with gateway(config=config, hosts={"a": [sse(*golden(channel))]}) as world:
        response = await world.call(client, ASKED[client])
        (seen,) = world.hosts["a"].seen
    ways = {"chat": b"/v1/chat/completions", "responses": b"/v1/responses", "messages": b"/v1/messages"}
    line = seen.head.split(b"\r\n")[0]
    body = json.loads(seen.body)
    if channel == "gemini":
        assert b"/v1beta/models/m-2026:streamGenerateContent?alt=sse " in line
    else:
        assert ways[channel] + b" " in line
        assert (body["model"], body["stream"]) == ("m-2026", True)
    assert (b"anthropic-version" in seen.head.lower()) == (channel == "messages")
    assert b"m-2026" not in response.body


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("channel", ["responses", "messages"])
async def test_a_chat_client_has_a_usage_chunk_of_its_own_if_it_asked(channel, asked, autojump_clock):
    body = BODIES["chat"] | {"stream_options": {"include_usage": asked}}
    async with gateway(config=on(channel), contract="hopbase", hosts={"a": [sse(*golden(channel))]}) as world:
        response = await world.call("chat", body)
        assert (await world.record(response)).state == "captured"
    chunks = told(response)
    assert [chunk["usage"] is not None for chunk in chunks if not chunk["choices"]] == ([True] if asked else [])
    assert any("usage" in chunk for chunk in chunks) == asked


@pytest.mark.parametrize("channel", ["responses", "messages", "gemini"])
async def test_a_contract_that_wants_usage_asked_for_wants_it_whatever_channel_serves(channel, autojump_clock):
    body = {**BODIES["chat"], "stream_options": {}}
    async with gateway(config=on(channel), contract="anypath", hosts={"a": [sse(*golden(channel))]}) as world:
        response = await world.call("chat", body)
        assert not world.hosts["a"].seen
    assert (response.status, response.json["error"]["param"]) == (400, "stream_options.include_usage")


@pytest.mark.parametrize("include_usage", ["ask", "never"])
async def test_a_chat_channel_is_asked_for_usage_where_it_takes_that(include_usage, autojump_clock):
    config = on("chat", include_usage=include_usage)
    async with gateway(config=config, hosts={"a": [sse(*golden("chat"))]}) as world:
        await world.call("messages")
        (seen,) = world.hosts["a"].seen
    assert ("stream_options" in json.loads(seen.body)) == (include_usage == "ask")


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
async def test_a_chat_channel_gets_the_output_limit_in_its_own_spelling(client, field, autojump_clock):
    limits = {"messages": {"max_tokens": 77}, "responses": {"max_output_tokens": 77}}
    asked = BODIES[client] | limits.get(client, {"generationConfig": {"maxOutputTokens": 77}})
    async with gateway(config=on("chat", max_tokens_field=field), hosts={"a": [sse(*golden("chat"))]}) as world:
        assert (await world.record(await world.call(client, asked))).state == "captured"
        (seen,) = world.hosts["a"].seen
    limits = {name: value for name, value in json.loads(seen.body).items() if name.startswith("max_")}
    assert limits == {field: 77}


async def test_a_chat_client_keeps_its_own_spelling_on_a_chat_channel(autojump_clock):
    config = on("chat", max_tokens_field="max_completion_tokens")
    async with gateway(config=config, hosts={"a": [sse(*golden("chat"))]}) as world:
        await world.call("chat", BODIES["chat"] | {"max_tokens": 77})
        (seen,) = world.hosts["a"].seen
    assert (json.loads(seen.body)["max_tokens"], "max_completion_tokens" in json.loads(seen.body)) == (77, False)


async def test_each_channel_of_several_attempts_has_its_own_spelling(autojump_clock):
    config = two("chat", "chat", max_tokens_field="max_completion_tokens")
    config["channels"]["a"] |= {"priority": 1}
    hosts = {"a": [sse(Cut(), end=False)], "b": [sse(*golden("chat"))]}
    async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
        assert (await world.record(await world.call("messages"))).attempts == 2
        [first], [second] = world.hosts["a"].seen, world.hosts["b"].seen
    assert "max_tokens" in json.loads(first.body)
    assert "max_completion_tokens" in json.loads(second.body)


# -- failures ---------------------------------------------------------------------------------------------------------

FAILURES = {
    "truncated": lambda sample: sse(*sample.opening, *sample.answer, Cut(), end=False),
    "stalled": lambda sample: sse(*sample.opening, *sample.answer, Hang()),
    "provider_error": lambda sample: sse(*sample.opening, *sample.answer, sample.error),
}
ERRORS = {
    ("responses", "truncated"): "server_error",
    ("responses", "stalled"): "server_error",
    ("responses", "provider_error"): "server_error",
    ("messages", "truncated"): "api_error",
    ("messages", "stalled"): "timeout_error",
    ("messages", "provider_error"): "api_error",
}


@some_directions
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("mode", ["event", "event_abort", "truncate"])
async def test_a_failure_after_output_is_told_once_in_the_clients_words(channel, client, failure, mode, autojump_clock):
    config = on(channel)
    config["contracts"] = {"mine": {"preset": "hoptrio", "failure": mode}}
    script = FAILURES[failure](SAMPLES[channel])
    async with gateway(config=config, contract="mine", hosts={"a": [script]}) as world:
        response = await world.call(client)
        record = await world.record(response)
        account = await world.ledger.account("acme")
    assert response.status == 200
    assert (record.state, record.reason, record.charge_nanos, account.held_nanos) == ("released", failure, 0, 0)
    assert response.clean == (mode == "event")
    if mode == "truncate":
        assert b"error" not in response.data[-1]
    else:
        assert error_of(client, response) == ERRORS[client, failure]
        assert sum(b'"error":{' in data for data in response.data) == 1


@some_directions
@pytest.mark.parametrize("contract", ["hopbase", "anypath", "hoptrio"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_providers_refusal_keeps_its_status_in_the_clients_shape(
    channel, client, contract, stream, autojump_clock
):
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing", "code": None}}
    script = plain(400, json.dumps(error).encode())
    body = BODIES[client] | {"stream": stream}
    async with gateway(config=on(channel), contract=contract, hosts={"a": [script]}) as world:
        response = await world.call(client, body)
        record = await world.record(response)
    assert response.status == 400
    assert response.json["error"]["message"] == "no such thing"
    assert ("param" in response.json["error"]) == (client != "messages")
    assert (record.state, record.reason) == ("released", "provider_error")


@some_directions
async def test_an_error_in_the_first_event_is_a_status(channel, client, autojump_clock):
    async with gateway(config=on(channel), hosts={"a": [sse(SAMPLES[channel].error)]}) as world:
        response = await world.call(client)
    assert response.status >= 500
    assert response.headers["content-type"] == "application/json"


@each_direction
async def test_output_without_its_end_is_charged_by_the_channels_own_reports_or_not_at_all(
    channel, client, autojump_clock
):
    """Under `interrupted = charge` what the provider reported counts, as natively."""
    sample = SAMPLES[channel]
    script = sse(*sample.opening, *sample.answer, Cut(), end=False)
    config = on(channel)
    config["contracts"] = {"mine": {"preset": "hoptrio", "interrupted": "charge"}}
    async with gateway(config=config, contract="mine", hosts={"a": [script]}) as world:
        native = await world.record(await world.call(channel))
        record = await world.record(await world.call(client))
    assert record.reason == native.reason == "truncated"
    assert (record.state, record.usage) == (native.state, native.usage)


@pytest.mark.parametrize("interrupted", ["charge", "release"])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_the_client_cannot_be_told_is_released(stream, interrupted, autojump_clock):
    """Messages has no place for sound."""
    part = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    chunk = {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
    done = json.loads(SAMPLES["gemini"].terminal[0][6:])
    if stream:
        script = sse(*(b"data: " + json.dumps(each).encode() + b"\n\n" for each in (chunk, done)))
    else:
        chunk["candidates"][0]["finishReason"] = "STOP"
        script = plain(200, json.dumps(chunk | {"usageMetadata": done["usageMetadata"]}).encode())
    config = on("gemini")
    config["contracts"] = {"mine": {"preset": "hoptrio", "interrupted": interrupted}}
    async with gateway(config=config, contract="mine", hosts={"a": [script]}) as world:
        response = await world.call("messages", BODIES["messages"] | {"stream": stream})
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    assert (record.state, record.reason, record.charge_nanos) == ("released", "unconvertible", 0)
    if stream:
        assert (response.status, response.clean, error_of("messages", response)) == (200, False, "api_error")
    else:
        assert (response.status, response.json["error"]["type"]) == (502, "api_error")


# -- while it waits ---------------------------------------------------------------------------------------------------


@each_direction
async def test_keepalives_are_the_clients(channel, client, autojump_clock):
    first, *rest = golden(channel)
    async with gateway(config=on(channel), hosts={"a": [sse(first, Pause(25), *rest)]}) as world:
        response = await world.call(client, ASKED[client])
        assert (await world.record(response)).state == "captured"
    assert response.clean
    comments = [block for block in response.blocks if block.startswith(b":")]
    assert len(comments) == (0 if client == "gemini" else 2)
    assert len(response.keepalives) == len(comments)


# -- attempts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [("messages", "chat"), ("chat", "messages")])
async def test_a_failed_attempt_is_mended_by_a_channel_of_another_protocol(first, second, autojump_clock):
    """Nothing of the first is seen, and the second's evidence is read in its own protocol."""
    hosts = {"a": [sse(*SAMPLES[first].opening, Cut(), end=False)], "b": [sse(*golden(second))]}
    async with gateway(config=two(first, second), contract="hopbase", hosts=hosts) as world:
        response = await world.call("messages", ASKED["messages"])
        if second == "messages":
            # The native channel was asked first, and that was enough.
            assert not world.hosts["a"].seen
            return
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    assert (response.status, response.clean) == (200, True)
    assert said("messages", told(response)) == ("Hello", [("f", {"x": 1}), ("g", {})])
    assert [event["type"] for event in told(response)].count("message_start") == 1
    assert (record.state, record.channel, record.attempts) == ("captured", "b", 2)
    assert json.loads(record.raw_usage)["prompt_tokens"] == 5


async def test_the_hold_covers_the_largest_body(autojump_clock):
    """Whatever channel an attempt goes to."""

    async def held(config, hosts):
        async with gateway(config=config, contract="hopbase", hosts=hosts) as world:
            return (await world.record(await world.call("messages", ASKED["messages"]))).hold_nanos

    whole = {each: [sse(*golden(each))] for each in ("chat", "messages")}
    alone = [await held(on(each), {"a": whole[each]}) for each in whole]
    both = await held(two("messages", "chat"), {"a": whole["messages"], "b": whole["chat"]})
    assert alone[0] != alone[1]
    assert both == max(alone)


# -- routing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "asked"), [(0, "a"), (1, "b")])
async def test_the_clients_own_protocol_comes_first_within_a_priority(priority, asked, autojump_clock):
    config = two("messages", "chat", priority=priority)
    hosts = {"a": [sse(*golden("messages"))], "b": [sse(*golden("chat"))]}
    async with gateway(config=config, hosts=hosts) as world:
        for _ in range(3):
            await world.call("messages")
        assert {host for host, each in world.hosts.items() if each.seen} == {asked}


async def test_a_channel_of_several_protocols_is_asked_in_the_nearest_that_can_say_it(autojump_clock):
    """Responses has no stop sequences."""
    async with gateway(config=on("responses", "messages"), hosts={"a": [sse(*golden("responses"))]}) as world:
        await world.call("chat")
        await world.call("chat", BODIES["chat"] | {"stop": ["x"]})
        first, second = world.hosts["a"].seen
    assert b"/responses " in first.head
    assert b"/messages " in second.head


async def test_a_request_that_one_channel_cannot_be_told_goes_to_another(autojump_clock):
    hosts = {"a": [sse(*golden("responses"))], "b": [sse(*golden("messages"))]}
    async with gateway(config=two("responses", "messages"), hosts=hosts) as world:
        for _ in range(3):
            response = await world.call("chat", BODIES["chat"] | {"stop": ["x"]})
            assert response.status == 200
        assert [len(each.seen) for each in world.hosts.values()] == [0, 3]


@pytest.mark.parametrize(
    ("channel", "client", "more", "param"),
    [
        ("messages", "chat", {"presence_penalty": 1}, "presence_penalty"),
        ("responses", "chat", {"stop": ["x"]}, "stop"),
        ("chat", "messages", {"container": "c"}, "container"),
        ("gemini", "chat", {}, "stream"),
    ],
)
async def test_what_no_channel_can_be_told_is_a_400_that_names_it(channel, client, more, param, autojump_clock):
    async with gateway(config=on(channel), hosts={"a": [sse(*golden(channel))]}) as world:
        response = await world.call(client, BODIES[client] | more)
        record = await world.record(response)
        assert not world.hosts["a"].seen
    assert response.status == 400
    assert param in response.json["error"]["message"]
    if client == "chat":
        assert response.json["error"]["param"] == param
    assert (record.state, record.hold_nanos) == ("refused", 0)


async def test_a_retry_is_told_where_a_native_channel_need_only_be_waited_for(autojump_clock):
    """Else the request itself must change."""
    config = two("chat", "messages")
    error = b'{"error": {"message": "slow"}}'
    head = b"HTTP/1.1 429 X\r\ncontent-type: application/json\r\nretry-after: 20\r\ncontent-length: %d\r\n\r\n"
    limited = [head % len(error) + error]
    async with gateway(config=config, hosts={"a": [limited], "b": [sse(*golden("messages"))]}) as world:
        body = BODIES["chat"] | {"presence_penalty": 1}
        assert (await world.call("chat", body)).status == 429
        response = await world.call("chat", body)
        assert (response.status, "retry-after" in response.headers) == (503, True)
        assert (await world.call("chat")).status == 200
        assert len(world.hosts["b"].seen) == 1


async def test_a_channel_is_certified_for_its_own_protocol(autojump_clock):
    async with gateway(config=on("messages"), certified=False, hosts={"a": [sse(*golden("messages"))]}) as world:
        response = await world.call("chat")
        assert (response.status, response.json["error"]["code"]) == (503, "model_unavailable")
        assert not world.hosts["a"].seen


async def test_what_is_odd_about_a_converted_stream_is_held_against_the_channels_own_protocol(autojump_clock):
    sample = SAMPLES["messages"]
    silent = [event.replace(b'"output_tokens":7', b'"output_tokens":-1') for event in sample.events]
    async with gateway(config=on("messages"), hosts={"a": [sse(*silent)]}) as world:
        for _ in range(10):
            assert (await world.record(await world.call("chat"))).reason == "no_evidence"
        suspects = world.gateway.suspicion.suspects
        assert [suspects(Probed("a", "m", each)) for each in ("chat", "messages")] == [False, True]


@pytest.mark.parametrize("channel", ["chat", "gemini"])
async def test_gemini_clients_stay_a_404_where_the_contract_does_not_offer_it(channel, autojump_clock):
    async with gateway(config=on(channel), contract="hopbase", hosts={"a": [sse(*golden(channel))]}) as world:
        assert (await world.call("gemini")).status == 404


# -- from turn to turn ------------------------------------------------------------------------------------------------


async def test_the_id_of_a_converted_response_cannot_be_referred_to(autojump_clock):
    async with gateway(config=on("chat"), hosts={"a": [sse(*golden("chat"))]}) as world:
        response_id = told(await world.call("responses"))[-1]["response"]["id"]
        response = await world.call("responses", BODIES["responses"] | {"previous_response_id": response_id})
    assert response.status == 404


async def test_a_response_of_a_channel_that_no_longer_speaks_the_protocol_is_named_in_the_400(autojump_clock):
    async with gateway(config=on("responses"), hosts={"a": [sse(*golden("responses"))]}) as world:
        await world.call("responses")
        world.gateway.catalogue = await _catalogue(on("chat"))
        response = await world.call("responses", BODIES["responses"] | {"previous_response_id": "resp_1"})
    assert (response.status, response.json["error"]["param"]) == (400, "previous_response_id")


async def _catalogue(config):
    async with gateway(config=config) as world:
        return world.gateway.catalogue


async def test_reasoning_of_a_converted_turn_does_not_reach_a_native_channel(autojump_clock):
    box = pack(Carried(Protocol.RESPONSES, "token"))
    turn = {"role": "assistant", "content": [{"type": "thinking", "thinking": "so", "signature": box}]}
    turn["content"].append({"type": "text", "text": "hi"})
    body = BODIES["messages"] | {"messages": [*BODIES["messages"]["messages"], turn, {"role": "user", "content": "?"}]}
    async with gateway(config=on("messages"), hosts={"a": [sse(*golden("messages"))]}) as world:
        assert (await world.call("messages", body)).status == 200
        (seen,) = world.hosts["a"].seen
    assert [block["type"] for block in json.loads(seen.body)["messages"][1]["content"]] == ["text"]


@pytest.mark.parametrize(("channel", "dropped"), [("responses", None), ("chat", "web_search")])
async def test_a_hosted_tool_that_the_channel_is_not_told_of_is_named_in_a_header(channel, dropped, autojump_clock):
    config = on(channel)
    config["models"]["m"] = config["models"]["m"] | {"tools": {"web_search": "0.01"}}
    body = BODIES["responses"] | {"tools": [{"type": "web_search"}]}
    async with gateway(config=config, hosts={"a": [sse(*golden(channel))]}) as world:
        response = await world.call("responses", body)
        (seen,) = world.hosts["a"].seen
    assert response.status == 200
    assert response.headers.get("x-hoptrio-dropped-tools") == dropped
    assert (b"web_search" in seen.body) == (dropped is None)


async def test_an_error_in_a_plain_body_costs_the_usage_beside_it_for_any_client(autojump_clock):
    config = on("responses") | {"contracts": {"c": {"preset": "hoptrio", "interrupted": "charge"}}}
    sample = SAMPLES["responses"]
    given_up = {**sample.body, "status": "failed", "error": {"code": "server_error", "message": "boom"}}
    async with gateway(plain(200, json.dumps(given_up).encode()), config=config, contract="c") as world:
        body, path = unstreamed("messages")
        response = await world.call("messages", body, path=path)
        record = await world.record(response)
    assert (response.status, response.json["type"]) == (502, "error")
    assert (record.state, record.reason, record.evidence) == ("captured", "provider_error", "partial")
    assert record.charge_nanos == sample.charge_nanos
