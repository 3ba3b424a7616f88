"""Events of megabytes, compressed and close-delimited bodies, through the whole gateway."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from hoptrio import limits
from tests.contract.test_cells import payloads
from tests.support.harness import gateway
from tests.support.provider import END, SSE_HEAD, Cut, chunk, plain, sse
from tests.support.slow import slow_client
from tests.support.streams import CHAT, GEMINI, RESPONSES, SAMPLES, data

MIB = 1024 * 1024
ALL = list(SAMPLES.values())
each_sample = pytest.mark.parametrize("sample", ALL, ids=SAMPLES)


def image(size):
    """A Gemini event with an image of about `size` bytes."""
    part = {"inlineData": {"mimeType": "image/png", "data": "A" * size}}
    return data({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})


def cut(raw, size):
    return [raw[at : at + size] for at in range(0, len(raw), size)]


@pytest.mark.parametrize("mebibytes", [1, 2, 4, 6, 8])
async def test_case_88_an_event_with_an_image_passes_untouched(mebibytes, autojump_clock):
    event = image(mebibytes * MIB)
    reads = [chunk(piece) for piece in cut(event, 16384)]
    async with gateway([SSE_HEAD, *reads, *(chunk(each) for each in GEMINI.events), END]) as world:
        response = await world.call("gemini")
        assert (await world.record(response)).charge_nanos == GEMINI.charge_nanos
    assert response.data == payloads(event, *GEMINI.events)
    assert response.clean


async def test_an_event_larger_than_the_buffer_is_admitted_to_an_empty_one(autojump_clock):
    """8 MiB for a client behind a small socket buffer that reads on."""
    event = image(8 * MIB)
    assert len(event) > limits.BACKLOG_BYTES_MAX
    async with gateway(sse(event, *GEMINI.terminal)) as world:
        client = slow_client(world, buffer_bytes=32768)
        await world.start("gemini", client=client)
        response = await client.read()
        assert (await world.record(response)).state == "captured"
        await client.leave()
    assert response.data == payloads(event, *GEMINI.terminal)
    assert response.clean


async def test_case_88_an_event_over_the_limit_fails_the_stream(autojump_clock):
    async with gateway(sse(GEMINI.answer[0], image(limits.EVENT_BYTES_MAX), *GEMINI.terminal)) as world:
        response = await world.call("gemini")
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "event_too_large")
    assert response.data[:-1] == payloads(GEMINI.answer[0])
    assert not response.clean


# -- compressed -------------------------------------------------------------------------------------------------------


def head(*lines):
    return b"".join(line + b"\r\n" for line in (b"HTTP/1.1 200 OK", b"content-type: text/event-stream", *lines, b""))


def deflate(raw):
    return zlib.compress(raw)


@each_sample
@pytest.mark.parametrize(("label", "press"), [(b"gzip", gzip.compress), (b"deflate", deflate)], ids=["gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 64, 100_000], ids=["bytes", "pieces", "whole"])
async def test_a_labelled_compression_is_undone(sample, label, press, size, autojump_clock):
    pieces = [chunk(piece) for piece in cut(press(b"".join(sample.events)), size)]
    async with gateway([head(b"content-encoding: " + label, b"transfer-encoding: chunked"), *pieces, END]) as world:
        response = await world.call(sample.kind)
        assert b"accept-encoding: identity" in world.provider.seen[0].head.lower()
        assert (await world.record(response)).charge_nanos == sample.charge_nanos
    assert "content-encoding" not in response.headers
    assert response.data == payloads(*sample.events)
    assert response.clean


@each_sample
async def test_a_compression_without_a_label_is_refused(sample, autojump_clock):
    pressed = gzip.compress(b"".join(sample.events))
    async with gateway([head(b"transfer-encoding: chunked"), chunk(pressed), END]) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert response.status in (502, 503)
    assert pressed not in response.raw + response.body
    assert (record.state, record.reason) == ("released", "provider_error")


async def test_a_labelled_compression_that_breaks_is_a_failure(autojump_clock):
    pressed = gzip.compress(b"".join(CHAT.events))
    broken = pressed[: len(pressed) // 2] + b"\0" * 20
    async with gateway([head(b"content-encoding: gzip", b"transfer-encoding: chunked"), chunk(broken), END]) as world:
        response = await world.call("chat")
        record = await world.record(response)
    assert (record.state, record.charge_nanos) == ("released", 0)
    assert b"[DONE]" not in response.body


async def test_a_large_event_passes_compressed(autojump_clock):
    """A bomb's ratio, but within what is free."""
    event = data({"candidates": [{"content": {"parts": [{"text": "x" * 900_000}]}, "index": 0}]})
    pressed = gzip.compress(event + GEMINI.terminal[0])
    async with gateway([head(b"content-encoding: gzip", b"transfer-encoding: chunked"), chunk(pressed), END]) as world:
        response = await world.call("gemini")
    assert response.data == payloads(event, *GEMINI.terminal)


