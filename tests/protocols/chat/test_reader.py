"""What a Chat stream means: kinds, evidence, withheld usage, the end."""

from __future__ import annotations

import json

import pytest

from hoptrio.contract import Reason
from hoptrio.errors import UpstreamFailed
from hoptrio.limits import TOKENS_MAX
from hoptrio.protocols.chat.reader import ChatReader, read, reader
from hoptrio.protocols.events import Call, Finish, Framing, Kind, Protocol, SseEvent
from hoptrio.protocols.sse import Splitter

USAGE = {"prompt_tokens": 14, "completion_tokens": 52, "total_tokens": 66}
DONE = SseEvent(b"", b"[DONE]")


def call(**changes):
    fields = {"model": "m", "stream": True, "framing": Framing.SSE, "body": {}} | changes
    return Call(protocol=Protocol.CHAT, **fields)


def chunk(*choices, **members):
    value = {"id": "c", "object": "chat.completion.chunk", "choices": list(choices)} | members
    return SseEvent(b"", json.dumps(value, separators=(",", ":")).encode())


def said(content="Hi", index=0, **changes):
    return {"index": index, "delta": {"content": content}, "finish_reason": None} | changes


def ended(index=0, reason="stop"):
    return {"index": index, "delta": {}, "finish_reason": reason}


def run(*events, hide_usage=False):
    found = reader(call(), hide_usage=hide_usage)
    return found, [found.feed(event) for event in events]


def wires(steps):
    return [step.wire for step in steps]


def kind_of(event):
    return run(event)[1][0].kind


# -- kinds ------------------------------------------------------------------------------------------------------------


def test_a_stream_is_opening_answer_quiet_terminal():
    opening = chunk({"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None})
    found, steps = run(opening, chunk(said()), chunk(ended()), chunk(usage=USAGE), DONE)
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.ANSWER, Kind.QUIET, Kind.QUIET, Kind.TERMINAL]
    assert found.answered
    assert found.finish(clean=True) == Finish(True, b"")


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"content": [{"type": "thinking", "thinking": "a"}]},
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"reasoning_details": [{"type": "reasoning.encrypted"}]},
        {"refusal": "no"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"function_call": {"arguments": "{"}},
        {"audio": {"data": "AAAA"}},
        {"images": [{"image_url": {"url": "data:"}}]},
        {"executed_tools": [{"index": 0}]},
    ],
    ids=lambda delta: next(iter(delta)),
)
def test_whatever_the_model_says_moves_the_answer(delta):
    assert kind_of(chunk({"index": 0, "delta": delta})) is Kind.ANSWER


@pytest.mark.parametrize(
    "delta",
    [
        None,
        {},
        {"role": "assistant"},
        {"content": ""},
        {"content": None, "tool_calls": None},
        {"reasoning_details": []},
    ],
)
def test_an_empty_delta_moves_nothing(delta):
    assert kind_of(chunk({"index": 0, "delta": delta})) is Kind.OPENING


def calling(*calls, **function_call):
    delta = {"function_call": function_call} if function_call else {"tool_calls": list(calls)}
    return chunk({"index": 0, "delta": delta, "finish_reason": None})


FIRST = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}


@pytest.mark.parametrize(
    "again",
    [
        FIRST,
        {"index": 0, "function": {"arguments": ""}},
        {"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": None}},
        {"index": 0, "id": "", "function": {}},
    ],
)
def test_a_call_moves_the_answer_when_it_begins_and_not_when_that_is_said_again(again):
    found, steps = run(calling(FIRST), calling(again), calling(again))
    assert [step.kind for step in steps] == [Kind.ANSWER, Kind.QUIET, Kind.QUIET]
    assert found.answered


@pytest.mark.parametrize(
    "more",
    [
        {"index": 0, "function": {"arguments": " "}},
        FIRST | {"function": {"name": "f", "arguments": "{"}},
        {"index": 0, "custom": {"input": "x"}},
        {"index": 0, "unheard_of": {}},
    ],
)
def test_each_piece_of_its_arguments_moves_the_answer(more):
    _, steps = run(calling(FIRST), calling(more), calling(more))
    assert [step.kind for step in steps] == [Kind.ANSWER] * 3


def test_each_further_call_moves_the_answer_once():
    second, reused = FIRST | {"index": 1, "id": "b"}, FIRST | {"id": "c"}
    _, steps = run(*(calling(each) for each in (FIRST, second, reused, FIRST, second, reused)))
    assert [step.kind for step in steps] == [Kind.ANSWER] * 3 + [Kind.QUIET] * 3


