"""Routes, and what is answered when no script is given."""

from __future__ import annotations

import json

import pytest

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.script import parse_directive
from tests.support.performing import PATHS, body_of, data_of, perform, request, text_of


def respond(provider, method, target, body=b""):
    return list(provider.respond(provider.saw(method, target, (), body), body))


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("base", ["", "/openai/deployments/x", "/any/base"])
def test_any_base_url_works(protocol, base):
    _, body = request(protocol, "hello")
    assert respond(SimulatedProvider(), "POST", base + PATHS[protocol], body)[0].status == 200


def test_a_percent_encoded_colon_is_a_colon():
    _, body = request(Protocol.GEMINI, "hello")
    steps = respond(SimulatedProvider(), "POST", "/v1/models/m%3AstreamGenerateContent?alt=sse", body)
    assert steps[0].status == 200


@pytest.mark.parametrize("protocol", Protocol)
def test_the_default_answer_is_about_the_prompt(protocol):
    text = text_of(protocol, data_of(body_of(perform(protocol, "What is trio?"))))
    assert "“What is trio?”" in text


def test_a_provider_may_have_a_default_script():
    provider = SimulatedProvider(default=parse_directive("text=yes events=1"))
    said = body_of(perform(Protocol.CHAT, "hello", provider=provider))
    assert text_of(Protocol.CHAT, data_of(said)) == "yes"


@pytest.mark.parametrize("protocol", Protocol)
def test_a_script_that_cannot_be_read_is_a_400_that_says_why(protocol):
    steps = perform(protocol, "sim: evnts=3")
    assert steps[0].status == 400
    assert "evnts" in body_of(steps).decode()


@pytest.mark.parametrize("protocol", Protocol)
def test_what_is_not_json_is_a_400(protocol):
    assert respond(SimulatedProvider(), "POST", PATHS[protocol], b"{")[0].status == 400


@pytest.mark.parametrize(
    ("target", "protocol", "field"),
    [
        ("/v1/messages/count_tokens", Protocol.MESSAGES, "input_tokens"),
        ("/v1/responses/input_tokens", Protocol.RESPONSES, "input_tokens"),
        ("/v1beta/models/m:countTokens", Protocol.GEMINI, "totalTokens"),
    ],
)
def test_input_is_counted_by_the_same_rule(target, protocol, field):
    _, body = request(protocol, "12345")
    assert json.loads(body_of(respond(SimulatedProvider(), "POST", target, body))) == {field: 2}


def test_models_are_listed():
    models = json.loads(body_of(respond(SimulatedProvider(), "GET", "/v1/models")))
    assert "sim-small" in [model["id"] for model in models["data"]]


@pytest.mark.parametrize(("method", "target"), [("GET", "/"), ("POST", "/v1/other"), ("PUT", "/v1/files")])
def test_other_paths_are_404(method, target):
    assert respond(SimulatedProvider(), method, target)[0].status == 404


def test_ids_differ_and_answers_do_not():
    provider = SimulatedProvider()
    first, second = (data_of(body_of(perform(Protocol.CHAT, "hello", provider=provider))) for _ in range(2))
    assert first[0]["id"] != second[0]["id"]
    assert text_of(Protocol.CHAT, first) == text_of(Protocol.CHAT, second)


def test_a_large_body_is_answered_though_it_is_not_kept():
    provider = SimulatedProvider()
    steps = perform(Protocol.CHAT, "x" * 2_000_000 + "\nsim: events=1", provider=provider)
    assert steps[0].status == 200
    assert (provider.seen[0].body, provider.seen[0].body_bytes > 2_000_000) == (b"", True)
    assert len(provider.seen[0].body_sha256) == 64
