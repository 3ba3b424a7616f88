"""Every recorded Chat and Responses stream through splitter and reader: bytes, completeness and counts agree with what
an independent parser expects. Skipped where the recordings are not."""

from __future__ import annotations

import json
import os
import random
from itertools import pairwise
from pathlib import Path

import pytest

from hoptrio.protocols.chat.reader import ChatReader
from hoptrio.protocols.events import Kind
from hoptrio.protocols.openai_errors import read_error
from hoptrio.protocols.responses.reader import ResponsesReader
from hoptrio.protocols.sse import Splitter

CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
RECORDINGS = {
    protocol: sorted(path.parent for path in (CORPUS / protocol).glob("*/response.sse"))
    for protocol in ("chat", "responses")
}
REFUSALS = sorted(path.parent for path in (CORPUS / "http_errors").glob("*/*/response.body"))

pytestmark = pytest.mark.skipif(not RECORDINGS["chat"], reason="no recordings here")


def each(protocol):
    return pytest.mark.parametrize("recording", RECORDINGS[protocol], ids=lambda path: path.name)


def test_case_42_chat_has_recordings_to_read():
    assert len(RECORDINGS["chat"]) > 50
    assert len(RECORDINGS["responses"]) > 50


@each("chat")
@pytest.mark.parametrize("cuts", ["whole", "random", "reads of 7"])
def test_a_chat_recording_is_read_as_expected(recording, cuts):
    expect, raw = load(recording)
    reader = ChatReader(hide_usage=False)
    steps, finish = run(reader, cut(raw, cuts))
    assert payloads(steps) == recorded(raw, expect)
    ends_well = expect["terminal"]["proper"] or expect["terminal"]["finish_reason_seen"]
    failed = bool(expect["error"]) or bool(expect.get("error_outside_data"))
    assert (reader.error is not None) == failed
    assert finish.complete == (ends_well and not failed)
    assert_usage(reader.counts, expect["usage"], "prompt_tokens", "completion_tokens")
    assert reader.answered == bool(expect["text"] or expect["reasoning_text"] or answers_otherwise(expect))


@each("chat")
def test_a_chat_recording_without_usage_shows_none(recording):
    _, raw = load(recording)
    shown, hidden = ChatReader(hide_usage=False), ChatReader(hide_usage=True)
    visible = [data for data in payloads(run(shown, [raw])[0]) if is_error(data) or not is_usage_chunk(data)]
    withheld = payloads(run(hidden, [raw])[0])
    assert hidden.counts == shown.counts
    assert [parse(data) for data in withheld] == [without_usage(data) for data in visible]
    assert all(is_cut_of(short, data) for short, data in zip(withheld, visible, strict=True))


@each("responses")
@pytest.mark.parametrize("cuts", ["whole", "random", "reads of 7"])
def test_a_responses_recording_is_read_as_expected(recording, cuts):
    expect, raw = load(recording)
    reader = ResponsesReader(model="m")
    steps, finish = run(reader, cut(raw, cuts))
    assert payloads(steps) == [data for data in recorded(raw, expect) if data != b"[DONE]"]
    assert all(name == json.loads(data)["type"].encode() for name, data in named(steps))
    complete = expect["terminal"]["kind"] in ("response.completed", "response.incomplete")
    assert finish.complete == complete
    assert (reader.error is not None) == bool(expect["error"])
    assert_usage(reader.counts, expect["usage"], "input_tokens", "output_tokens")
    assert reader.provider_ids[0] == expect["response_id"]


@pytest.mark.parametrize("recording", REFUSALS, ids=lambda path: path.name)
def test_a_recorded_refusal_is_read(recording):
    status = json.loads((recording / "meta.json").read_bytes())["http_status"]
    body = (recording / "response.body").read_bytes()
    found = read_error(status, {}, body)
    assert found.status == status
    assert len(found.message) > 8
    assert json.dumps(found.message)[1:-1].encode() in body
    assert found.code or found.type or b"code" not in body


# -- an oracle of its own: a plain parser of complete bodies ----------------------------------------------------------


def load(recording):
    return json.loads((recording / "expect.json").read_bytes()), (recording / "response.sse").read_bytes()


def recorded(raw, expect):
    """The data payloads in order: blocks between blank lines, and the last one even without its own. After an error
    nothing is forwarded but the ``response.failed`` it announces."""
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found = []
    for block in text.split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            found.append(b"\n".join(lines))
        found += [line[7:] for line in block.split(b"\n") if line.startswith(b"error: {")]
    if "sequence_number" not in str(found[:1]) and expect["error"]:
        return [data for data in found if data != b"[DONE]"]
    return found


def cut(raw, how):
    if how == "whole":
        return [raw]
    if how == "reads of 7":
        return [raw[at : at + 7] for at in range(0, len(raw), 7)]
    places = random.Random(len(raw))
    ends = sorted({0, len(raw), *(places.randrange(len(raw)) for _ in range(40))})
    return [raw[start:end] for start, end in pairwise(ends)]


def run(reader, reads):
    splitter, steps = Splitter(), []
    for read in reads:
        steps += [reader.feed(event) for event in splitter.feed(read)]
    steps += [reader.feed(event) for event in splitter.finish()]
    return steps, reader.finish(clean=True)


def named(steps):
    for step in steps:
        for block in step.wire.split(b"\n\n")[:-1]:
            name, _, data = block.rpartition(b"\ndata: ") if b"\ndata: " in block else (b"", b"", block[6:])
            yield name.removeprefix(b"event: "), data


def payloads(steps):
    assert all(step.wire.endswith(b"\n\n") for step in steps if step.wire)
    assert all(step.wire for step in steps if step.kind is Kind.ANSWER)
    return [data for _, data in named(steps)]


def assert_usage(counts, usage, prompt, output):
    numbers = usage and all(isinstance(usage.get(name), int) for name in (prompt, output))
    if not numbers:
        assert counts is None
        return
    assert (counts.input, counts.output, counts.total) == (usage[prompt], usage[output], usage.get("total_tokens"))
    assert json.loads(counts.raw) == usage
    details = usage.get(f"{prompt}_details") or {}
    if details.get("cached_tokens"):
        assert counts.cached == details["cached_tokens"]
    reasoning = (usage.get(f"{output}_details") or {}).get("reasoning_tokens")
    if reasoning:
        assert counts.reasoning == reasoning


def answers_otherwise(expect):
    return expect["tool_calls"] or expect["refusal_text"] or expect.get("audio") or expect.get("texts_by_choice")


def parse(data):
    return data if data == b"[DONE]" else json.loads(data)


def is_usage_chunk(data):
    value = parse(data)
    return isinstance(value, dict) and not value.get("choices") and isinstance(value.get("usage"), dict)


def is_error(data):
    return b'"error"' in data


def is_cut_of(short, data):
    """One span at most is missing, nothing else differs."""
    same = next((at for at, (a, b) in enumerate(zip(short, data, strict=False)) if a != b), len(short))
    return data.endswith(short[same:])


def without_usage(data):
    value = parse(data)
    return {key: value[key] for key in value if key != "usage"} if isinstance(value, dict) else value