def test_so_does_the_old_function_call():
    events = [calling(name="f", arguments=""), calling(name="f", arguments=""), calling(arguments="{}")]
    assert [step.kind for step in run(*events)[1]] == [Kind.ANSWER, Kind.QUIET, Kind.ANSWER]


def test_case_90_the_first_chunk_of_azure_is_an_opening():
    assert kind_of(chunk(id="", prompt_filter_results=[{"prompt_index": 0}])) is Kind.OPENING


def test_a_whole_message_in_place_of_a_delta_is_read():
    assert kind_of(chunk({"index": 0, "message": {"content": "Hi"}})) is Kind.ANSWER


def test_data_goes_on_unchanged_and_without_a_name():
    data = '{ "choices" : [{"delta":{"content":"\\u00e9\u2028"}}] ,"vendor":1.0}'.encode()
    found = reader(call(), hide_usage=False)
    assert found.feed(SseEvent(b"message", data)).wire == b"data: " + data + b"\n\n"


def test_case_91_tool_calls_go_on_unchanged():
    events = [
        chunk({"delta": {"tool_calls": [{"function": {"name": "f", "arguments": ""}}]}}),
        chunk({"delta": {"tool_calls": [{"index": 1, "id": "b"}, {"index": 0, "function": {"arguments": "{"}}]}}),
    ]
    assert wires(run(*events)[1]) == [b"data: " + event.data + b"\n\n" for event in events]


def test_blank_data_is_not_forwarded():
    assert wires(run(SseEvent(b"", b""), SseEvent(b"ping", b"  "))[1]) == [b"", b""]


@pytest.mark.parametrize("data", [b"{", b"nonsense", b"[1]", b"7", b'{"a":' + b"[" * 100_000])
def test_what_is_no_chunk_goes_on_unchanged_and_moves_nothing(data):
    found, steps = run(SseEvent(b"", data), chunk(said()), SseEvent(b"", data))
    assert [step.kind for step in steps] == [Kind.OPENING, Kind.ANSWER, Kind.QUIET]
    assert steps[0].wire == b"data: " + data + b"\n\n"
    assert found.error is None


def test_half_a_surrogate_pair_is_read():
    data = rb'{"choices":[{"delta":{"content":"\ud83d"},"finish_reason":"stop"}]}'
    found, steps = run(SseEvent(b"", data))
    assert steps[0].kind is Kind.ANSWER
    assert steps[0].wire == b"data: " + data + b"\n\n"
    assert found.finish(clean=True).complete


# -- evidence ---------------------------------------------------------------------------------------------------------


def counted(*usages, **options):
    return run(*(chunk(usage=usage) for usage in usages), **options)[0].counts


def test_case_60_usage_counts_wherever_it_stands():
    for event in (chunk(usage=USAGE), chunk(ended(), usage=USAGE), chunk(said(), usage=USAGE)):
        counts = run(event)[0].counts
        assert (counts.input, counts.output, counts.total) == (14, 52, 66)


def test_case_52_the_last_usage_counts_once():
    counts = counted({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}, USAGE)
    assert counts.output == 52


def test_a_zero_usage_does_not_displace_one_that_counts():
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert counted(zero, USAGE, zero, None).output == 52
    assert counted(zero).output == 0


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        "x",
        {"prompt_tokens": 1},
        USAGE | {"prompt_tokens": -1},
        USAGE | {"completion_tokens": 5.0},
        USAGE | {"completion_tokens": "5"},
        USAGE | {"completion_tokens": True},
        USAGE | {"completion_tokens": None},
        USAGE | {"completion_tokens": TOKENS_MAX + 1},
        USAGE | {"prompt_tokens": 2**63},
        USAGE | {"total_tokens": -1},
        USAGE | {"prompt_tokens_details": {"cached_tokens": -1}},
    ],
)
def test_case_67_what_is_no_count_is_no_evidence_and_hides_nothing(usage):
    found, steps = run(chunk(said(), usage=usage), chunk(ended(), usage=usage))
    assert found.counts is None
    assert steps[0].kind is Kind.ANSWER
    assert found.finish(clean=True).complete


def test_an_odd_member_hides_no_other():
    odd = {"index": "0", "delta": {"content": "Hi"}, "finish_reason": "stop"}
    found, steps = run(chunk(odd, 7, service_tier={"a": 1}, usage=USAGE))
    assert steps[0].kind is Kind.ANSWER
    assert found.counts.total == 66
    assert found.finish(clean=True).complete


def test_a_vendor_member_is_neither_evidence_nor_withheld():
    event = chunk(ended(), x_groq={"id": "r", "usage": USAGE})
    found, steps = run(event, hide_usage=True)
    assert found.counts is None
    assert steps[0].wire == b"data: " + event.data + b"\n\n"


