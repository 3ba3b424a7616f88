"""One test a cell of the contract table, and one a row of "What ends a stream", end to end in virtual time."""

from __future__ import annotations

import json

import pytest
import trio

from hoptrio.contract import PRESETS
from tests.support.harness import BODIES, CHAT_SILENT, channels, gateway, settings
from tests.support.provider import END, Cut, Hang, Pause, chunk, plain, sse
from tests.support.streams import CHAT, GEMINI, MESSAGES, RESPONSES, SAMPLES, data

ALL = list(SAMPLES.values())
THREE = [CHAT, RESPONSES, MESSAGES]
each_sample = pytest.mark.parametrize("sample", ALL, ids=SAMPLES)
each_contract = pytest.mark.parametrize("contract", list(PRESETS))


def served(sample, contract):
    """Does the contract offer the protocol at all?"""
    return sample.kind in PRESETS[contract].protocols


def paid(contract):
    """What becomes of the hold where some output was produced; how much it is: test_produced."""
    return "captured" if PRESETS[contract].interrupted == "charge" else "released"


def payloads(*events):
    """The data of events, as a client gets them."""
    return [b"\n".join(line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")) for event in events]


# -- protocols ---------------------------------------------------------------------------------------------------------


@each_sample
@each_contract
async def test_protocols_each_contract_serves_its_own(sample, contract, autojump_clock):
    async with gateway(sse(*sample.events), contract=contract) as world:
        response = await world.call(sample.kind)
        if served(sample, contract):
            assert response.status == 200
            assert (await world.record(response)).state == "captured"
        else:
            assert response.status == 404
            assert not world.provider.seen


# -- keepalive ---------------------------------------------------------------------------------------------------------

SLOW = [Pause(24)]


@pytest.mark.parametrize("sample", THREE, ids=lambda sample: sample.kind)
async def test_case_11_keepalive_interval_comes_every_ten_seconds(sample, autojump_clock):
    start = trio.current_time()
    async with gateway(sse(*sample.opening, *SLOW, *sample.events[len(sample.opening) :]), contract="hopbase") as world:
        response = await world.call(sample.kind)
    assert [round(at - start) for at in response.keepalives] == [10, 20]


@pytest.mark.parametrize("sample", THREE, ids=lambda sample: sample.kind)
async def test_case_11_keepalive_idle_comes_ten_seconds_after_the_last_byte(sample, autojump_clock):
    start = trio.current_time()
    script = sse(*sample.opening, Pause(4), sample.answer[0], *SLOW, *sample.events[len(sample.opening) + 1 :])
    async with gateway(script) as world:
        response = await world.call(sample.kind)
    assert [round(at - start) for at in response.keepalives] == [14, 24]
    assert response.clean


@each_sample
async def test_keepalive_off_writes_nothing(sample, autojump_clock):
    async with gateway(sse(Pause(65), *sample.events), contract="anypath") as world:
        response = await world.call(sample.kind)
    assert response.data == payloads(*sample.events)
    assert b": hopbase" not in response.body
    assert len(response.pieces) <= len(sample.events)


async def test_case_02_gemini_is_kept_alive_by_blank_lines_only(autojump_clock):
    async with gateway(sse(GEMINI.answer[0], Pause(11), GEMINI.answer[1], *GEMINI.terminal)) as world:
        response = await world.call("gemini")
    assert response.data == payloads(*GEMINI.events)
    assert b":" not in response.body.replace(b"data: ", b"").split(b"{", 1)[0]
    assert b"\n\n\n" in response.body


async def test_an_old_gemini_client_that_fails_on_blank_lines_gets_none(autojump_clock):
    async with gateway(sse(GEMINI.answer[0], Pause(35), GEMINI.answer[1], *GEMINI.terminal)) as world:
        headers = {
            "x-goog-api-client": "google-genai-sdk/1.20.0 gl-node/v20",
            "user-agent": "google-genai-sdk/1.20.0 gl-node/v20",
        }
        response = await world.call("gemini", headers=headers)
    assert b"\n\n\n" not in response.body


async def test_the_json_array_is_kept_alive_by_newlines_between_elements(autojump_clock):
    async with gateway(sse(GEMINI.answer[0], Pause(25), GEMINI.answer[1], *GEMINI.terminal)) as world:
        response = await world.call("gemini_array")
    assert [json.dumps(each, separators=(",", ":")).encode() for each in response.json] == payloads(*GEMINI.events)
    assert len(response.pieces) >= 5


@pytest.mark.parametrize("sample", THREE, ids=lambda sample: sample.kind)
async def test_case_07_head_and_first_keepalive_come_before_a_late_provider(sample, autojump_clock):
    start = trio.current_time()
    async with gateway([Pause(100), *sse(*sample.events)]) as world:
        response = await world.call(sample.kind)
    assert response.status == 200
    assert round(response.keepalives[0] - start) == 10
    assert response.data == payloads(*sample.events)


# -- reattach ----------------------------------------------------------------------------------------------------------


@each_contract
async def test_reattach_a_broken_client_may_come_back_to_its_stream(contract, autojump_clock, tmp_path):
    script = sse(CHAT.events[0], Pause(1), *CHAT.events[1:])
    async with gateway(script, contract=contract, spool=tmp_path) as world:
        client = await world.start("chat")
        await client.read(events=1)
        await client.leave()
        request_id = (await world.only_record()).id
        response = await world.get(f"/v1/requests/{request_id}/events?after=1")
        if PRESETS[contract].reattach:
            assert (response.status, response.clean) == (200, True)
            assert response.data == payloads(*CHAT.events[1:])
        else:
            assert response.status == 404
        await world.settled()
        assert (await world.only_record()).charge_nanos == CHAT.charge_nanos


@each_contract
async def test_reattach_a_retry_with_an_idempotency_key_is_one_request(contract, autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), contract=contract, spool=tmp_path) as world:
        first, second = [await world.call("chat", headers={"idempotency-key": "k"}) for _ in range(2)]
        joined = PRESETS[contract].reattach
        assert first.data == second.data == payloads(*CHAT.events)
        assert (first.headers["x-request-id"] == second.headers["x-request-id"]) is joined
        assert len(world.provider.seen) == (1 if joined else 2)


@each_contract
async def test_reattach_a_response_may_be_asked_for_again(contract, autojump_clock, tmp_path):
    async with gateway(sse(*RESPONSES.events), contract=contract, spool=tmp_path) as world:
        await world.call("responses")
        response = await world.get("/v1/responses/resp_1")
        assert (response.status == 200) is PRESETS[contract].reattach


# -- usage -------------------------------------------------------------------------------------------------------------


@each_contract
async def test_usage_a_chat_stream_that_does_not_ask(contract, autojump_clock):
    """Case 65."""
    async with gateway(sse(*CHAT.events), contract=contract) as world:
        response = await world.call("chat", CHAT_SILENT)
        if PRESETS[contract].usage == "required":
            assert response.status == 400
            assert "include_usage" in response.json["error"]["param"]
            assert not world.provider.seen
            assert (await world.only_record()).hold_nanos == 0
        else:
            assert json.loads(world.provider.seen[0].body)["stream_options"]["include_usage"] is True
            assert response.data == payloads(*CHAT.opening, *CHAT.answer, CHAT.closing[0], *CHAT.terminal)
            assert (await world.record(response)).charge_nanos == CHAT.charge_nanos


@each_contract
async def test_usage_a_chat_stream_that_asks_gets_it(contract, autojump_clock):
    async with gateway(sse(*CHAT.events), contract=contract) as world:
        response = await world.call("chat")
        assert response.data == payloads(*CHAT.events)
        assert (await world.record(response)).charge_nanos == CHAT.charge_nanos


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_obfuscation": False}])
async def test_usage_required_means_true_and_nothing_less(options, autojump_clock):
    async with gateway(sse(*CHAT.events), contract="anypath") as world:
        response = await world.call("chat", {**CHAT_SILENT, "stream_options": options})
    assert response.status == 400


async def test_usage_required_does_not_concern_other_protocols_or_plain_calls(autojump_clock):
    async with gateway(plain(200, json.dumps(CHAT.body).encode()), contract="anypath") as world:
        assert (await world.call("chat", {**CHAT_SILENT, "stream": False})).status == 200


# -- failure, after the status -----------------------------------------------------------------------------------------


def ours(sample, response):
    """The error event that we wrote: the last one."""
    return json.loads(response.data[-1])


@each_sample
async def test_failure_event_ends_the_body_cleanly_after_an_error_event(sample, autojump_clock):
    """Case 28."""
    config = settings(contracts={"mixed": {"preset": "hoptrio", "failure": "event"}})
    async with gateway(
        sse(*sample.opening, *sample.answer, Cut(), end=False), config=config, contract="mixed"
    ) as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).reason == "truncated"
    assert response.clean
    assert response.data[:-1] == payloads(*sample.opening, *sample.answer)
    assert "error" in json.dumps(ours(sample, response))


