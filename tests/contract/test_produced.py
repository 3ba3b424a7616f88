"""The contract page's "Charge produced": what each end costs under ``interrupted = "charge"``, end to end.

The token counts of the texts in here were written down from another tokenizer of the same vocabulary.
"""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.contract import Reason
from tests.contract.test_cells import call_plain, strip_usage
from tests.support.harness import CHAT_SILENT, PRICES, gateway, settings
from tests.support.provider import Cut, Hang, Pause, plain, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data, named

#: What is charged, in all four protocols; the deadline comes soon.
CONTRACTS = {
    "charge": {"preset": "hoptrio", "interrupted": "charge"},
    "hurry": {"preset": "hoptrio", "interrupted": "charge", "stall": False, "deadline_seconds": 20},
}
CONFIG = settings(contracts=CONTRACTS)
each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)

TOKENS = {
    "hi": 1,
    "Hello": 1,
    "Hello!": 2,
    "fox": 1,
    "weather": 1,
    '{"city":"Par': 4,
    "Let me think about the weather.": 7,
    "It is sunny.": 4,
    "What is the weather in Paris?": 7,
    "You are terse.": 4,
    '[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]': 19,
    "你好世界😀": 3,
}
#: The input that each sample reports in its opening, None if it does not.
REPORTED = {"chat": None, "responses": None, "messages": 5, "gemini": None}


def nanos(input_tokens, output_tokens):
    return 1_000 * input_tokens + 2_000 * output_tokens


def said_hello(sample):
    """What "Hello" in answer to "hi" costs; only Messages reports its input early."""
    return nanos(REPORTED[sample.kind] or TOKENS["hi"], TOKENS["Hello"])


async def ended(script, sample=CHAT, *, body=None, contract="charge", config=CONFIG):
    """The record of one call."""
    async with gateway(script, config=config, contract=contract) as world:
        await world.call(sample.kind, body)
        record = await world.only_record()
        assert (await world.ledger.audit()).ok
    assert record.charge_nanos <= record.hold_nanos
    return record


# -- every row of the table --------------------------------------------------------------------------------------------


@each_sample
async def test_truncated(sample, autojump_clock):
    record = await ended(sse(*sample.opening, *sample.answer, Cut(), end=False), sample)
    assert (record.state, record.reason, record.evidence) == ("captured", "truncated", "estimated")
    assert record.charge_nanos == said_hello(sample)


@each_sample
async def test_stalled(sample, autojump_clock):
    record = await ended(sse(*sample.opening, *sample.answer, Hang()), sample)
    assert (record.state, record.reason, record.evidence) == ("captured", "stalled", "estimated")
    assert record.charge_nanos == said_hello(sample)


@each_sample
async def test_deadline(sample, autojump_clock):
    record = await ended(sse(*sample.opening, *sample.answer, Hang()), sample, contract="hurry")
    assert (record.state, record.reason, record.evidence) == ("captured", "deadline", "estimated")
    assert record.charge_nanos == said_hello(sample)


@each_sample
async def test_the_providers_error_event(sample, autojump_clock):
    record = await ended(sse(*sample.opening, *sample.answer, sample.error), sample)
    assert (record.state, record.reason, record.evidence) == ("captured", "provider_error", "estimated")
    assert record.charge_nanos == said_hello(sample)


@each_sample
async def test_shutdown(sample, autojump_clock):
    async with gateway(sse(*sample.opening, *sample.answer, Hang()), config=CONFIG, contract="charge") as world:
        client = await world.start(sample.kind)
        await trio.sleep(1)
        world.gateway.registry.stop_all(Reason.SHUTDOWN)
        await client.read()
        record = await world.only_record()
    assert (record.state, record.reason, record.evidence) == ("captured", "shutdown", "estimated")
    assert record.charge_nanos == said_hello(sample)


