"""What a Responses stream means: names, kinds, evidence, failures of the provider and our own."""

from __future__ import annotations

import json

import pytest

from hoptrio.contract import Reason
from hoptrio.errors import BadRequest, LimitExceeded, UpstreamFailed
from hoptrio.protocols.events import Call, Finish, Framing, Kind, Protocol, SseEvent
from hoptrio.protocols.responses.reader import ResponsesReader, read, reader
from hoptrio.protocols.sse import Splitter

USAGE = {
    "input_tokens": 14,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "output_tokens": 58,
    "output_tokens_details": {"reasoning_tokens": 7},
    "total_tokens": 72,
}
RESPONSE = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": [], "usage": None}


def call(**changes):
    fields = {"model": "gpt", "stream": True, "framing": Framing.SSE, "body": {}} | changes
    return Call(protocol=Protocol.RESPONSES, **fields)


def event(kind, number=None, name=None, **members):
    value = {"type": kind} | ({} if number is None else {"sequence_number": number}) | members
    return SseEvent((kind if name is None else name).encode(), json.dumps(value, separators=(",", ":")).encode())


def created(number=0, **changes):
    return event("response.created", number, response=RESPONSE | changes)


def delta(text="Hi", number=None):
    return event("response.output_text.delta", number, item_id="msg_1", output_index=0, content_index=0, delta=text)


def ended(kind="completed", number=None, **changes):
    return event(f"response.{kind}", number, response=RESPONSE | {"status": kind, "usage": USAGE} | changes)


def run(*events):
    found = reader(call(), hide_usage=False)
    return found, [found.feed(each) for each in events]


def kinds(*events):
    return [step.kind for step in run(*events)[1]]


def parsed(wire):
    return [(each.name.decode(), json.loads(each.data)) for each in Splitter().feed(wire)]


# -- names and bytes --------------------------------------------------------------------------------------------------


def test_an_event_goes_on_unchanged_under_its_name():
    data = '{ "delta" : "é\\u0000", "type" : "response.output_text.delta" }'.encode()
    _, steps = run(SseEvent(b"response.output_text.delta", data))
    assert steps == [(Kind.ANSWER, b"event: response.output_text.delta\ndata: " + data + b"\n\n")]


@pytest.mark.parametrize("name", ["", "message", "response.done"])
def test_the_name_is_always_the_type(name):
    _, steps = run(event("response.output_text.delta", name=name, delta="Hi"))
    assert steps[0].wire.startswith(b"event: response.output_text.delta\ndata: {")


def test_an_event_without_a_type_keeps_its_name():
    assert run(SseEvent(b"vendor", b"{}"))[1][0].wire == b"event: vendor\ndata: {}\n\n"
    assert run(SseEvent(b"", b"{}"))[1][0].wire == b"data: {}\n\n"


def test_case_92_a_type_cannot_forge_an_event():
    _, steps = run(SseEvent(b"", b'{"type":"x\\n\\ndata: forged"}'))
    assert steps[0].wire == b'data: {"type":"x\\n\\ndata: forged"}\n\n'


def test_data_of_several_lines_stays_so():
    _, steps = run(SseEvent(b"", b'{"type":\n"keepalive"}'))
    assert steps[0].wire == b'event: keepalive\ndata: {"type":\ndata: "keepalive"}\n\n'


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE]", b"", b" "])
def test_the_terminal_of_chat_and_blank_data_are_dropped(data):
    assert run(SseEvent(b"", data))[1] == [(Kind.QUIET, b"")]


@pytest.mark.parametrize("data", [b"{", b"nonsense", b'{"a":' + b"[" * 100_000])
def test_what_is_no_json_goes_on_unchanged_and_moves_nothing(data):
    named = SseEvent(b"response.output_text.delta", data)
    _, steps = run(named, delta(), named)
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.ANSWER, Kind.QUIET]
    assert steps[0].wire == b"event: response.output_text.delta\ndata: " + data + b"\n\n"


def test_a_terminal_that_is_no_json_is_none():
    found, steps = run(created(), delta(), SseEvent(b"response.completed", b'{"type":"response.completed","resp'))
    assert steps[2].kind is Kind.QUIET
    assert not found.finish(clean=True).complete