# -- delimited by the close -------------------------------------------------------------------------------------------


@each_sample
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_a_body_that_the_close_delimits_is_complete_with_its_terminal(sample, version, autojump_clock):
    begin = head().replace(b"HTTP/1.1", b"HTTP/" + version)
    async with gateway([begin, *sample.events, Cut()]) as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).charge_nanos == sample.charge_nanos
    assert response.data == payloads(*sample.events)
    assert response.clean


@each_sample
async def test_case_25_a_body_that_the_close_delimits_is_no_answer_without_its_terminal(sample, autojump_clock):
    async with gateway([head(), *sample.opening, *sample.answer, Cut()]) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "truncated")
    assert not response.clean


@each_sample
async def test_a_whole_answer_of_megabytes_passes_untouched(sample, autojump_clock):
    """Not streaming; with a length, and delimited by the close."""
    raw = json.dumps({**sample.body, "padding": "x" * (6 * MIB)}).encode()
    path = "/v1beta/models/m:generateContent" if sample.kind == "gemini" else None
    body = {"chat": {"messages": [{"role": "user", "content": "hi"}]}, "responses": {"input": "hi"}}.get(
        sample.kind, {"max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
    )
    body = {"contents": [{"parts": [{"text": "hi"}]}]} if sample.kind == "gemini" else {"model": "m", **body}
    closed = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", *cut(raw, 65536), Cut()]
    async with gateway(plain(200, raw), closed) as world:
        for _ in range(2):
            response = await world.call(sample.kind, body, path=path)
            assert response.body == raw
            assert (await world.record(response)).charge_nanos == sample.charge_nanos


async def test_a_whole_answer_over_the_limit_is_a_failure_of_the_provider(autojump_clock, monkeypatch):
    monkeypatch.setattr(limits, "UNARY_BYTES_MAX", 100_000)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with gateway(plain(200, json.dumps({**CHAT.body, "padding": "x" * 100_000}).encode())) as world:
        response = await world.call("chat", body)
        record = await world.record(response)
    assert (response.status, record.state, record.reason) == (502, "released", "event_too_large")


# -- dialects ---------------------------------------------------------------------------------------------------------


def spelled(sample, how):
    """The same stream, as another provider would spell it."""
    raw = b"".join(sample.events)
    if how == "crlf":
        return raw.replace(b"\n", b"\r\n")
    if how == "cr":
        return raw.replace(b"\n", b"\r")
    if how == "bom":
        return b"\xef\xbb\xbf" + raw
    if how == "no space":
        return raw.replace(b"data: ", b"data:")
    if how == "ids and comments":
        return b": hello\n\n" + raw.replace(b"data: ", b"id: 7\nretry: 5\n: busy\ndata: ") + b": bye\n\n"
    if how == "no last blank line":
        return raw.removesuffix(b"\n\n")
    assert how == "unnamed"
    return b"".join(event[event.index(b"data: ") :] for event in sample.events)


SPELLINGS = ["crlf", "cr", "bom", "no space", "ids and comments", "no last blank line", "unnamed"]


@each_sample
@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize("size", [1, 50_000], ids=["bytes", "whole"])
async def test_case_81_and_85_however_a_provider_spells_it_the_payloads_are_the_same(sample, how, size, autojump_clock):
    pieces = [chunk(piece) for piece in cut(spelled(sample, how), size)]
    async with gateway([SSE_HEAD, *pieces, END]) as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).charge_nanos == sample.charge_nanos
    assert response.data == payloads(*sample.events)
    assert response.clean
    named = sample.kind in ("responses", "messages")
    assert response.body.count(b"event: ") == (len(sample.events) if named else 0)
    assert not any(line.startswith((b"id", b"retry", b":")) for line in response.body.split(b"\n"))