@each_sample
async def test_no_evidence_of_a_stream(sample, autojump_clock):
    record = await ended(sse(*map(strip_usage, sample.events)), sample)
    assert (record.state, record.reason, record.evidence) == ("captured", "no_evidence", "estimated")
    text = "Hello!" if sample is GEMINI else "Hello"
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS[text])


@each_sample
async def test_no_evidence_of_a_plain_body(sample, autojump_clock):
    body = {name: value for name, value in sample.body.items() if not name.startswith("usage")}
    async with gateway(plain(200, json.dumps(body).encode()), config=CONFIG, contract="charge") as world:
        response = await call_plain(world, sample)
        record = await world.record(response)
    assert (response.status, response.json) == (200, body)
    assert (record.state, record.reason, record.evidence) == ("captured", "no_evidence", "estimated")
    text = "Hello!" if sample is GEMINI else "Hello"
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS[text])


async def test_a_plain_body_that_reports_its_input_alone(autojump_clock):
    body = {**MESSAGES.body, "usage": {"input_tokens": 5}}
    async with gateway(plain(200, json.dumps(body).encode()), config=CONFIG, contract="charge") as world:
        record = await world.record(await call_plain(world, MESSAGES))
    assert (record.evidence, record.charge_nanos) == ("estimated", nanos(5, TOKENS["Hello"]))
    assert json.loads(record.raw_usage) == {"input_tokens": 5}


@pytest.mark.parametrize("body", [{}, {"id": "x", "choices": []}, {"id": "x", "choices": None}], ids=str)
async def test_a_plain_body_without_any_answer_is_a_release(body, autojump_clock):
    async with gateway(plain(200, json.dumps(body).encode()), config=CONFIG, contract="charge") as world:
        record = await world.record(await call_plain(world, CHAT))
    assert (record.state, record.evidence, record.charge_nanos) == ("released", "none", 0)


#: What a provider writes beside a whole answer that it gave up.
GAVE_UP = {
    "chat": {"error": {"message": "boom", "code": 500}},
    "responses": {"status": "failed", "error": {"code": "server_error", "message": "boom"}},
    "messages": {"error": {"type": "api_error", "message": "boom"}},
    "gemini": {"error": {"code": 500, "message": "boom", "status": "INTERNAL"}},
}


async def failed_whole(sample, *, contract="charge", **changes):
    """What a client got, and the record, of a whole answer with an error in it."""
    body = {**sample.body, **GAVE_UP[sample.kind], **changes}
    body = {name: value for name, value in body.items() if value is not None}
    async with gateway(plain(200, json.dumps(body).encode()), config=CONFIG, contract=contract) as world:
        response = await call_plain(world, sample)
        record = await world.record(response)
        assert (await world.ledger.audit()).ok
    return response, record


@each_sample
async def test_an_error_in_a_plain_body_costs_the_usage_beside_it(sample, autojump_clock):
    response, record = await failed_whole(sample)
    assert response.status == 502
    assert b"Hello" not in response.body
    assert (record.state, record.reason, record.evidence) == ("captured", "provider_error", "partial")
    assert record.charge_nanos == sample.charge_nanos
    assert json.loads(record.raw_usage) == sample.body.get("usage", sample.body.get("usageMetadata"))


@each_sample
async def test_an_error_in_a_plain_body_without_usage_costs_what_was_said(sample, autojump_clock):
    response, record = await failed_whole(sample, usage=None, usageMetadata=None)
    assert response.status == 502
    assert (record.state, record.reason, record.evidence) == ("captured", "provider_error", "estimated")
    text = "Hello!" if sample is GEMINI else "Hello"
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS[text])


@each_sample
async def test_an_error_in_a_plain_body_is_a_release_where_nothing_is_charged(sample, autojump_clock):
    response, record = await failed_whole(sample, contract="hoptrio")
    assert response.status == 502
    assert (record.state, record.reason, record.charge_nanos) == ("released", "provider_error", 0)