def test_the_tier_is_kept_whenever_it_comes():
    assert run(chunk(service_tier="priority"), chunk(usage=USAGE))[0].counts.tier == "priority"
    assert run(chunk(usage=USAGE), chunk(service_tier="priority"))[0].counts.tier == "priority"


# -- withheld usage ---------------------------------------------------------------------------------------------------


def test_case_65_the_usage_chunk_is_withheld_and_counts():
    found, steps = run(chunk(said(), usage=None), chunk(ended(), usage=None), chunk(usage=USAGE), DONE, hide_usage=True)
    assert b"usage" not in b"".join(wires(steps))
    assert steps[2].wire == b""
    assert steps[2].kind is Kind.QUIET
    assert found.counts.total == 66


def test_usage_on_a_chunk_with_text_is_cut_and_the_text_stays():
    _, steps = run(chunk(said(), usage=USAGE), hide_usage=True)
    assert steps[0].wire == b"data: " + chunk(said()).data + b"\n\n"


def test_usage_is_shown_to_a_client_that_asked():
    events = [chunk(said(), usage=None), chunk(usage=USAGE)]
    assert wires(run(*events)[1]) == [b"data: " + event.data + b"\n\n" for event in events]


# -- errors -----------------------------------------------------------------------------------------------------------

ERRORS = {
    "object": ({"error": {"message": "m", "type": "server_error", "code": None}}, 500, "m"),
    "integer code": ({"error": {"message": "m", "code": 429}}, 429, "m"),
    "text": ({"error": "m"}, 502, "m"),
    "groq": ({"error": {"message": "m", "code": "tool_use_failed", "status_code": 400}}, 400, "m"),
    "itself": ({"object": "error", "message": "m", "code": 400}, 400, "m"),
    "without object": ({"message": "m", "code": "model_not_found"}, 404, "m"),
    "beside a choice": ({"id": "c", "error": {"message": "m", "code": 502}, "choices": [said("")]}, 502, "m"),
}


