"""Every recorded Messages and Gemini stream: bytes, completeness and usage agree with what an independent parser
expects, whole and cut at random places (cases 42). Skipped where the recordings are not."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

from hoptrio.metering.evidence import usage
from hoptrio.protocols.events import Call, Framing, Kind, Protocol
from hoptrio.protocols.gemini.errors import read_error as read_gemini_error
from hoptrio.protocols.gemini.reader import reader as gemini_reader
from hoptrio.protocols.messages.errors import read_error as read_messages_error
from hoptrio.protocols.messages.reader import reader as messages_reader
from hoptrio.protocols.sse import Splitter

CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
MESSAGES = sorted(path.parent for path in CORPUS.glob("messages/*/response.sse"))
GEMINI = sorted(path.parent for path in CORPUS.glob("gemini/*/response.sse"))
ERRORS = sorted(path.parent for path in CORPUS.glob("http_errors/*/*/response.body"))
READERS = {"messages": messages_reader, "gemini": gemini_reader}

pytestmark = pytest.mark.skipif(not MESSAGES, reason="no recordings here")

recordings = pytest.mark.parametrize("recording", MESSAGES + GEMINI, ids=lambda path: f"{path.parent.name}-{path.name}")


def load(recording):
    return json.loads((recording / "expect.json").read_bytes()), (recording / "response.sse").read_bytes()


def run(recording, raw, *, framing=Framing.SSE, cuts=()):
    protocol = recording.parent.name
    call = Call(protocol=Protocol(protocol), model="m", stream=True, framing=framing, body={})
    reader = READERS[protocol](call, hide_usage=False)
    splitter = Splitter()
    places = [0, *sorted(cuts), len(raw)]
    events = [event for a, b in pairwise(places) for event in splitter.feed(raw[a:b])]
    return reader, [reader.feed(event) for event in events + splitter.finish()]


def recorded(raw):
    """The data payloads as they stand in the file; every recording has one ``data:`` line an event."""
    lines = re.split(rb"\r\n|\n|\r", raw)
    payloads = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return [data for data in payloads if data.strip() != b"[DONE]"]


def written(steps):
    """The (name, data) pairs of the bytes for the client."""
    for wire in (step.wire for step in steps if step.wire):
        name, _, data = wire.rpartition(b"data: ")
        assert data.endswith(b"\n\n")
        yield name.removeprefix(b"event: ").removesuffix(b"\n"), data[:-2]


def is_complete(expect):
    ending = expect.get("lenient_eof", {}).get("terminal") or expect["terminal"]
    failed = expect["error"] or expect.get("error_outside_data")
    return bool(ending["proper"] and not failed)


@recordings
def test_payloads_reach_the_client_byte_for_byte_and_in_order(recording):
    expect, raw = load(recording)
    _, steps = run(recording, raw)
    pairs = list(written(steps))
    own = [data for _, data in pairs][: len(recorded(raw))]
    assert own == recorded(raw)
    assert len(pairs) == len(own) + bool(expect.get("error_outside_data"))
    for name, data in pairs:
        assert name == (json.loads(data)["type"].encode() if recording.parent.name == "messages" else b"")


@recordings
def test_completeness_is_as_expected(recording):
    expect, raw = load(recording)
    reader, steps = run(recording, raw)
    assert reader.finish(clean=True).complete == is_complete(expect)
    assert (reader.error is not None) == bool(expect["error"] or expect.get("error_outside_data"))
    assert reader.answered >= any(step.kind is Kind.ANSWER for step in steps)
    assert reader.answered >= bool(expect["text"] or expect["reasoning_text"] or expect["tool_calls"])


@recordings
def test_usage_is_as_expected(recording):
    expect, raw = load(recording)
    reader, _ = run(recording, raw)
    reported = (expect.get("lenient_eof") or {}).get("usage") or expect["usage"]
    if not is_complete(expect) or reported is None:
        assert reader.counts is None
        return
    assert reader.counts is not None
    found = usage(reader.counts, Protocol(recording.parent.name), answered=reader.answered)
    assert found is not None
    assert found.flags == ()
    if recording.parent.name == "messages":
        merged = expect["usage_merged"]
        assert found.input == merged["input_tokens"]
        assert found.cached_input == (merged.get("cache_read_input_tokens") or 0)
        assert found.cache_write + found.cache_write_1h == (merged.get("cache_creation_input_tokens") or 0)
        assert found.output == reported["output_tokens"]
    else:
        assert found.all_input == reported["promptTokenCount"] + reported.get("toolUsePromptTokenCount", 0)
        assert found.cached_input == reported.get("cachedContentTokenCount", 0)
        assert found.all_input + found.output == reported["totalTokenCount"]
        assert json.loads(reader.counts.raw) == reported


@recordings
def test_it_does_not_matter_how_the_bytes_arrive(recording):
    _, raw = load(recording)
    places = random.Random(7)
    reader, steps = run(recording, raw, cuts=[places.randrange(len(raw)) for _ in range(60)])
    whole, whole_steps = run(recording, raw)
    assert steps == whole_steps
    assert reader.counts == whole.counts


@recordings
def test_case_42_a_stream_cut_anywhere_is_complete_only_with_its_terminal(recording):
    expect, raw = load(recording)
    places = random.Random(11)
    for _ in range(20):
        cut = raw[: places.randrange(len(raw))]
        reader, steps = run(recording, cut)
        terminal = any(step.kind is Kind.TERMINAL for step in steps)
        if reader.finish(clean=False).complete:
            assert terminal
        if not is_complete(expect) and not expect.get("error_outside_data"):
            assert reader.counts is None


@pytest.mark.parametrize("recording", GEMINI, ids=lambda path: path.name)
def test_the_array_form_holds_the_same_elements(recording):
    _, raw = load(recording)
    reader, steps = run(recording, raw, framing=Framing.JSON_ARRAY)
    body = b"".join(step.wire for step in steps) + (reader.finish(clean=True).wire or b"]")
    assert json.loads(body)[: len(recorded(raw))] == [json.loads(data) for data in recorded(raw)]


@pytest.mark.parametrize("recording", ERRORS, ids=lambda path: path.name)
@pytest.mark.parametrize("read_error", [read_messages_error, read_gemini_error])
def test_every_recorded_http_error_is_read(recording, read_error):
    status = json.loads((recording / "meta.json").read_bytes())["http_status"]
    body = (recording / "response.body").read_bytes()
    found = read_error(status, {}, body)
    assert found.status == status
    assert found.message or not body.strip().startswith(b"{")