@each_sample
async def test_case_21_failure_truncate_aborts_and_says_nothing(sample, autojump_clock):
    async with gateway(sse(*sample.opening, *sample.answer, Cut(), end=False), contract="anypath") as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).state == "released"
    assert not response.clean
    assert response.data == payloads(*sample.opening, *sample.answer)


@each_sample
async def test_failure_event_abort_writes_the_event_then_aborts(sample, autojump_clock):
    """Cases 22 and 27: what came is delivered whole, no terminal is invented."""
    async with gateway(sse(*sample.opening, *sample.answer, Cut(), end=False)) as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).state == "released"
    assert not response.clean
    assert response.data[:-1] == payloads(*sample.opening, *sample.answer)
    assert "error" in json.dumps(ours(sample, response))
    assert not any(event.split(b"data: ")[1].strip() in response.data for event in sample.terminal)


async def test_case_30_responses_fail_with_their_own_id_and_the_next_number(autojump_clock):
    async with gateway(sse(*RESPONSES.opening, *RESPONSES.answer, Cut(), end=False)) as world:
        response = await world.call("responses")
    failed = ours(RESPONSES, response)
    assert (failed["type"], failed["sequence_number"], failed["response"]["id"]) == ("response.failed", 6, "resp_1")
    assert failed["response"]["error"]["code"] in {"server_error", "rate_limit_exceeded", "invalid_prompt"}
    assert b"event: response.failed\ndata: " in response.body