def test_an_error_event_of_plain_text_is_a_failure():
    found, steps = run(created(), SseEvent(b"error", b"boom"), SseEvent(b"x", b"{"))
    assert [step.kind for step in steps[1:]] == [Kind.FAILURE, Kind.QUIET]
    assert (found.error.message, steps[2].wire) == ("boom", b"")


# -- kinds ------------------------------------------------------------------------------------------------------------


def test_a_stream_is_opening_answer_terminal():
    found, steps = run(created(), event("response.in_progress", 1, response=RESPONSE), delta(), ended())
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.OPENING, Kind.ANSWER, Kind.TERMINAL]
    assert found.answered
    assert found.patience_s == 0
    assert found.finish(clean=False) == Finish(True, b"")


@pytest.mark.parametrize(
    "kind",
    [
        "response.output_item.added",
        "response.output_item.done",
        "response.content_part.added",
        "response.reasoning_summary_part.done",
        "response.output_text.annotation.added",
        "response.image_generation_call.partial_image",
        "response.web_search_call.searching",
        "response.code_interpreter_call.interpreting",
        "response.image_generation_call.generating",
        "response.mcp_list_tools.failed",
        "response.compaction.compacting",
    ],
)
def test_parts_and_phases_of_tools_move_the_answer(kind):
    assert kinds(event(kind, item={}, output_index=0)) == [Kind.ANSWER]


@pytest.mark.parametrize(
    "kind",
    ["output_text", "refusal", "reasoning_summary_text", "function_call_arguments", "custom_tool_call_input", "audio"],
)
def test_a_delta_moves_the_answer_unless_it_is_empty(kind):
    assert kinds(event(f"response.{kind}.delta", delta="a")) == [Kind.ANSWER]
    assert kinds(event(f"response.{kind}.delta", delta="")) == [Kind.OPENING]


def test_a_delta_may_be_an_object():
    kind = "response.shell_call_output_content.delta"
    assert kinds(event(kind, delta={"stdout": "x"}), event(kind, delta={})) == [Kind.ANSWER, Kind.QUIET]


def test_case_15_repeated_lifecycle_events_and_keepalives_are_no_progress():
    quiet = [
        event("response.in_progress", response=RESPONSE),
        event("keepalive"),
        event("response.queued"),
        event("ping"),
    ]
    assert kinds(*quiet) == [Kind.OPENING] * 4
    assert kinds(delta(), *quiet) == [Kind.ANSWER] + [Kind.QUIET] * 4


def test_case_15_a_phase_said_again_is_no_progress():
    phase = event("response.web_search_call.searching", item_id="ws_1")
    other = event("response.web_search_call.searching", item_id="ws_2")
    done = event("response.web_search_call.completed", item_id="ws_1")
    assert kinds(phase, other, done) == [Kind.ANSWER] * 3
    assert kinds(phase, other, phase, other, delta(), phase)[2:] == [Kind.QUIET, Kind.QUIET, Kind.ANSWER, Kind.QUIET]


# -- evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["completed", "incomplete"])
def test_case_55_the_terminal_proves_usage(kind):
    counts = run(created(), ended(kind, service_tier="priority"))[0].counts
    assert (counts.input, counts.output, counts.total) == (14, 58, 72)
    assert (counts.cached, counts.cache_write, counts.reasoning) == (3, 2, 7)
    assert counts.tier == "priority"
    assert json.loads(counts.raw) == USAGE


def test_case_55_a_failed_response_shows_its_usage_and_is_not_complete():
    found, steps = run(created(), ended("failed", error={"code": "server_error", "message": "m"}))
    assert steps[1].kind is Kind.FAILURE
    assert found.counts.total == 72
    assert found.finish(clean=True) == Finish(False, b"")


def test_usage_anywhere_else_is_no_evidence():
    found, _ = run(created(usage=USAGE), event("response.output_text.done", usage=USAGE))
    assert found.counts is None


@pytest.mark.parametrize("usage", [None, {}, USAGE | {"input_tokens": -1}, USAGE | {"output_tokens": 1.0}, "x"])
def test_a_terminal_without_valid_usage_ends_the_stream_all_the_same(usage):
    found, steps = run(created(), ended(usage=usage))
    assert steps[1].kind is Kind.TERMINAL
    assert found.counts is None
    assert found.finish(clean=True).complete