@pytest.mark.parametrize(("value", "status", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_a_failure_that_goes_on_unchanged(value, status, message):
    data = json.dumps(value).encode()
    found, steps = run(chunk(said()), SseEvent(b"", data))
    assert steps[1] == (Kind.FAILURE, b"data: " + data + b"\n\n")
    assert (found.error.status, found.error.message) == (status, message)
    assert found.patience_s == 0


def test_case_27_nothing_follows_an_error():
    found, steps = run(
        chunk(ended(), usage=USAGE), SseEvent(b"error", b'{"error":{"message":"m"}}'), DONE, chunk(said())
    )
    assert wires(steps)[2:] == [b"", b""]
    assert found.finish(clean=True) == Finish(False, b"")


def test_a_finish_reason_of_error_is_a_failure():
    found, steps = run(chunk(said()), chunk(ended(reason="error"), usage=USAGE))
    assert steps[1].kind is Kind.FAILURE
    assert found.error.status == 502
    assert found.counts.total == 66


@pytest.mark.parametrize("empty", [None, "", {}, False])
def test_an_empty_error_member_is_none(empty):
    found, steps = run(chunk(said(), error=empty))
    assert steps[0].kind is Kind.ANSWER
    assert found.error is None


def test_an_error_outside_data_becomes_an_event():
    found = reader(call(), hide_usage=False)
    steps = [found.feed(event) for event in Splitter().feed(b'error: {"detail":"d","error":{"message":"m"}}\n\n')]
    assert steps == [(Kind.FAILURE, b'data: {"detail":"d","error":{"message":"m"}}\n\n')]
    assert found.error.message == "m"


def test_a_stray_object_that_is_no_error_is_not_forwarded():
    found = reader(call(), hide_usage=False)
    assert found.feed(SseEvent(b"", b'{"choices":[]}', stray=True)) == (Kind.QUIET, b"")


def test_an_error_event_of_plain_text_is_a_failure():
    found, steps = run(SseEvent(b"error", b"boom"))
    assert steps[0].kind is Kind.FAILURE
    assert found.error.message == "boom"


# -- the end ----------------------------------------------------------------------------------------------------------


def test_done_is_complete_and_nothing_follows_it():
    found, steps = run(chunk(said()), SseEvent(b"", b" [DONE] "), chunk(said()))
    assert steps[1] == (Kind.TERMINAL, b"data:  [DONE] \n\n")
    assert steps[2].wire == b""
    assert found.patience_s == 0
    assert found.finish(clean=False) == Finish(True, b"")


def test_case_24_done_is_supplied_where_a_complete_stream_lacks_it():
    found, _ = run(chunk(said()), chunk(ended(), usage=USAGE))
    assert found.finish(clean=True) == Finish(True, b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [chunk(usage=USAGE)],
        [chunk(said(), usage=USAGE)],
        [chunk(said(), said(index=1)), chunk(ended(), usage=USAGE)],
    ],
    ids=["nothing", "usage alone", "no finish", "one of two choices"],
)
def test_case_22_a_stream_that_does_not_end_is_not_complete(events):
    assert run(*events)[0].finish(clean=True) == Finish(False, b"")


def test_case_25_a_broken_connection_without_done_is_not_complete():
    found, _ = run(chunk(said()), chunk(ended(), usage=USAGE))
    assert found.finish(clean=False) == Finish(False, b"")


def test_every_choice_must_finish():
    found, _ = run(chunk(said(), said(index=1)), chunk(ended(1)), chunk(ended()), chunk(said("")))
    assert found.finish(clean=True).complete


def test_case_42_a_stream_cut_anywhere_is_complete_only_with_its_terminal():
    events = [chunk(said()), chunk(ended()), chunk(usage=USAGE), DONE]
    body = b"".join(b"data: " + event.data + b"\n\n" for event in events)
    done_at = body.index(b"[DONE]") + len(b"[DONE]")
    for at in range(len(body) + 1):
        splitter, found = Splitter(), ChatReader(hide_usage=False)
        for event in splitter.feed(body[:at]):
            found.feed(event)
        assert found.finish(clean=False).complete == (at == len(body))
        for event in splitter.finish() if at < len(body) else ():
            found.feed(event)
        assert found._over == (at >= done_at)


def test_case_28_our_own_error_is_one_event_with_all_keys():
    error = UpstreamFailed("The provider's stream was interrupted.", code="upstream_interrupted")
    wire = run(chunk(said()))[0].failure(Reason.TRUNCATED, error)
    assert wire.startswith(b"data: {")
    assert wire.endswith(b"}\n\n")
    assert json.loads(wire[6:])["error"] == {
        "message": "The provider's stream was interrupted.",
        "type": "server_error",
        "param": None,
        "code": "upstream_interrupted",
    }


# -- whole answers ----------------------------------------------------------------------------------------------------


def read_body(value, **changes):
    return read(call(stream=False, framing=Framing.JSON, **changes), json.dumps(value).encode())


def test_a_whole_answer_proves_its_usage():
    answer = read_body({"id": "c", "choices": [], "usage": USAGE, "service_tier": "default"})
    assert (answer.counts.input, answer.counts.output, answer.counts.tier) == (14, 52, "default")
    assert json.loads(answer.counts.raw) == USAGE
    assert (answer.error, answer.provider_ids) == (None, ())


def test_a_whole_answer_without_usage_proves_nothing():
    assert read_body({"choices": []}).counts is None
    assert read_body({"choices": [], "usage": {}}).counts is None


def test_an_error_inside_a_2xx_body_is_read_with_the_usage_beside_it():
    answer = read_body({"error": {"message": "m", "code": 429}, "usage": USAGE})
    assert (answer.error.status, answer.error.message) == (429, "m")
    assert (answer.reported.input, answer.reported.output) == (14, 52)
    assert read_body({"error": {"message": "m", "code": 429}}).reported is None


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{", b"null"])
def test_a_body_that_is_no_answer_proves_nothing(body):
    answer = read(call(stream=False), body)
    assert (answer.counts, answer.error) == (None, None)


def test_embeddings_have_no_output():
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    counts = read_body({"data": [], "usage": usage}, operation="embeddings").counts
    assert (counts.input, counts.output, counts.total) == (8, 0, 8)


def test_images_sold_by_the_image_are_counted_with_or_without_tokens():
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    counts = read_body({"data": [{}, {}], "usage": usage}, operation="images", by_image=True).counts
    assert (counts.images, counts.input, counts.output) == (2, 5, 7)
    assert read_body({"data": [{}]}, operation="images", by_image=True).counts.images == 1
    assert read_body({"usage": usage}, operation="images", by_image=True).counts is None


def test_images_sold_by_tokens_are_no_evidence_by_themselves():
    usage = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    counts = read_body({"data": [{}, {}], "usage": usage}, operation="images").counts
    assert (counts.images, counts.input, counts.output) == (None, 5, 7)
    assert read_body({"data": [{}]}, operation="images").counts is None
    assert (
        read_body({"data": [{}], "usage": {"input_tokens": -1, "output_tokens": 7}}, operation="images").counts is None
    )