async def test_a_truncated_messages_stream_ends_with_exactly_the_documented_event(autojump_clock):
    async with gateway(sse(*MESSAGES.opening, *MESSAGES.answer, Cut(), end=False), contract="hopbase") as world:
        response = await world.call("messages")
    assert response.blocks[-1] == (
        b"event: error\ndata: "
        b'{"type":"error","error":{"type":"api_error","message":"Response stream interrupted, please retry"}}'
    )


async def test_the_json_array_ends_with_an_error_element_and_an_abort_under_every_telling_contract(autojump_clock):
    config = settings(contracts={"mixed": {"preset": "hoptrio", "failure": "event"}})
    async with gateway(sse(*GEMINI.answer, Cut(), end=False), config=config, contract="mixed") as world:
        response = await world.call("gemini_array")
    assert not response.clean
    last = json.loads(response.body.rsplit(b",\r\n", 1)[1])
    assert isinstance(last["error"]["code"], int)


# -- failure, before the status ----------------------------------------------------------------------------------------


@each_sample
@each_contract
async def test_a_failure_before_the_status_keeps_its_real_status(sample, contract, autojump_clock):
    if not served(sample, contract):
        return
    async with gateway(plain(500, b'{"error":{"message":"secret trouble"}}'), contract=contract) as world:
        response = await world.call(sample.kind)
        assert response.status in (502, 503)
        assert b"secret trouble" not in response.body
        record = await world.record(response)
    assert (record.state, record.reason, record.charge_nanos) == ("released", "provider_error", 0)


@each_sample
@each_contract
async def test_a_first_event_that_is_an_error_keeps_its_real_status(sample, contract, autojump_clock):
    if not served(sample, contract):
        return
    async with gateway(sse(sample.error), contract=contract) as world:
        response = await world.call(sample.kind)
        assert response.status in (502, 503, 529)
        assert (await world.record(response)).reason == "provider_error"


