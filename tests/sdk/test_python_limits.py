"""A key over its requests a minute, as the official Python SDKs see it: their own class, and a wait they honour."""

from __future__ import annotations

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

pytestmark = pytest.mark.sdk

PROMPT = "sim: text=ab events=2 pace=1ms"
SAID = [{"role": "user", "content": PROMPT}]


@pytest.fixture
def limited(gateway):
    """A key that may make one request a minute."""
    if not gateway.limited:
        pytest.skip("the gateway under test has no key with a rate")
    return gateway.limited


def refused(call, error):
    """What the call raises: of two in a row, one at least is over the rate."""
    raised = []
    for _ in range(2):
        try:
            list(call())
        except error as refusal:
            raised.append(refusal)
    assert raised
    return raised[-1]


def wait_s(response):
    return int(response.headers["retry-after"])


@pytest.mark.parametrize("surface", ["chat", "responses"])
@pytest.mark.parametrize("stream", [True, False])
def test_openai(gateway, limited, surface, stream):
    with openai.OpenAI(base_url=gateway.base_url + "/v1", api_key=limited, max_retries=0, timeout=20) as client:
        calls = {
            "chat": lambda: client.chat.completions.create(model=gateway.model, messages=SAID, stream=stream),
            "responses": lambda: client.responses.create(model=gateway.model, input=PROMPT, stream=stream),
        }
        refusal = refused(calls[surface], openai.RateLimitError)
    assert (refusal.status_code, refusal.code) == (429, "rate_limit_exceeded")
    assert 1 <= wait_s(refusal.response) <= 60
    assert refusal.response.headers["x-ratelimit-remaining-requests"] == "0"


@pytest.mark.parametrize("stream", [True, False])
def test_anthropic(gateway, limited, stream):
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=limited, max_retries=0, timeout=20) as client:
        refusal = refused(
            lambda: client.messages.create(model=gateway.model, max_tokens=100, messages=SAID, stream=stream),
            anthropic.RateLimitError,
        )
    assert (refusal.status_code, refusal.body["error"]["type"]) == (429, "rate_limit_error")
    assert 1 <= wait_s(refusal.response) <= 60
    assert refusal.response.headers["anthropic-ratelimit-requests-remaining"] == "0"


@pytest.mark.parametrize("stream", [True, False])
def test_genai(gateway, limited, stream):
    options = types.HttpOptions(base_url=gateway.base_url)
    with genai.Client(api_key=limited, http_options=options) as client:
        call = client.models.generate_content_stream if stream else client.models.generate_content
        refusal = refused(lambda: call(model=gateway.model, contents=PROMPT), errors.ClientError)
    assert (refusal.code, refusal.status) == (429, "RESOURCE_EXHAUSTED")
    assert 1 <= wait_s(refusal.response) <= 60