@each_sample
async def test_case_80_a_character_may_be_split_anywhere(sample, autojump_clock):
    """Case 80: every write is a byte, and the text is of three and four bytes a character."""
    events = [event.replace(b'"Hel"', '"你好😀"'.encode()) for event in sample.events]
    pieces = [chunk(bytes([byte])) for byte in b"".join(events)]
    async with gateway([SSE_HEAD, *pieces, END]) as world:
        response = await world.call(sample.kind)
    assert response.data == payloads(*events)


async def test_case_24_chat_without_done_is_complete_and_gets_one(autojump_clock):
    async with gateway(sse(*CHAT.events[:-1])) as world:
        response = await world.call("chat")
        assert (await world.record(response)).charge_nanos == CHAT.charge_nanos
    assert response.data == payloads(*CHAT.events)
    assert response.clean


async def test_case_60_usage_on_the_finish_chunk_is_found(autojump_clock):
    last = json.loads(CHAT.closing[0].removeprefix(b"data: "))
    usage = json.loads(CHAT.closing[1].removeprefix(b"data: "))["usage"]
    events = [*CHAT.opening, *CHAT.answer, data({**last, "usage": usage}), *CHAT.terminal]
    async with gateway(sse(*events)) as world:
        response = await world.call("chat")
        assert (await world.record(response)).charge_nanos == CHAT.charge_nanos
    assert response.data == payloads(*events)


@each_sample
async def test_done_belongs_to_chat_alone(sample, autojump_clock):
    events = [event for event in sample.events if b"[DONE]" not in event]
    async with gateway(sse(*events, b"data: [DONE]\n\n")) as world:
        response = await world.call(sample.kind)
        assert (await world.record(response)).state == "captured"
    assert response.data == payloads(*sample.events)


async def test_case_24_responses_need_no_done(autojump_clock):
    async with gateway(sse(*RESPONSES.events)) as world:
        response = await world.call("responses")
        assert (await world.record(response)).state == "captured"
    assert response.clean


@each_sample
@pytest.mark.parametrize("stray", [b'{"error":{"message":"boom","code":500}}\n', b'error: {"message":"boom"}\n\n'])
async def test_an_error_printed_outside_data_fails_the_stream(sample, stray, autojump_clock):
    if sample.kind != "gemini" and stray.startswith(b"error"):
        stray = b'error: {"error":{"message":"boom","code":500}}\n\n'
    if sample.kind == "gemini" and stray.startswith(b"error"):
        return
    async with gateway(sse(*sample.opening, *sample.answer, stray)) as world:
        response = await world.call(sample.kind)
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "provider_error")
    assert b"boom" in response.data[len(sample.opening) + len(sample.answer)]
    assert not response.clean


async def test_an_event_of_gemini_that_may_be_the_last_is_not_once_an_error_follows(autojump_clock):
    """It is part of the answer then, and even a client that is told nothing of errors gets it."""
    finished = json.loads(GEMINI.terminal[0].removeprefix(b"data: "))
    finished.pop("usageMetadata")
    async with gateway(sse(*GEMINI.answer, data(finished), GEMINI.error), contract="anypath") as world:
        response = await world.call("gemini")
        record = await world.record(response)
    assert (record.state, record.reason) == ("released", "provider_error")
    assert response.data == payloads(*GEMINI.answer, data(finished))
    assert not response.clean


async def test_a_gemini_body_that_breaks_off_behind_a_finish_reason_is_complete_only_with_its_usage(autojump_clock):
    finished = json.loads(GEMINI.terminal[0].removeprefix(b"data: "))
    finished.pop("usageMetadata")
    broken = sse(*GEMINI.answer, data(finished), Cut(), end=False)
    whole = sse(*GEMINI.answer, *GEMINI.terminal, Cut(), end=False)
    async with gateway(broken, whole) as world:
        responses = [await world.call("gemini") for _ in range(2)]
        records = [await world.record(response) for response in responses]
    assert [record.reason for record in records] == ["truncated", None]
    assert [response.clean for response in responses] == [False, True]