async def test_an_error_after_an_early_head_follows_the_contract(autojump_clock):
    async with gateway([Pause(15), *plain(500, b"{}")]) as world:
        response = await world.call("chat")
    assert (response.status, response.clean) == (200, False)
    assert "error" in json.loads(response.data[-1])


# -- interrupted -------------------------------------------------------------------------------------------------------


@each_contract
async def test_interrupted_the_providers_own_numbers_are_charged_only_where_the_contract_says(contract, autojump_clock):
    """Case 55: `response.failed` with usage."""
    failed = json.loads(RESPONSES.error.split(b"data: ")[1])
    failed["response"]["usage"] = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    event = b"event: response.failed\n" + data(failed)
    async with gateway(sse(*RESPONSES.opening, *RESPONSES.answer, event), contract=contract) as world:
        response = await world.call("responses")
        record = await world.record(response)
    charged = PRESETS[contract].interrupted == "charge"
    assert (record.state, record.charge_nanos) == (("captured", 19_000) if charged else ("released", 0))
    assert record.evidence == ("partial" if charged else "none")


@each_contract
async def test_case_54_a_placeholder_in_message_start_is_never_charged(contract, autojump_clock):
    """Input 5 and output 25, of which the second is none: what was said is one token."""
    start = MESSAGES.opening[0].replace(b'"output_tokens":1', b'"output_tokens":25')
    async with gateway(sse(start, *MESSAGES.answer, Cut(), end=False), contract=contract) as world:
        record = await world.record(await world.call("messages"))
    assert record.reason == "truncated"
    charged = PRESETS[contract].interrupted == "charge"
    assert (record.state, record.charge_nanos) == (("captured", 7_000) if charged else ("released", 0))


# -- attempts ----------------------------------------------------------------------------------------------------------


@each_contract
async def test_case_20_and_37_attempts_one_request_goes_to_the_provider_once_output_was_seen(contract, autojump_clock):
    async with gateway(sse(*CHAT.opening, CHAT.answer[0], Cut(), end=False), contract=contract) as world:
        response = await world.call("chat")
        assert (await world.record(response)).attempts == 1
        await trio.sleep(5)
        assert len(world.provider.seen) == 1


@each_contract
@pytest.mark.parametrize("opening", [[Cut()], sse(*CHAT.opening, Cut(), end=False)], ids=["head", "opening"])
async def test_attempts_are_the_contracts_while_no_output_was_seen(contract, opening, autojump_clock):
    async with gateway(opening, contract=contract) as world:
        response = await world.call("chat")
        assert (await world.record(response)).attempts == len(world.provider.seen) == PRESETS[contract].attempts


# -- stall -------------------------------------------------------------------------------------------------------------


@each_sample
async def test_case_05_stall_ends_a_silent_stream_at_the_models_limit(sample, autojump_clock):
    start = trio.current_time()
    async with gateway(sse(*sample.opening, sample.answer[0], Hang())) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert record.reason == "stalled"
    assert 119 < response.pieces[-1][0] - start < 121
    assert not response.clean


@each_sample
async def test_stall_off_leaves_only_the_deadline(sample, autojump_clock):
    start = trio.current_time()
    async with gateway(sse(*sample.opening, sample.answer[0], Hang()), contract="anypath") as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert record.reason == "deadline"
    assert 599 < trio.current_time() - start < 603


async def test_stall_seconds_are_the_models(autojump_clock):
    start = trio.current_time()
    config = settings(
        models={
            "m": {"input": "1", "output": "2", "max_input_tokens": 1000, "max_output_tokens": 100, "stall_seconds": 30}
        }
    )
    async with gateway(sse(CHAT.opening[0], Hang()), config=config) as world:
        assert (await world.record(await world.call("chat"))).reason == "stalled"
    assert 29 < trio.current_time() - start < 33


def forever(piece, every_s, n=500):
    """`piece` again and again."""
    return [each for _ in range(n) for each in (piece, Pause(every_s))]