@pytest.mark.parametrize(("sample", "answer"), [(CHAT, "choices"), (RESPONSES, "output"), (GEMINI, "candidates")])
async def test_an_error_in_place_of_a_plain_answer_is_a_release_whatever_was_reported(sample, answer, autojump_clock):
    response, record = await failed_whole(sample, **{answer: []})
    assert response.status == 502
    assert (record.state, record.evidence, record.charge_nanos) == ("released", "none", 0)


@pytest.mark.parametrize(
    "changes", [{"status": "incomplete"}, {"status": "cancelled"}, {"status": "cancelled", "error": None}], ids=str
)
async def test_a_response_that_is_not_completed_and_has_an_error_costs_its_usage(changes, autojump_clock):
    response, record = await failed_whole(RESPONSES, **changes)
    assert response.status == 502
    assert (record.state, record.reason, record.evidence) == ("captured", "provider_error", "partial")
    assert record.charge_nanos == RESPONSES.charge_nanos


async def test_a_plain_body_that_reports_its_output_alone_is_not_measured_as_well(autojump_clock):
    body = {**MESSAGES.body, "usage": {"output_tokens": 7}}
    async with gateway(plain(200, json.dumps(body).encode()), config=CONFIG, contract="charge") as world:
        record = await world.record(await call_plain(world, MESSAGES))
    assert (record.evidence, record.charge_nanos) == ("estimated", nanos(TOKENS["hi"], 7))


@each_sample
async def test_no_event_of_the_answer_is_a_release_whatever_was_reported(sample, autojump_clock):
    record = await ended(sse(*sample.opening, Cut(), end=False), sample)
    assert (record.state, record.evidence, record.charge_nanos) == ("released", "none", 0)


@each_sample
async def test_an_error_as_the_first_event_is_a_release(sample, autojump_clock):
    record = await ended(sse(*sample.opening, sample.error), sample)
    assert (record.state, record.evidence, record.charge_nanos) == ("released", "none", 0)


RELEASES = {
    "provider's status": (plain(500, b"{}"), "provider_error"),
    "no head": ([Hang()], "header_timeout"),
    "half a body": ([plain(200, json.dumps(CHAT.body).encode())[0][:-10], Cut()], "truncated"),
}


@pytest.mark.parametrize("name", RELEASES)
async def test_before_the_answer_nobody_pays(name, autojump_clock):
    script, reason = RELEASES[name]
    async with gateway(script, config=CONFIG, contract="hurry") as world:
        record = await world.record(await call_plain(world, CHAT))
    assert (record.state, record.reason, record.charge_nanos) == ("released", reason, 0)


async def test_our_own_failures_are_never_charged(autojump_clock, monkeypatch):
    big = b"data: " + b"x" * (17 * 1024 * 1024)
    record = await ended(sse(*CHAT.opening, *CHAT.answer, big))
    assert (record.state, record.reason, record.charge_nanos) == ("released", "event_too_large", 0)

    def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("hoptrio.stream.produced.Produced.take", broken)
    record = await ended(sse(*CHAT.events))
    assert (record.state, record.reason, record.charge_nanos) == ("released", "internal", 0)


async def test_a_connection_that_was_never_made_is_a_release(autojump_clock):
    async with gateway([], config=CONFIG, contract="charge") as world:
        world.provider.connect_s = None
        record = await world.record(await world.call("chat"))
    assert (record.state, record.charge_nanos) == ("released", 0)


@each_sample
async def test_a_whole_answer_costs_what_its_evidence_says(sample, autojump_clock):
    record = await ended(sse(*sample.events), sample)
    assert (record.evidence, record.charge_nanos) == ("sse_terminal", sample.charge_nanos)


@each_sample
async def test_a_client_that_left_pays_for_what_it_did_not_see(sample, autojump_clock):
    script = sse(*sample.opening, sample.answer[0], Pause(5), *sample.answer[1:], Pause(5), Cut(), end=False)
    async with gateway(script, config=CONFIG, contract="charge") as world:
        client = await world.start(sample.kind)
        await trio.sleep(2)
        await client.leave()
        await trio.sleep(30)
        record = await world.only_record()
    assert (record.state, record.charge_nanos) == ("captured", said_hello(sample))


