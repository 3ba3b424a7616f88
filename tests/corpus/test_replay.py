"""Every recorded stream through the whole gateway: the client gets the recorded payloads, the hold becomes the recorded
usage. In virtual time; what may differ, and what it costs, is `tests.support.corpus`'s to say. Skipped where the
recordings are not."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from tests.support.corpus import (
    CACHED,
    CORPUS,
    HOSTED,
    INPUT,
    PRICES,
    PROTOCOLS,
    owed,
    recordings,
    relayed,
    tokens,
)
from tests.support.harness import gateway, settings
from tests.support.provider import END, SSE_HEAD, Cut, chunk, plain

ALL = recordings()
CONFIG = settings(
    models={
        "m": {
            **PRICES,
            "max_input_tokens": 10_000_000,
            "max_output_tokens": 1_000_000,
            "tools": dict.fromkeys(HOSTED, "0"),
        }
    },
    channels={
        "one": {
            "protocols": list(PROTOCOLS),
            "base_url": "http://provider.test/v1",
            "api_key": "sk-provider-secret",
            "models": ["m"],
            "route": "dedicated",
            "accounts": ["acme"],
        }
    },
)
#: Providers that put a prompt of their own before the caller's, so that it has more tokens than the body has bytes: the
#: hold's bound is charged, the dearest tokens first.
PROMPTED = {"chat-venice-qwen3-5-9b-stream-raw-round-trips-terminal-type"}
PROMPTED |= {"responses-xai-grok-4.3-streaming-terminal-carries-identity"}
#: What hoptrio adds to the bytes of a body for its bound of the input.
MARGIN = 64

pytestmark = pytest.mark.skipif(not ALL, reason="no recordings here")


def each(chosen):
    return pytest.mark.parametrize("recording", chosen, ids=str)


def sample(count):
    """The shortest of each protocol."""
    return [each for name in PROTOCOLS for each in sorted(recordings(name), key=lambda it: len(it.raw))[:count]]


# -- how the bytes arrive ---------------------------------------------------------------------------------------------


def pieces(data, sizes):
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size


def random_pieces(data, dice):
    ends = sorted({0, len(data), *(dice.randrange(len(data)) for _ in range(len(data) // 300 + 2))})
    return [data[start:end] for start, end in pairwise(ends)]


def as_recorded(recording):
    """A chunk for each network chunk it came in."""
    assert sum(recording.chunk_sizes) == len(recording.raw)
    chunks = [chunk(piece) for piece in pieces(recording.raw, recording.chunk_sizes) if piece]
    return [SSE_HEAD, *chunks, END]


def at_random(recording):
    """Chunks of random sizes, and writes that have nothing to do with them."""
    dice = random.Random(len(recording.raw))
    body = b"".join(chunk(piece) for piece in random_pieces(recording.raw, dice))
    return random_pieces(SSE_HEAD + body + END, dice)


def byte_by_byte(recording):
    """Every byte a chunk, every byte of it a write."""
    whole = SSE_HEAD + b"".join(chunk(bytes([byte])) for byte in recording.raw) + END
    return [bytes([byte]) for byte in whole]


# -- what the client got ----------------------------------------------------------------------------------------------


def events(body):
    """The (name, data) pairs of a body of which every line is known: no id, no retry, no comment."""
    *blocks, rest = body.split(b"\n\n")
    assert rest == b""
    for block in blocks:
        lines = block.split(b"\n")
        name = lines.pop(0).removeprefix(b"event: ") if lines[0].startswith(b"event: ") else b""
        assert lines
        assert all(line.startswith(b"data: ") for line in lines)
        yield name, b"\n".join(line[6:] for line in lines)


def check_relayed(recording, response, expected):
    if expected.refused:
        assert response.status >= 400
        assert response.json
        return
    assert (response.status, response.clean) == (200, expected.clean)
    got = list(events(response.body))
    payloads = [data for _, data in got]
    assert payloads[: len(payloads) - expected.ours] == expected.payloads
    assert all(b'"error"' in data for data in payloads[len(payloads) - expected.ours :] if expected.ours)
    for name, data in got:
        named = recording.protocol in ("responses", "messages")
        assert name == (json.loads(data)["type"].encode() if named else b"")


def check_settled(recording, record, expected, body_bytes):
    assert record.reason == expected.reason
    if expected.reason is not None:
        assert (record.state, record.charge_nanos, record.evidence) == ("released", 0, "none")
        return
    due = owed(recording)
    if str(recording) in PROMPTED:
        cut = sum(tokens(recording)[kind] for kind in ("input", "cached")) - body_bytes - MARGIN
        assert "clamped" in record.flags
        due -= min(cut, tokens(recording)["cached"]) * CACHED + max(cut - tokens(recording)["cached"], 0) * INPUT
    assert (record.state, record.charge_nanos, record.evidence) == ("captured", due, "sse_terminal")
    assert not {"mismatch", "suspect"} & set(record.flags)


async def replay(recording, script, *, contract="hoptrio", body=None):
    """Serve one recording; the response, its record and the size of the request that the provider got."""
    async with gateway(script, config=CONFIG, contract=contract, deposit="1000000") as world:
        response = await world.call(recording.protocol, body or recording.request)
        record = await world.record(response)
        assert world.provider.seen, response.body
        assert (await world.ledger.account("acme")).held_nanos == 0
        assert (await world.ledger.account("acme")).balance_nanos == 10**15 - record.charge_nanos
        return response, record, len(world.provider.seen[-1].body)


def asks(recording):
    """Whether a Chat client sees usage."""
    if recording.protocol != "chat":
        return True
    return bool((recording.request.get("stream_options") or {}).get("include_usage"))


@each(ALL)
@pytest.mark.parametrize("cut", [as_recorded, at_random])
async def test_a_recording_reaches_the_client_and_is_settled_by_its_usage(recording, cut, autojump_clock):
    response, record, size = await replay(recording, cut(recording))
    expected = relayed(recording, usage=asks(recording))
    check_relayed(recording, response, expected)
    check_settled(recording, record, expected, size)


@each(sample(4))
async def test_a_recording_may_come_byte_by_byte(recording, autojump_clock):
    response, record, size = await replay(recording, byte_by_byte(recording))
    expected = relayed(recording, usage=asks(recording))
    check_relayed(recording, response, expected)
    check_settled(recording, record, expected, size)


def asking(recording):
    """The request with the usage that `anypath` requires."""
    return recording.request | ({"stream_options": {"include_usage": True}} if recording.protocol == "chat" else {})


@each(ALL)
async def test_under_truncate_a_recording_ends_with_its_terminal_or_is_cut(recording, autojump_clock):
    response, record, size = await replay(recording, as_recorded(recording), contract="anypath", body=asking(recording))
    expected = relayed(recording, truncate=True)
    if not expected.payloads:
        assert response.status >= 400
    else:
        check_relayed(recording, response, expected)
    check_settled(recording, record, expected, size)


@each(recordings("chat"))
async def test_usage_is_cut_out_for_a_client_that_did_not_ask(recording, autojump_clock):
    body = {name: value for name, value in recording.request.items() if name != "stream_options"}
    response, record, size = await replay(recording, as_recorded(recording), body=body)
    check_relayed(recording, response, relayed(recording, usage=False))
    check_settled(recording, record, relayed(recording, usage=False), size)


@each(recordings("chat", "gemini"))
async def test_usage_that_was_asked_for_is_shown(recording, autojump_clock):
    response, _, _ = await replay(recording, at_random(recording), body=asking(recording))
    check_relayed(recording, response, relayed(recording))


@each(recordings("gemini"))
async def test_the_array_form_holds_the_recorded_elements(recording, autojump_clock):
    async with gateway(at_random(recording), config=CONFIG, deposit="1000000") as world:
        response = await world.call("gemini_array", recording.request)
        record = await world.record(response)
    expected = relayed(recording)
    check_settled(recording, record, expected, len(world.provider.seen[-1].body))
    assert response.clean == expected.clean
    body = response.body if expected.clean else response.body + b"]"
    elements = json.loads(body)
    assert elements[: len(elements) - expected.ours] == [json.loads(data) for data in expected.payloads]
    assert all(data in body for data in expected.payloads)


@each(ALL)
async def test_case_42_a_recording_cut_anywhere_is_paid_only_with_its_terminal(recording, autojump_clock):
    """The body just ends, at three places; what reached the client is a beginning of what was recorded."""
    dice = random.Random(len(recording.raw))
    whole = relayed(recording, usage=asks(recording))
    for _ in range(3):
        part = recording.raw[: dice.randrange(len(recording.raw))]
        response, record, _ = await replay(recording, [SSE_HEAD, *([chunk(part)] if part else []), Cut()])
        if record.state == "captured":
            assert (record.charge_nanos, whole.reason) == (owed(recording), None)
        if response.status == 200:
            payloads = [data for _, data in events(response.body)]
            ours = 0 if response.clean else 1
            assert payloads[: len(payloads) - ours] == whole.payloads[: len(payloads) - ours]
            assert response.clean == (record.reason in (None, "no_evidence"))


# -- errors before a stream -------------------------------------------------------------------------------------------

ERRORS = [(name, path.parent) for name in PROTOCOLS for path in sorted(CORPUS.glob(f"http_errors/{name}/*/meta.json"))]
#: It came as a 400 and is about the gateway's own key.
BLAMES_US = {"gemini-400-invalid-argument"}


def says(value):
    """The message of a provider's error, wherever that provider puts it."""
    if isinstance(value, str):
        return value
    return next(says(value[name]) for name in ("error", "message", "detail") if name in value)