NOT_PROGRESS = {
    "comment": (CHAT, b": hb\n\n"),
    "empty delta": (CHAT, data({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]})),
    "ping": (MESSAGES, MESSAGES.opening[1]),
    "in_progress": (RESPONSES, RESPONSES.opening[1]),
    "keepalive": (RESPONSES, b'event: keepalive\ndata: {"type":"keepalive","sequence_number":9}\n\n'),
    "empty gemini": (GEMINI, data({"modelVersion": "m", "responseId": "r"})),
}


@pytest.mark.parametrize("name", NOT_PROGRESS)
async def test_case_04_14_15_what_is_not_the_models_answer_is_not_progress(name, autojump_clock):
    sample, piece = NOT_PROGRESS[name]
    start = trio.current_time()
    async with gateway(sse(*sample.opening, sample.answer[0], *forever(piece, 1))) as world:
        record = await world.record(await world.call(sample.kind))
    assert record.reason == "stalled"
    assert 118 < trio.current_time() - start < 125


@each_sample
async def test_case_17_after_the_verdict_the_connection_is_closed_at_once(sample, autojump_clock):
    async with gateway(sse(*sample.opening, sample.answer[0], Hang())) as world:
        client = await world.start(sample.kind)
        response = await client.read()
        assert trio.current_time() - response.pieces[-1][0] < 1
        await trio.sleep(3)  # the lingering read
        assert not len(world.gateway.registry)


@pytest.mark.parametrize("contract", ["hopbase", "hoptrio"])
async def test_header_timeout_is_a_504_at_the_stall_limit(contract, autojump_clock):
    """With keep-alive off the status is still free; with it the 200 is out by then."""
    config = settings(contracts={"mixed": {"preset": contract, "keepalive": "off", "attempts": 1}})
    start = trio.current_time()
    async with gateway([Hang()], config=config, contract="mixed") as world:
        response = await world.call("chat")
        assert (await world.record(response)).reason == "header_timeout"
    assert response.status == 504
    assert 119 < trio.current_time() - start < 123


async def test_header_limit_of_a_plain_call_and_without_stalls_is_the_deadline(autojump_clock):
    start = trio.current_time()
    async with gateway([Hang()], contract="anypath") as world:
        response = await world.call("chat", {**CHAT_SILENT, "stream": False})
        assert (await world.record(response)).reason == "header_timeout"
    assert response.status == 504
    assert 599 < trio.current_time() - start < 603


# -- deadline ----------------------------------------------------------------------------------------------------------


@each_contract
async def test_case_18_steady_output_is_cut_at_600_seconds_and_not_before(contract, autojump_clock):
    start = trio.current_time()
    async with gateway(sse(*CHAT.opening, *forever(CHAT.answer[0], 1, 700)), contract=contract) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert record.reason == "deadline"
    assert len(response.data) >= 600
    assert 600 <= trio.current_time() - start < 603


@each_contract
async def test_a_stream_of_590_seconds_is_whole(contract, autojump_clock):
    script = sse(*CHAT.opening, *forever(CHAT.answer[0], 1, 590), *CHAT.closing, *CHAT.terminal)
    async with gateway(script, contract=contract) as world:
        response = await world.call("chat")
        assert response.clean
        assert (await world.record(response)).state == "captured"


# -- what ends a stream: the rest of the rows --------------------------------------------------------------------------


@each_sample
@each_contract
async def test_row_no_evidence(sample, contract, autojump_clock):
    if not served(sample, contract):
        return
    events = [strip_usage(event) for event in sample.events]
    async with gateway(sse(*events), contract=contract) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert (record.state, record.reason) == (paid(contract), "no_evidence")
    truncate = PRESETS[contract].failure == "truncate"
    assert response.clean is not truncate
    assert (response.data[-1:] == payloads(events[-1])) is not truncate


def strip_usage(event):
    """The event without its usage."""
    if b"{" not in event:
        return event
    head, _, rest = event.partition(b"data: ")
    value = json.loads(rest)
    for holder in (value, value.get("response", {}), value.get("message", {})):
        holder.pop("usage", None)
        holder.pop("usageMetadata", None)
    return head + data(value)