# -- the provider's own numbers ----------------------------------------------------------------------------------------


def chat(delta, **more):
    return data({"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more})


def chat_usage(inputs, output):
    return {"usage": {"prompt_tokens": inputs, "completion_tokens": output, "total_tokens": inputs + output}}


def gemini(*parts, **usage):
    counts = {"usageMetadata": usage} if usage else {}
    return data({"candidates": [{"index": 0, "content": {"parts": list(parts)}}], **counts})


async def test_running_usage_of_a_chat_server_beats_any_estimate(autojump_clock):
    events = [chat({"content": "Hello"}, **chat_usage(20, 30)), chat({"content": " fox"}, **chat_usage(20, 31))]
    record = await ended(sse(*CHAT.opening, *events, Cut(), end=False))
    assert (record.state, record.evidence, record.charge_nanos) == ("captured", "partial", nanos(20, 31))


async def test_geminis_cumulative_usage_beats_any_estimate(autojump_clock):
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 8, "totalTokenCount": 20}
    record = await ended(sse(gemini({"text": "Hello"}, **counts), Cut(), end=False), GEMINI)
    assert (record.evidence, record.charge_nanos) == ("partial", nanos(9, 11))
    assert json.loads(record.raw_usage) == counts


async def test_geminis_usage_before_its_error_is_charged(autojump_clock):
    counts = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    record = await ended(sse(gemini({"text": "Hello"}, **counts), GEMINI.error), GEMINI)
    assert (record.reason, record.evidence, record.charge_nanos) == ("provider_error", "partial", nanos(9, 3))


async def test_a_message_delta_is_the_whole_output(autojump_clock):
    record = await ended(sse(*MESSAGES.opening, *MESSAGES.answer, *MESSAGES.closing, Cut(), end=False), MESSAGES)
    assert (record.reason, record.evidence, record.charge_nanos) == ("truncated", "partial", nanos(5, 7))


async def test_cached_input_of_a_message_start_keeps_its_price(autojump_clock):
    config = settings(models={"m": PRICES | {"cached_input": "0.1"}}, contracts=CONTRACTS)
    usage = b'"input_tokens":5,"cache_read_input_tokens":40'
    start = MESSAGES.opening[0].replace(b'"input_tokens":5', usage)
    record = await ended(sse(start, *MESSAGES.answer, Cut(), end=False), MESSAGES, config=config)
    assert record.charge_nanos == nanos(5, TOKENS["Hello"]) + 40 * 100


async def test_what_is_said_after_the_last_report_is_measured_and_added(autojump_clock):
    events = [chat({"content": "Hello"}, **chat_usage(20, 30)), chat({"content": "fox"})]
    record = await ended(sse(*CHAT.opening, *events, Cut(), end=False))
    assert (record.evidence, record.charge_nanos) == ("estimated", nanos(20, 30 + TOKENS["fox"]))
    assert "mismatch" not in record.flags


async def test_input_that_was_reported_is_never_measured(autojump_clock):
    event = chat({"content": "Hello"}, **chat_usage(20, 0))
    record = await ended(sse(*CHAT.opening, event, Cut(), end=False))
    assert (record.evidence, record.charge_nanos) == ("estimated", nanos(20, TOKENS["Hello"]))


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": -1, "completion_tokens": 3}, "much", None], ids=str)
async def test_invalid_usage_is_missing_usage(usage, autojump_clock):
    record = await ended(sse(*CHAT.opening, *CHAT.answer, data({"choices": [], "usage": usage}), *CHAT.terminal))
    assert (record.evidence, record.charge_nanos) == ("estimated", nanos(TOKENS["hi"], TOKENS["Hello"]))


# -- what counts as produced -------------------------------------------------------------------------------------------


def tool_call(**function):
    return {"tool_calls": [{"index": 0, "function": function}]}


def item(kind, **members):
    return named({"type": f"response.{kind}", "output_index": 0, **members})


CUT_IN_A_TOOL_CALL = {
    "chat": [chat(tool_call(name="weather", arguments="")), chat(tool_call(arguments='{"city"')),
             chat(tool_call(arguments=':"Par'))],
    "responses": [
        item("output_item.added", item={"type": "function_call", "id": "fc_1", "name": "weather", "arguments": ""}),
        item("function_call_arguments.delta", item_id="fc_1", delta='{"city"'),
        item("function_call_arguments.delta", item_id="fc_1", delta=':"Par'),
    ],
    "messages": [
        MESSAGES.opening[0],
        named({"type": "content_block_start", "index": 0,
               "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}}),
        named({"type": "content_block_delta", "index": 0,
               "delta": {"type": "input_json_delta", "partial_json": '{"city"'}}),
        named({"type": "content_block_delta", "index": 0,
               "delta": {"type": "input_json_delta", "partial_json": ':"Par'}}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", CUT_IN_A_TOOL_CALL)
async def test_cut_in_the_middle_of_a_tool_call(kind, autojump_clock):
    record = await ended(sse(*CUT_IN_A_TOOL_CALL[kind], Cut(), end=False), SAMPLES[kind])
    output = TOKENS["weather"] + TOKENS['{"city":"Par']
    assert record.charge_nanos == nanos(REPORTED[kind] or 1, output)


async def test_geminis_function_calls_come_whole(autojump_clock):
    call = {"functionCall": {"name": "weather", "args": {"city": "Paris"}}}
    record = await ended(sse(gemini(call), Cut(), end=False), GEMINI)
    assert record.charge_nanos == nanos(1, TOKENS["weather"] + 5)


THOUGHT = "Let me think about the weather."
REASONING_ONLY = {
    "chat": [chat({"reasoning_content": THOUGHT[:9]}), chat({"reasoning_content": THOUGHT[9:]})],
    # OpenRouter says it three times over.
    "chat, in several spellings": [
        chat({"reasoning": THOUGHT, "reasoning_details": [{"type": "reasoning.text", "text": THOUGHT, "index": 0}]})
    ],
    "responses": [item("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta=THOUGHT)],
    "messages": [
        MESSAGES.opening[0],
        named({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": THOUGHT}}),
        named(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln" * 9}}
        ),
    ],
    "gemini": [gemini({"text": THOUGHT, "thought": True}), gemini({"thoughtSignature": "c2ln" * 9})],
}


@pytest.mark.parametrize("name", REASONING_ONLY)
async def test_reasoning_alone_is_output(name, autojump_clock):
    kind = name.split(",")[0]
    record = await ended(sse(*REASONING_ONLY[name], Cut(), end=False), SAMPLES[kind])
    assert (record.state, record.charge_nanos) == ("captured", nanos(REPORTED[kind] or 1, TOKENS[THOUGHT]))


IMAGES = {
    "chat": chat({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 50}}]}),
    "gemini": gemini({"inlineData": {"mimeType": "image/png", "data": "QUJD" * 50}}),
    "responses": item("image_generation_call.partial_image", item_id="ig_1", partial_image_b64="QUJD" * 50),
}


@pytest.mark.parametrize("kind", IMAGES)
async def test_images_are_no_tokens(kind, autojump_clock):
    record = await ended(sse(*SAMPLES[kind].opening, IMAGES[kind], Cut(), end=False), SAMPLES[kind])
    assert (record.state, record.evidence, record.charge_nanos) == ("captured", "estimated", nanos(TOKENS["hi"], 0))
    assert record.flags == ()


async def test_items_that_come_without_deltas_are_measured_and_those_with_them_once(autojump_clock):
    text = {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    record = await ended(sse(*RESPONSES.opening, item("output_item.done", item=text), Cut(), end=False), RESPONSES)
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS["Hello"])
    record = await ended(sse(*RESPONSES.opening, *RESPONSES.answer, *RESPONSES.closing, Cut(), end=False), RESPONSES)
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS["Hello"])


async def test_the_pieces_of_several_choices_are_joined_each_by_itself(autojump_clock):
    pieces = [(0, "Hel"), (1, "fo"), (0, "lo"), (1, "x")]
    events = [data({"choices": [{"index": index, "delta": {"content": text}}]}) for index, text in pieces]
    record = await ended(sse(*events, Cut(), end=False), body={**CHAT_SILENT, "n": 2})
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS["Hello"] + TOKENS["fox"])


async def test_characters_that_are_cut_between_two_events(autojump_clock):
    halves = [b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n', *CHAT.answer]
    record = await ended(sse(*CHAT.opening, *halves, Cut(), end=False))
    # The half is no character: one replacement, then the rest.
    assert record.charge_nanos == nanos(TOKENS["hi"], 1 + TOKENS["Hello"])
    record = await ended(sse(*CHAT.opening, chat({"content": "你好世"}), chat({"content": "界😀"}), Cut(), end=False))
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS["你好世界😀"])


QUESTION, ORDER = "What is the weather in Paris?", "You are terse."
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
ASKED = {
    "chat": {
        "model": "m", "stream": True, "tools": TOOLS, "user": "someone",
        "messages": [{"role": "system", "content": ORDER},
                     {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
                     {"role": "assistant", "content": None, "tool_calls": [
                         {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]},
                     {"role": "tool", "tool_call_id": "call_1", "content": "It is sunny."}],
    },
    "responses": {
        "model": "m", "stream": True, "instructions": ORDER, "tools": TOOLS,
        "input": [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
                  {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": ""},
                  {"type": "function_call_output", "call_id": "call_1", "output": "It is sunny."}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": ORDER}]}, "tools": TOOLS,
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]},
                     {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]},
                     {"role": "user", "parts": [{"functionResponse": {"response": "It is sunny."}}]}],
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
async def test_input_that_nobody_reports_is_the_requests_own_text(kind, autojump_clock):
    sample = SAMPLES[kind]
    record = await ended(sse(*sample.opening, *sample.answer, Cut(), end=False), sample, body=ASKED[kind])
    texts = (ORDER, QUESTION, "weather", "It is sunny.", json.dumps(TOOLS, separators=(",", ":")))
    assert record.charge_nanos == nanos(sum(TOKENS[text] for text in texts), TOKENS["Hello"])


async def test_an_image_in_the_request_is_not_measured_by_its_base64(autojump_clock):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "QUJD" * 100}}
    body = {**CHAT_SILENT, "messages": [{"role": "user", "content": [image, {"type": "text", "text": "hi"}]}]}
    record = await ended(sse(*CHAT.opening, *CHAT.answer, Cut(), end=False), body=body)
    assert record.charge_nanos == nanos(TOKENS["hi"], TOKENS["Hello"])


# -- bounds ------------------------------------------------------------------------------------------------------------


async def test_output_beyond_the_requests_limit_is_not_charged(autojump_clock):
    """50 tokens were asked for; the provider says 60 and is cut."""
    events = [chat({"content": " fox"})] * 60
    record = await ended(sse(*events, Cut(), end=False), body={**CHAT_SILENT, "max_tokens": 50})
    assert (record.charge_nanos, record.flags) == (nanos(TOKENS["hi"], 50), ("clamped",))


@pytest.mark.parametrize("contract", ["hoptrio", "anypath"])
async def test_where_nothing_is_charged_nothing_is_gathered(contract, autojump_clock, monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("hoptrio.stream.stream.Produced", fail)
    monkeypatch.setattr("hoptrio.exchange.desk.measure", fail)
    record = await ended(sse(*CHAT.opening, *CHAT.answer, Cut(), end=False), contract=contract, body={
        **CHAT_SILENT, "stream_options": {"include_usage": True}})  # fmt: skip
    assert (record.state, record.reason) == ("released", "truncated")
