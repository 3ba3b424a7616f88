"""What providers really send (protocols page 11), for clients of other protocols."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.convert.carrier import unpack
from hoptrio.protocols.convert.naming import ToolName
from hoptrio.protocols.events import Kind
from tests.support.converting import (
    DIRECTIONS,
    GOLDEN,
    RESP,
    bodies,
    chat_chunk,
    convert_body,
    convert_stream,
    named,
    payloads,
    sse,
)
from tests.support.sdks import hear

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def chat(*deltas, finish="stop", done=True, **last):
    return sse([*(chat_chunk(delta) for delta in deltas), chat_chunk({}, finish, usage=USAGE, **last)], done=done)


def test_case_60_usage_on_the_finish_chunk():
    heard = hear("responses", convert_stream(chat({"content": "a"}), "chat", "responses").wire)
    assert heard.usage == (5, 0, 2, 0)


@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_case_24_a_clean_end_without_done_is_a_terminal(client):
    stream = convert_stream(chat({"content": "a"}, done=False), "chat", client)
    assert stream.complete
    assert not any(step.kind is Kind.TERMINAL for step in stream.steps)
    assert hear(client, stream.wire).text == "a"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_every_name_for_reasoning(name):
    stream = convert_stream(chat({name: "why"}, {"content": "a"}), "chat", "messages")
    assert hear("messages", stream.wire).reasoning == "why"


def test_reasoning_under_two_names_is_said_once():
    stream = convert_stream(chat({"reasoning": "why", "reasoning_content": "why"}), "chat", "responses")
    assert hear("responses", stream.wire).reasoning == "why"


def test_content_in_parts_of_thinking_and_text():
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}, {"type": "text", "text": "a"}]
    heard = hear("messages", convert_stream(chat({"content": thinking}), "chat", "messages").wire)
    assert (heard.reasoning, heard.text) == ("why", "a")


def test_a_message_in_place_of_a_delta():
    chunk = {"id": "x", "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}], "usage": USAGE}
    assert hear("responses", convert_stream(sse([chunk], done=True), "chat", "responses").wire).text == "a"


def call(arguments, **more):
    return {"function": {"name": more.pop("name", None), "arguments": arguments}, **more}


def test_calls_without_an_index():
    deltas = [[call('{"x":', id="a", name="f")], [call("1}")], [call("{}", id="b", name="g")]]
    stream = convert_stream(chat(*({"tool_calls": each} for each in deltas)), "chat", "messages")
    assert hear("messages", stream.wire).calls == [("f", {"x": 1}), ("g", {})]


def test_calls_that_share_an_index():
    deltas = [[call('{"x":1}', id="a", name="f", index=0)], [call("{}", id="b", name="g", index=0)]]
    stream = convert_stream(chat(*({"tool_calls": each} for each in deltas)), "chat", "responses")
    assert hear("responses", stream.wire).calls == [("f", {"x": 1}), ("g", {})]


def test_a_call_that_repeats_its_id_and_name_is_one():
    deltas = [[call('{"x":', id="a", name="f", index=0)], [call("1}", id="a", name="f", index=0)]]
    stream = convert_stream(chat(*({"tool_calls": each} for each in deltas)), "chat", "responses")
    assert hear("responses", stream.wire).calls == [("f", {"x": 1})]


def test_a_call_whose_name_comes_late():
    deltas = [[call('{"x":', id="a", index=0)], [call("1}", name="f", index=0)]]
    stream = convert_stream(chat(*({"tool_calls": each} for each in deltas)), "chat", "messages")
    assert hear("messages", stream.wire).calls == [("f", {"x": 1})]


def test_arguments_that_are_an_object_already():
    stream = convert_stream(chat({"tool_calls": [call({"x": 1}, id="a", name="f", index=0)]}), "chat", "gemini")
    assert hear("gemini", stream.wire).calls == [("f", {"x": 1})]


def test_the_old_function_call():
    stream = convert_stream(
        chat({"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"x":1}'}}),
        "chat",
        "messages",
    )
    assert hear("messages", stream.wire).calls == [("f", {"x": 1})]


@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
def test_a_character_cut_between_its_halves(client):
    raw = chat({"content": "a"}, {"content": "\ud83d"}, {"content": "\ude00b"}, {"content": "\ud83d"}, {"content": "c"})
    stream = convert_stream(raw, "chat", client)
    assert hear(client, stream.wire).text == "a😀b\ufffdc"


def test_a_character_of_an_argument_cut_between_its_halves():
    delta = {"type": "input_json_delta", "partial_json": '"\ud83d'}
    rest = {"type": "input_json_delta", "partial_json": '\ude00"}'}
    first = {"type": "input_json_delta", "partial_json": '{"x":'}
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        *({"type": "content_block_delta", "index": 0, "delta": each} for each in (first, delta, rest)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    assert hear("chat", convert_stream(named(events), "messages", "chat").wire).calls == [("f", {"x": "😀"})]


def test_a_stop_string_that_the_provider_names():
    chunk = chat_chunk({"content": "a"}, "stop", usage=USAGE)
    chunk["choices"][0]["stop_reason"] = "END"
    delta = payloads(convert_stream(sse([chunk], done=True), "chat", "messages").wire)[-2]["delta"]
    assert delta == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_case_92_no_string_of_a_provider_ends_a_line():
    evil = 'x\n\nevent: message_stop\ndata: {"type":"message_stop"}\r\n\r\n\u2028\x85'
    raw = chat(
        {"content": evil},
        {"reasoning_content": evil},
        {"refusal": evil},
        {"tool_calls": [call("{}", id=evil, name=evil, index=0)]},
        finish=evil,
    )
    for client in ("responses", "messages", "gemini"):
        stream = convert_stream(raw, "chat", client)
        assert b"\r" not in stream.wire
        assert hear(client, stream.wire).text.replace(evil, "") == ""


def test_responses_without_event_names():
    raw = b"\n\n".join(block.split(b"\n")[-1] for block in GOLDEN["responses"].split(b"\n\n"))
    assert hear("chat", convert_stream(raw, "responses", "chat").wire) == hear("responses", GOLDEN["responses"])


def responses(*items, status="completed", **more):
    response = RESP | {"status": status, "output": list(items), **more}
    counts = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return [{"type": "response.created", "response": RESP}], [
        {"type": f"response.{status}", "response": response | {"usage": counts}}
    ]


MESSAGE = {
    "type": "message",
    "id": "m1",
    "content": [{"type": "output_text", "text": "all at once", "annotations": []}],
}
CALL = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "f", "arguments": '{"x":1}'}


@pytest.mark.parametrize("client", ["chat", "messages", "gemini"])
def test_items_that_come_only_when_they_are_done(client):
    opening, closing = responses()
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in enumerate((MESSAGE, CALL))
    ]
    heard = hear(client, convert_stream(named([*opening, *done, *closing]), "responses", client).wire)
    assert (heard.text, heard.calls) == ("all at once", [("f", {"x": 1})])


@pytest.mark.parametrize("client", ["chat", "messages", "gemini"])
def test_items_that_come_only_in_the_terminal(client):
    opening, closing = responses(MESSAGE, CALL)
    heard = hear(client, convert_stream(named([*opening, *closing]), "responses", client).wire)
    assert (heard.text, heard.calls, heard.finish) == ("all at once", [("f", {"x": 1})], "tool_calls")


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "filtered")])
@pytest.mark.parametrize("client", ["chat", "messages", "gemini"])
def test_an_incomplete_response(client, reason, finish):
    opening, closing = responses(MESSAGE, status="incomplete", incomplete_details={"reason": reason})
    assert hear(client, convert_stream(named([*opening, *closing]), "responses", client).wire).finish == finish


def test_a_refusal_in_words():
    raw = chat({"refusal": "I will "}, {"refusal": "not."})
    response = payloads(convert_stream(raw, "chat", "responses").wire)[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I will not."}]
    heard = hear("messages", convert_stream(raw, "chat", "messages").wire)
    assert (heard.text, heard.finish) == ("I will not.", "filtered")


def test_a_citation_goes_where_both_have_one():
    cited = {"url": "https://a.example/", "title": "A", "start_index": 0, "end_index": 1}
    raw = chat({"content": "a"}, {"annotations": [{"type": "url_citation", "url_citation": cited}]})
    response = payloads(convert_stream(raw, "chat", "responses").wire)[-1]["response"]
    assert response["output"][0]["content"][0]["annotations"] == [{"type": "url_citation", **cited}]


CITED = {"type": "url_citation", "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 1}}
GROUNDED = {"groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}]}


def test_a_source_is_grounding_for_a_gemini_client_once():
    raw = chat({"content": "a", "annotations": [CITED]}, {"content": "b", "annotations": [CITED]})
    chunks = payloads(convert_stream(raw, "chat", "gemini").wire)
    found = [chunk["candidates"][0].get("groundingMetadata") for chunk in chunks]
    assert found == [None] * (len(chunks) - 1) + [GROUNDED]
    body = bodies()["chat"]
    body["choices"][0]["message"]["annotations"] = [CITED, CITED]
    candidate = json.loads(convert_body(body, "chat", "gemini").body)["candidates"][0]
    assert candidate["groundingMetadata"] == GROUNDED


def test_an_answer_without_sources_has_no_grounding():
    assert b"grounding" not in convert_stream(GOLDEN["chat"], "chat", "gemini").wire
    assert b"grounding" not in convert_body(bodies()["chat"], "chat", "gemini").body


def test_log_probabilities_go_where_both_have_them():
    token = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    chunk = chat_chunk({"content": "a"}, "stop", usage=USAGE)
    chunk["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    events = payloads(convert_stream(sse([chunk], done=True), "chat", "responses").wire)
    assert [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"] == [[token]]
    assert events[-1]["response"]["output"][0]["content"][0]["logprobs"] == [token]


@pytest.mark.parametrize(
    ("channel", "family", "token"), [("messages", "messages", "c2ln"), ("gemini", "gemini", "c2ln")]
)
def test_a_token_of_reasoning_travels_in_the_clients_own_slot(channel, family, token):
    events = payloads(convert_stream(GOLDEN[channel], channel, "responses").wire)
    items = events[-1]["response"]["output"]
    carried = [unpack(item["encrypted_content"]) for item in items if item["type"] == "reasoning"]
    assert [(each.family, each.token) for each in carried if each.token] == [(family, token)]


@pytest.mark.parametrize("channel", ["chat", "messages", "gemini"])
def test_reasoning_has_a_state_to_return_asked_for_or_not_since_its_id_can_be_looked_up_nowhere(channel):
    events = payloads(convert_stream(GOLDEN[channel], channel, "responses", body={}).wire)
    items = [item for item in events[-1]["response"]["output"] if item["type"] == "reasoning"]
    assert items
    assert all(unpack(item["encrypted_content"]) is not None for item in items)


def test_a_token_stands_at_the_call_for_a_gemini_client():
    for channel, token in (("messages", "c2ln"), ("responses", "AAAA")):
        chunks = payloads(convert_stream(GOLDEN[channel], channel, "gemini", body={}).wire)
        parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
        carried = unpack(next(part["thoughtSignature"] for part in parts if "thoughtSignature" in part))
        assert (carried.family, carried.token, carried.text) == (channel, token, "think")


def test_redacted_thinking_is_carried():
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": "zzz"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    response = payloads(convert_stream(named(events), "messages", "responses").wire)[-1]["response"]
    carried = unpack(response["output"][0]["encrypted_content"])
    assert (carried.token, carried.redacted) == ("zzz", True)
    assert response["output"][0]["summary"] == []


NAMES = {"shop__buy": ToolName("buy", "shop"), "patch": ToolName("patch", custom=True)}


def test_a_client_gets_its_own_tools_back():
    deltas = [
        [call("{}", id="a", name="shop__buy", index=0)],
        [call('{"input":"*** x"}', id="b", name="patch", index=1)],
    ]
    raw = chat(*({"tool_calls": each} for each in deltas))
    events = payloads(convert_stream(raw, "chat", "responses", names=NAMES).wire)
    bought, patched = events[-1]["response"]["output"]
    assert (bought["type"], bought["namespace"], bought["name"]) == ("function_call", "shop", "buy")
    assert (patched["type"], patched["name"], patched["input"]) == ("custom_tool_call", "patch", "*** x")
    assert [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"] == ["*** x"]


def test_gemini_arguments_in_pieces():
    pieces = [
        {"name": "f", "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.where.city", "stringValue": "Kö"}], "willContinue": True},
        {"partialArgs": [{"jsonPath": "$.where.city", "stringValue": "ln"}, {"jsonPath": "$.n[0]", "numberValue": 1}]},
    ]
    chunks = [{"candidates": [{"content": {"parts": [{"functionCall": each}]}}]} for each in pieces]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    heard = hear("responses", convert_stream(sse(chunks), "gemini", "responses").wire)
    assert heard.calls == [("f", {"where": {"city": "Köln"}, "n": [1]})]
    assert heard.ids[0].startswith("call_")


FAILURES = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "SOMETHING_NEW"]
each_failure = pytest.mark.parametrize("reason", FAILURES)


def failed(reason):
    """An answer that Gemini ends with one of its failures."""
    return {
        "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
    }


@each_failure
@pytest.mark.parametrize("client", ["responses", "messages"])
def test_a_failure_of_geminis_is_complete_and_evident_as_it_is_natively_and_says_that_something_is_missing(
    client, reason
):
    stream = convert_stream(sse([failed(reason)]), "gemini", client)
    heard = hear(client, stream.wire)
    assert (stream.complete, stream.reader.unconvertible) == (True, "")
    assert (heard.text, heard.finish, heard.usage) == ("a", "length", (5, 0, 2, 0))


@each_failure
@pytest.mark.parametrize("client", ["chat", "responses", "messages"])
def test_so_is_a_whole_answer(client, reason):
    converted = convert_body(failed(reason), "gemini", client)
    assert converted.unconvertible == ""
    assert LENGTH[client] in converted.body


LENGTH = {
    "chat": b'"finish_reason":"length"',
    "responses": b'"reason":"max_output_tokens"',
    "messages": b'"stop_reason":"max_tokens"',
    "gemini": b'"finishReason":"MAX_TOKENS"',
}
STOP = {
    "chat": b'"finish_reason":"stop"',
    "responses": b'"status":"completed"',
    "messages": b'"stop_reason":"end_turn"',
    "gemini": b'"finishReason":"STOP"',
}


@pytest.mark.parametrize(("channel", "client"), DIRECTIONS)
def test_no_reason_to_stop_makes_an_answer_useless(channel, client):
    body = bodies()[channel]
    place = {"chat": ["choices", 0], "gemini": ["candidates", 0], "messages": [], "responses": []}[channel]
    holder = body
    for step in place:
        holder = holder[step]
    name = {"chat": "finish_reason", "gemini": "finishReason", "messages": "stop_reason", "responses": "status"}
    for reason in ("error", "insufficient_system_resource", "gone fishing", "OTHER"):
        holder[name[channel]] = reason
        converted = convert_body(body, channel, client)
        assert converted.unconvertible == ""
        assert json.loads(converted.body)


@pytest.mark.parametrize("client", ["responses", "messages", "gemini"])
@pytest.mark.parametrize(
    ("reason", "end"), [("error", LENGTH), ("insufficient_system_resource", LENGTH), ("eos", STOP), ("new", STOP)]
)
def test_a_whole_chat_answer_that_a_provider_gave_up_is_not_all_and_any_other_word_is_a_stop(client, reason, end):
    body = bodies()["chat"]
    body["choices"][0] |= {"finish_reason": reason, "message": {"role": "assistant", "content": "a"}}
    assert end[client] in convert_body(body, "chat", client).body


def test_a_blocked_prompt_is_a_complete_answer():
    chunk = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5, "totalTokenCount": 5},
    }
    heard = hear("messages", convert_stream(sse([chunk]), "gemini", "messages").wire)
    assert (heard.text, heard.finish, heard.usage) == ("", "filtered", (5, 0, 0, 0))


@pytest.mark.parametrize("kind", [[], {}, ["message"], {"type": "message"}, 1, None])
@pytest.mark.parametrize("event", ["response.output_item.added", "response.output_item.done"])
@pytest.mark.parametrize("client", ["chat", "messages", "gemini"])
def test_an_item_whose_type_is_no_text_is_passed_over(client, event, kind):
    odd = named([{"type": event, "output_index": 9, "item": {"id": "i", "type": kind}}])
    stream = convert_stream(odd + GOLDEN["responses"], "responses", client)
    assert stream.complete
    assert hear(client, stream.wire).text == "Hello world"