def test_an_odd_member_hides_no_other():
    odd = {"sequence_number": "7", "item_id": 3}
    terminal = event("response.completed", response=RESPONSE | {"usage": USAGE, "output": [{"id": 7}, 8]}, **odd)
    assert run(terminal)[0].counts.total == 72


def test_half_a_surrogate_pair_hides_no_terminal():
    data = ended().data.replace(b'"status":"completed"', rb'"status":"completed","text":"\ud83d"')
    found, steps = run(SseEvent(b"", data))
    assert steps[0].kind is Kind.TERMINAL
    assert found.counts.total == 72


def test_hosted_tool_calls_are_counted_from_the_output():
    output = [
        {"type": "web_search_call"},
        {"type": "web_search_call"},
        {"type": "file_search_call"},
        {"type": "message"},
    ]
    assert run(ended(output=output))[0].counts.tool_calls == {"web_search": 2, "file_search": 1}


def test_a_reported_count_of_searches_wins():
    output = [{"type": "web_search_call"}, {"type": "web_search_call"}]
    reported = {"web_search": {"num_requests": 1}}
    assert run(ended(output=output, tool_usage=reported))[0].counts.tool_calls == {"web_search": 1}
    xai = USAGE | {"server_side_tool_usage_details": {"web_search_calls": 0, "code_interpreter_calls": 2}}
    assert run(ended(output=output, usage=xai))[0].counts.tool_calls == {"code_interpreter": 2}


def test_ids_that_later_requests_may_refer_to_are_kept():
    found, _ = run(
        created(conversation={"id": "conv_1"}),
        event("response.output_item.added", item={"id": "rs_1", "type": "reasoning"}),
        event("response.output_item.done", item={"id": "msg_1", "type": "message"}),
        ended(output=[{"id": "rs_1"}, {"id": "msg_1"}, {"id": "fc_1"}]),
    )
    assert found.provider_ids == ("resp_1", "conv_1", "rs_1", "msg_1", "fc_1")


# -- the provider's errors --------------------------------------------------------------------------------------------


def test_case_31_a_failed_response_goes_on_unchanged():
    error = {"code": "content_filter", "message": "m", "innererror": {"code": "Filtered"}}
    failed = event("response.failed", 2, response=RESPONSE | {"status": "failed", "error": error})
    found, steps = run(created(), failed, delta())
    assert steps[1] == (Kind.FAILURE, b"event: response.failed\ndata: " + failed.data + b"\n\n")
    assert steps[2].wire == b""
    assert (found.error.status, found.error.code, found.patience_s) == (400, "content_filter", 0)


@pytest.mark.parametrize(
    "error",
    [
        event("error", 1, code="rate_limit_exceeded", message="m", param=None),
        event("error", 1, error={"type": "tokens", "code": "rate_limit_exceeded", "message": "m"}),
        SseEvent(b"", b'{"error":{"code":"rate_limit_exceeded","message":"m"}}'),
        SseEvent(b"error", b'{"code":"rate_limit_exceeded","message":"m"}'),
        SseEvent(b"", b'{"error":{"code":"rate_limit_exceeded","message":"m"}}', stray=True),
    ],
    ids=["flat", "nested", "without type", "named", "stray"],
)
def test_after_an_error_a_failed_response_is_awaited(error):
    found, steps = run(created(), error)
    assert steps[1] == (Kind.FAILURE, b"event: error\ndata: " + error.data + b"\n\n")
    assert (found.error.status, found.error.message, found.patience_s) == (429, "m", 5)
    assert found.feed(delta()) == (Kind.QUIET, b"")
    assert found.feed(ended()) == (Kind.QUIET, b"")
    failed = event("response.failed", 2, response=RESPONSE | {"error": {"code": "other", "message": "later"}})
    assert found.feed(failed) == (Kind.FAILURE, b"event: response.failed\ndata: " + failed.data + b"\n\n")
    assert (found.error.message, found.patience_s) == ("m", 0)
    assert not found.finish(clean=True).complete


def test_a_stray_object_that_is_no_error_is_not_forwarded():
    assert run(ended()._replace(stray=True))[1] == [(Kind.QUIET, b"")]


def test_case_47_an_end_without_terminal_is_not_complete():
    assert run(created(), delta())[0].finish(clean=True) == Finish(False, b"")