@each_sample
@each_contract
async def test_row_providers_error_event_is_forwarded_unchanged_and_nothing_of_ours_added(
    sample, contract, autojump_clock
):
    """Cases 31 and 32."""
    if not served(sample, contract):
        return
    async with gateway(sse(*sample.opening, *sample.answer, sample.error), contract=contract) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    seen = payloads(*sample.opening, *sample.answer)
    truncate = PRESETS[contract].failure == "truncate"
    assert response.data == (seen if truncate else [*seen, *payloads(sample.error)])
    assert response.clean is (PRESETS[contract].failure == "event")
    assert (record.state, record.reason) == (paid(contract), "provider_error")


async def test_responses_error_then_failed_are_both_forwarded(autojump_clock):
    error = b'event: error\ndata: {"type":"error","code":"x","message":"boom","param":null,"sequence_number":6}\n\n'
    async with gateway(sse(*RESPONSES.opening, *RESPONSES.answer, error, Pause(2), RESPONSES.error)) as world:
        response = await world.call("responses")
    assert response.data[-2:] == payloads(error, RESPONSES.error)


async def test_responses_error_without_failed_gets_ours_after_five_seconds(autojump_clock):
    error = b'event: error\ndata: {"type":"error","code":"x","message":"boom","param":null,"sequence_number":6}\n\n'
    start = trio.current_time()
    async with gateway(sse(*RESPONSES.opening, *RESPONSES.answer, error, Hang())) as world:
        response = await world.call("responses")
    assert response.data[-2:-1] == payloads(error)
    failed = json.loads(response.data[-1])
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 7)
    assert 5 <= response.pieces[-1][0] - start < 6


@each_sample
async def test_row_connect_failure_is_a_502_and_a_release(sample, autojump_clock):
    async with gateway([]) as world:
        world.provider.connect_s = None
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert response.status in (502, 503)
    assert (record.state, record.reason) == ("released", "provider_error")


async def test_row_client_left_before_the_dispatch(autojump_clock):
    async with gateway(sse(*CHAT.events)) as world:
        world.provider.connect_s = 5
        client = await world.start("chat")
        await trio.sleep(1)
        await client.leave()
        await trio.sleep(10)
        record = await world.only_record()
        assert (record.state, record.reason) == ("released", "not_dispatched")
        assert not world.provider.seen


async def test_row_event_too_large(autojump_clock):
    big = b"data: " + b"x" * (17 * 1024 * 1024)
    async with gateway(sse(*CHAT.opening, CHAT.answer[0], big)) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "event_too_large")
    assert not response.clean


@each_contract
async def test_row_unconvertible_once_text_was_told(contract, autojump_clock):
    """Sound for a Messages client on a Gemini channel."""
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    chunk = data({"candidates": [{"content": {"role": "model", "parts": [sound]}, "index": 0}]})
    script = sse(GEMINI.answer[0], chunk, *GEMINI.terminal)
    async with gateway(script, config=channels("a", protocols=["gemini"]), contract=contract) as world:
        response = await world.call("messages")
        record = await world.record(response)
        assert (await world.ledger.audit()).open_holds == 0
    assert (record.state, record.reason, record.charge_nanos) == ("released", "unconvertible", 0)
    assert (response.status, response.clean) == (200, PRESETS[contract].failure == "event")
    last = json.loads(response.data[-1])
    assert (last["type"] == "error") == (PRESETS[contract].failure != "truncate")
    assert not any(json.loads(each)["type"] == "message_stop" for each in response.data)


async def test_row_shutdown(autojump_clock):
    from hoptrio.contract import Reason

    async with gateway(sse(*CHAT.opening, CHAT.answer[0], Hang())) as world:
        client = await world.start("chat")
        await trio.sleep(1)
        world.gateway.registry.stop_all(Reason.SHUTDOWN)
        response = await client.read()
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "shutdown")
    assert not response.clean


