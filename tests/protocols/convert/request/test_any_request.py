"""Whatever a client sends: a body, or a refusal that names a parameter and quotes nothing. And at a bounded cost."""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path

import pytest

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES
from tests.protocols.convert.request.test_agents import claude_code, codex, gemini_cli
from tests.support.conversing import PATHS, parsed

ROOT = Path(__file__).parents[4]
CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", ROOT.parent / "shared" / "corpus"))
SECRET = "the secret prompt"
ODD = [None, True, 0, -1, 0.5, "", SECRET, [], [[]], [None], [SECRET], [{}], {}, {SECRET: SECRET}, {"type": SECRET}]
CHAT = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.com/a"}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "t"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "service_tier": "auto",
}
EXAMPLES = {"chat": CHAT, "responses": codex(), "messages": claude_code(), "gemini": gemini_cli()}


def places(value, path=()):
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def replaced(value, place, new):
    value = copy.deepcopy(value)
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = new
    return value


def native(protocol, call):
    """The bytes for the channel, read again by its own rules."""
    body = RULES[protocol].encode(
        call, model="m", output_limit=None, ask_usage=True, drop_unknown=False, drop_tools=frozenset()
    )
    return RULES[protocol].parse(PATHS[protocol], {}, {}, body)


def attempt(call, channel):
    """None, or the refusal. What is made must be a valid request of the channel's."""
    try:
        made = convert.prepare(call, channel).call
    except BadRequest as error:
        return error
    native(channel, made)
    return None


@pytest.mark.parametrize("client", EXAMPLES)
def test_any_wrong_value_anywhere_is_a_body_or_a_clear_refusal(client):
    refused = made = 0
    for place in places(EXAMPLES[client]):
        for odd in ODD:
            try:
                call = parsed(client, replaced(EXAMPLES[client], place, odd))
            except BadRequest:
                continue
            before = copy.deepcopy(call.body)
            for channel in Protocol:
                if not convert.possible(call.protocol, channel, stream=call.stream):
                    continue
                error = attempt(call, channel)
                made += error is None
                refused += error is not None
                assert error is None or (error.param and SECRET not in f"{error.message} {error.param}")
            assert call.body == before
    assert refused > 50
    assert made > 50


#: What recorded requests are refused for: parameters of one vendor's own, tools that the provider runs, and state.
REFUSED = {
    *("provider", "random_seed", "reasoning", "safe_prompt", "thinking", "usage", "venice_parameters"),
    *("n", "stop", "stop_sequences", "generationConfig.stopSequences", "tool_choice"),
    *("tools[0]", "tools[0].type", "tools[2].type", "mcp_servers", "context_management", "cachedContent"),
}
REQUESTS = sorted(file for protocol in Protocol for file in CORPUS.glob(f"{protocol}/*/request.json"))


@pytest.mark.skipif(not REQUESTS, reason="the corpus of recorded streams is not here")
@pytest.mark.parametrize("file", REQUESTS, ids=lambda file: file.parent.name)
def test_a_recorded_request_converts_or_is_refused_for_a_known_reason(file):
    client = Protocol(file.parent.parent.name)
    try:
        call = RULES[client].parse("/v1beta/models/m:streamGenerateContent", {"alt": "sse"}, {}, file.read_bytes())
    except BadRequest:
        return  # tests/protocols/test_corpus_requests.py knows which
    for channel in Protocol:
        if not convert.possible(client, channel, stream=call.stream):
            continue
        error = attempt(call, channel)
        assert error is None or error.param in REFUSED


def calls_made(work):
    """How many functions of Python's and C's were called: the work, without the clock."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def longer(client, times):
    """An example whose conversation and tools are repeated, under names of their own."""
    body = copy.deepcopy(EXAMPLES[client])
    turns = {"chat": "messages", "responses": "input", "messages": "messages", "gemini": "contents"}[client]
    body[turns] = [copy.deepcopy(turn) for _ in range(times) for turn in body[turns]]
    body.pop("stream", None)
    return body


@pytest.mark.parametrize(
    ("client", "channel"), [(client, channel) for client in EXAMPLES for channel in EXAMPLES if client != channel]
)
def test_work_and_size_grow_with_the_request_and_no_faster(client, channel):
    once, twice = (parsed(client, longer(client, times)) for times in (100, 200))
    bodies = []
    work = [
        calls_made(lambda call=call: bodies.append(convert.prepare(call, Protocol(channel)).call.body))
        for call in (once, twice)
    ]
    assert work[1] < 2.1 * work[0]
    sizes = [len(json.dumps(body)) for body in bodies]
    assert sizes[1] < 2.1 * sizes[0]
    assert sizes[1] < 2 * len(json.dumps(twice.body))