# -- our own failure --------------------------------------------------------------------------------------------------

BROKEN = UpstreamFailed("The provider's stream was interrupted.")


def test_case_30_our_failure_continues_the_stream():
    found, _ = run(created(0, instructions="be brief"), delta(number=7))
    [(name, value)] = parsed(found.failure(Reason.TRUNCATED, BROKEN))
    assert name == value["type"] == "response.failed"
    assert value["sequence_number"] == 8
    response = value["response"]
    assert (response["id"], response["status"], response["instructions"]) == ("resp_1", "failed", "be brief")
    assert response["error"] == {
        "code": "server_error",
        "message": "upstream_error: The provider's stream was interrupted.",
    }


def test_our_failure_creates_the_response_first_if_nothing_did():
    events = parsed(ResponsesReader(model="gpt").failure(Reason.DEADLINE, BROKEN))
    assert [name for name, _ in events] == ["response.created", "response.failed"]
    assert [value["sequence_number"] for _, value in events] == [0, 1]
    first, second = (value["response"] for _, value in events)
    assert first["id"] == second["id"]
    assert first["id"].startswith("resp_")
    assert (first["status"], first["error"], second["status"]) == ("in_progress", None, "failed")
    required = {"id", "object", "created_at", "model", "output", "parallel_tool_calls", "tool_choice", "tools"}
    assert required <= first.keys() & second.keys()
    assert (second["model"], second["output"], second["usage"]) == ("gpt", [], None)


def test_our_failure_counts_events_that_have_no_number():
    found, _ = run(event("response.created", response=RESPONSE), delta(), delta())
    [(_, value)] = parsed(found.failure(Reason.STALLED, BROKEN))
    assert value["sequence_number"] == 3


def test_our_failure_takes_the_place_of_a_terminal_that_was_held_back():
    found, _ = run(created(0), delta(number=1), ended(number=2, output=[{"id": "msg_1"}]))
    [(_, value)] = parsed(found.failure(Reason.INTERNAL, BROKEN))
    assert value["sequence_number"] == 2
    assert (value["response"]["status"], value["response"]["output"], value["response"]["usage"]) == (
        "failed",
        [],
        None,
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [(LimitExceeded("m"), "rate_limit_exceeded"), (BadRequest("m"), "invalid_prompt"), (BROKEN, "server_error")],
)
def test_our_failure_has_a_code_that_clients_know(error, code):
    value = parsed(ResponsesReader(model="m").failure(Reason.INTERNAL, error))[1][1]
    assert value["response"]["error"]["code"] == code


# -- whole answers ----------------------------------------------------------------------------------------------------


def read_body(value):
    return read(call(stream=False, framing=Framing.JSON), json.dumps(value).encode())


def test_a_whole_answer_proves_its_usage_and_ids():
    answer = read_body(RESPONSE | {"usage": USAGE, "error": None, "output": [{"id": "msg_1", "type": "message"}]})
    assert (answer.counts.input, answer.counts.output, answer.error) == (14, 58, None)
    assert answer.provider_ids == ("resp_1", "msg_1")


def test_an_error_inside_a_2xx_body_is_read():
    answer = read_body(RESPONSE | {"status": "failed", "error": {"code": "server_error", "message": "m"}})
    assert (answer.counts, answer.error.status, answer.error.message) == (None, 500, "m")
    assert read_body({"error": "m"}).error.message == "m"


@pytest.mark.parametrize("status", ["failed", "cancelled", "incomplete"])
def test_the_usage_beside_an_error_is_read(status):
    answer = read_body(RESPONSE | {"status": status, "error": {"code": "server_error"}, "usage": USAGE})
    assert (answer.error.status, answer.reported.input, answer.reported.output) == (500, 14, 58)


@pytest.mark.parametrize(
    ("status", "failed"), [("failed", True), ("cancelled", True), ("incomplete", False), ("completed", False)]
)
def test_a_response_that_says_it_failed_has(status, failed):
    assert (read_body(RESPONSE | {"status": status, "error": None, "usage": USAGE}).error is not None) is failed


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{", b"null"])
def test_a_body_that_is_no_answer_proves_nothing(body):
    answer = read(call(stream=False), body)
    assert (answer.counts, answer.error, answer.provider_ids) == (None, None, ())