async def test_row_internal_a_bug_ends_one_stream_and_releases(autojump_clock, monkeypatch):
    from hoptrio.stream.pump import EventPump

    def broken(*_):
        raise RuntimeError("a bug")

    async with gateway(sse(*CHAT.events)) as world:
        with monkeypatch.context() as patch:
            patch.setattr(EventPump, "_classify", broken)
            response = await world.call("chat")
        assert response.status == 500
        record = await world.record(response)
        assert (record.state, record.reason) == ("released", "internal")
        assert (await world.call("chat")).status == 200


async def test_row_internal_a_bug_in_the_reckoning_releases_too(autojump_clock, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    async with gateway(sse(*CHAT.events)) as world:
        monkeypatch.setattr("hoptrio.exchange.desk.usage", broken)
        response = await world.call("chat")
        record = await world.record(response)
        assert (record.state, record.reason, record.charge_nanos) == ("released", "internal", 0)
        assert (await world.ledger.audit()).open_holds == 0


@each_sample
@each_contract
async def test_row_plain_body_with_usage_is_captured(sample, contract, autojump_clock):
    if not served(sample, contract):
        return
    body = json.dumps(sample.body).encode()
    async with gateway(plain(200, body), contract=contract) as world:
        response = await call_plain(world, sample)
        record = await world.record(response)
    assert (response.status, response.body) == (200, body)
    assert (record.state, record.evidence, record.charge_nanos) == ("captured", "json_body", sample.charge_nanos)


@each_sample
@each_contract
async def test_row_plain_body_without_usage(sample, contract, autojump_clock):
    if not served(sample, contract):
        return
    body = {name: value for name, value in sample.body.items() if not name.startswith("usage")}
    async with gateway(plain(200, json.dumps(body).encode()), contract=contract) as world:
        response = await call_plain(world, sample)
        record = await world.record(response)
    assert response.status == (200 if PRESETS[contract].interrupted == "charge" else 502)
    assert (record.state, record.reason) == (paid(contract), "no_evidence")


async def call_plain(world, sample):
    """A call that does not stream."""
    if sample is GEMINI:
        return await world.call("gemini", path="/v1beta/models/m:generateContent")
    body = CHAT_SILENT if sample is CHAT else BODIES[sample.kind]
    return await world.call(sample.kind, {**body, "stream": False})


# -- the same under every contract -------------------------------------------------------------------------------------


@each_sample
@each_contract
async def test_3_a_client_that_leaves_is_read_to_the_end_and_charged(sample, contract, autojump_clock):
    """Case 45."""
    if not served(sample, contract):
        return
    rest = [*sample.answer[1:], *sample.closing, *sample.terminal]
    script = sse(*sample.opening, sample.answer[0], Pause(5), *[each for event in rest for each in (event, Pause(2))])
    async with gateway(script, contract=contract) as world:
        client = await world.start(sample.kind)
        await trio.sleep(2)
        await client.leave()
        await trio.sleep(60)
        record = await world.only_record()
    assert (record.state, record.charge_nanos) == ("captured", sample.charge_nanos)
    assert "client_gone" in [event for _, event in record.timeline]


async def test_case_48_a_client_that_leaves_before_the_first_byte_is_charged_and_noted(autojump_clock):
    async with gateway([Pause(5), *sse(*CHAT.events)]) as world:
        client = await world.start("chat")
        await trio.sleep(2)
        await client.leave()
        await trio.sleep(20)
        record = await world.only_record()
    assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
    assert "client_gone_before_first_byte" in [event for _, event in record.timeline]


async def test_3_a_client_that_takes_nothing_for_thirty_seconds_has_left_and_is_charged(autojump_clock):
    big = data({"choices": [{"index": 0, "delta": {"content": "x" * 100_000}, "finish_reason": None}]})
    script = sse(*CHAT.opening, *forever(big, 1, 60), *CHAT.closing, *CHAT.terminal)
    async with gateway(script) as world:
        client = await world.start("chat")
        client.stream.receive_stream.close_hook = None  # never read
        await trio.sleep(100)
        record = await world.only_record()
        assert (record.state, record.charge_nanos) == ("captured", CHAT.charge_nanos)
        del client


@each_sample
async def test_5_the_terminal_comes_after_the_settlement(sample, autojump_clock, monkeypatch):
    """A ledger that takes two seconds holds back the terminal and nothing else."""
    async with gateway(sse(*sample.events)) as world:
        settle = world.ledger.settle

        async def slow(resolution):
            await trio.sleep(2)
            return await settle(resolution)

        monkeypatch.setattr(world.ledger, "settle", slow)
        start = trio.current_time()
        response = await world.call(sample.kind)
    assert response.pieces[-1][0] - start >= 2
    assert all(at - start < 1 for at, _ in response.pieces[:-1])
    assert response.clean


@each_sample
@each_contract
async def test_5_without_a_settlement_in_ten_seconds_no_terminal_is_seen(sample, contract, autojump_clock, monkeypatch):
    if not served(sample, contract):
        return
    async with gateway(
        sse(*sample.opening, *sample.answer, Pause(1), *sample.closing, *sample.terminal), contract=contract
    ) as world:

        async def never(resolution):
            await trio.sleep(10)

        monkeypatch.setattr(world.ledger, "settle", never)
        response = await world.call(sample.kind)
    assert payloads(sample.terminal[-1])[0] not in response.data
    assert response.clean is (PRESETS[contract].failure == "event")


async def test_5_a_plain_call_without_a_settlement_is_a_503(autojump_clock, monkeypatch):
    async with gateway(plain(200, json.dumps(CHAT.body).encode())) as world:

        async def never(resolution):
            await trio.sleep(10)

        monkeypatch.setattr(world.ledger, "settle", never)
        response = await world.call("chat", {**CHAT_SILENT, "stream": False})
    assert response.status == 503


async def test_5_nothing_is_written_after_a_terminal(autojump_clock):
    """The provider goes on after its terminal; nobody hears it."""
    async with gateway(sse(*CHAT.events, CHAT.answer[0], Pause(15), CHAT.answer[0], end=False)) as world:
        response = await world.call("chat")
    assert response.data == payloads(*CHAT.events)
    assert response.clean


@each_sample
async def test_complete_evidence_wins_over_how_the_connection_then_ended(sample, autojump_clock):
    async with gateway(sse(*sample.events, Cut(), end=False)) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert (record.state, response.clean) == ("captured", True)


async def test_gemini_is_over_after_thirty_seconds_of_silence_behind_its_finish(autojump_clock):
    start = trio.current_time()
    async with gateway(sse(*GEMINI.events, Hang())) as world:
        response = await world.call("gemini")
        record = await world.record(response)
    assert (record.state, response.clean) == ("captured", True)
    assert 30 <= response.pieces[-1][0] - start < 31


async def test_gemini_usage_after_the_finish_is_found_and_only_the_newest_event_is_held_back(autojump_clock):
    finish = data({"candidates": [{"content": {"parts": [{"text": "x"}]}, "index": 0, "finishReason": "STOP"}]})
    usage = data({"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}})
    async with gateway(sse(GEMINI.answer[0], finish, Pause(3), usage, Pause(3))) as world:
        response = await world.call("gemini")
        record = await world.record(response)
    assert record.charge_nanos == 19_000
    assert response.data == payloads(GEMINI.answer[0], finish, usage)


@each_sample
async def test_7_every_response_carries_a_request_id_and_the_account_can_ask_for_it(sample, autojump_clock):
    async with gateway(sse(*sample.events)) as world:
        response = await world.call(sample.kind)
        told = await world.get(f"/v1/requests/{response.headers['x-request-id']}")
        assert told.json["state"] == "captured"
        assert told.json["charge"] == "0.000019"
        for path in ("/nowhere", "/v1/models", "/healthz"):
            assert "x-request-id" in (await world.get(path)).headers


async def test_a_whole_stream_in_one_read_or_byte_by_byte_is_the_same(autojump_clock):
    whole = b"".join(CHAT.events)
    one = [sse()[0], chunk(whole), END]
    bytewise = [sse()[0], *[chunk(whole[at : at + 1]) for at in range(len(whole))], END]
    async with gateway(one, bytewise) as world:
        first, second = await world.call("chat"), await world.call("chat")
    assert first.data == second.data == payloads(*CHAT.events)