@pytest.mark.parametrize(("protocol", "folder"), ERRORS, ids=[f"{name}-{folder.name}" for name, folder in ERRORS])
async def test_a_recorded_http_error_becomes_ours_and_holds_nothing(protocol, folder, autojump_clock):
    meta = json.loads((folder / "meta.json").read_bytes())
    body = (folder / "response.body").read_bytes()
    status = meta["http_status"]
    async with gateway(plain(status, body), config=CONFIG) as world:
        response = await world.call(protocol)
        record = await world.record(response)
        assert len(world.provider.seen) == 1
        account = await world.ledger.account("acme")
    assert (account.held_nanos, account.balance_nanos) == (0, 1000 * 10**9)
    assert (record.state, record.reason, record.charge_nanos) == ("released", "provider_error", 0)
    about_the_request = status in (400, 404, 413, 422) and folder.name not in BLAMES_US
    assert response.status == (status if about_the_request else 502)
    assert response.clean
    error = response.json["error"]
    assert (says(json.loads(body)) in error["message"]) == about_the_request
    shapes = {"messages": {"type", "message"}, "gemini": {"code", "message", "status", "details"}}
    assert error.keys() == shapes.get(protocol, {"message", "type", "param", "code"})
    if protocol == "gemini":
        assert error["code"] == response.status
    if protocol == "messages":
        assert (response.json["type"], response.json["request_id"]) == ("error", response.headers["x-request-id"])
