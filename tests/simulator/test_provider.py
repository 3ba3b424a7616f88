"""Routes, and what is answered when no script is given."""

from __future__ import annotations

import base64
import json
import struct

import pytest

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.provider import SimulatedProvider
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.steps import Cut, End, Send
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
    ("target", "protocol", "answer"),
    [
        ("/v1/messages/count_tokens", Protocol.MESSAGES, {"input_tokens": 2}),
        ("/v1/responses/input_tokens", Protocol.RESPONSES, {"object": "response.input_tokens", "input_tokens": 2}),
        ("/v1beta/models/m:countTokens", Protocol.GEMINI, {"totalTokens": 2}),
    ],
)
def test_input_is_counted_by_the_same_rule(target, protocol, answer):
    _, body = request(protocol, "12345")
    assert json.loads(body_of(respond(SimulatedProvider(), "POST", target, body))) == answer


def asked(target, **body):
    return respond(SimulatedProvider(), "POST", target, json.dumps({"model": "m", **body}).encode())


def test_google_may_count_a_whole_request():
    request = {"contents": [{"parts": [{"text": "12345"}]}], "systemInstruction": {"parts": [{"text": "123"}]}}
    steps = asked("/v1beta/models/m:countTokens", generateContentRequest=request)
    assert json.loads(body_of(steps)) == {"totalTokens": 2}


def test_a_count_may_be_scripted_and_may_be_refused():
    said = [{"role": "user", "content": "sim: input=77"}]
    assert json.loads(body_of(asked("/v1/messages/count_tokens", messages=said))) == {"input_tokens": 77}
    said = [{"role": "user", "content": "sim: fail=status:404"}]
    assert asked("/v1/messages/count_tokens", messages=said)[0].status == 404
    assert asked("/v1/messages/count_tokens", messages=[{"role": "user", "content": "sim: x"}])[0].status == 400


def test_embeddings_are_a_function_of_their_text_in_either_form():
    floats = json.loads(body_of(asked("/v1/embeddings", input=["one", "two", "one"])))
    assert [each["index"] for each in floats["data"]] == [0, 1, 2]
    one, two, again = (each["embedding"] for each in floats["data"])
    assert one == again != two
    assert floats["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    coded = json.loads(body_of(asked("/v1/embeddings", input="one", encoding_format="base64")))["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(coded))) == one
    assert len(json.loads(body_of(asked("/v1/embeddings", input="one", dimensions=3)))["data"][0]["embedding"]) == 3


def test_images_are_as_many_as_asked_for_with_usage_or_without():
    body = json.loads(body_of(asked("/v1/images/generations", prompt="a cat\nsim: events=5 size=300", n=2)))
    pictures = [base64.b64decode(each["b64_json"]) for each in body["data"]]
    assert [(picture[:8], len(picture)) for picture in pictures] == [(b"\x89PNG\r\n\x1a\n", 300)] * 2
    assert (body["usage"]["output_tokens"], body["usage"]["total_tokens"]) == (10, body["usage"]["input_tokens"] + 10)
    assert "usage" not in json.loads(body_of(asked("/v1/images/generations", prompt="sim: usage=none")))


@pytest.mark.parametrize("target", ["/v1/embeddings", "/v1/images/generations"])
def test_whole_answers_fail_by_script_too(target):
    given = {"input": "sim: fail=status:429", "prompt": "sim: fail=status:429"}
    assert asked(target, **given)[0].status == 429
    cut = {"input": "sim: fail=cut", "prompt": "sim: fail=cut"}
    assert asked(target, **cut)[-1] == Cut()


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


def test_a_library_may_serve_any_stream_by_its_name():
    class Library:
        def find(self, name, protocol):
            return self if (name, protocol) == ("mine", "chat") else None

        def steps(self, cuts):
            return iter((Send(b"data: mine\n\n"), End()))

    provider = SimulatedProvider(recordings=Library())
    assert body_of(perform(Protocol.CHAT, "sim: replay=mine", provider=provider)) == b"data: mine\n\n"
    assert perform(Protocol.CHAT, "sim: replay=other", provider=provider)[0].status == 404
    assert body_of(perform(Protocol.CHAT, "sim: events=1", provider=provider)).endswith(b"data: [DONE]\n\n")
