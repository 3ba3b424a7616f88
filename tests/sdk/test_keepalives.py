"""What the SDKs' keep-alive tests rest on: between events this gateway writes keep-alives, where a client bears it."""

from __future__ import annotations

import httpx
import pytest

pytestmark = pytest.mark.sdk

COMMENT = b": hopbase-keepalive\n\n"


def body_of(gateway, path, asked, **headers):
    """The body of a stream whose events are further apart than the keep-alive's time."""
    answer = httpx.post(
        gateway.base_url + path,
        headers={"authorization": f"Bearer {gateway.key}", **headers},
        json={"model": gateway.model, "stream": True, **asked},
        timeout=20,
    )
    assert answer.status_code == 200
    return answer.content


def gemini_of(gateway, query, **headers):
    return httpx.post(
        f"{gateway.base_url}/v1beta/models/{gateway.model}:streamGenerateContent{query}",
        headers={"x-goog-api-key": gateway.key, **headers},
        json={"contents": [{"parts": [{"text": gateway.prompts["keepalive"]}]}]},
        timeout=20,
    ).content


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
def test_comments_lie_between_the_events(gateway, path):
    prompt = gateway.prompts["keepalive"]
    said = {"input": prompt} if path == "responses" else {"messages": [{"role": "user", "content": prompt}]}
    body = body_of(gateway, f"/v1/{path}", said | ({"max_tokens": 100} if path == "messages" else {}))
    assert body.count(COMMENT) >= 5
    assert all(event.startswith((b"data: ", b"event: ", b":")) for event in body.split(b"\n\n") if event)


def test_gemini_has_blank_lines_between_the_events(gateway):
    body = gemini_of(gateway, "?alt=sse")
    assert b":" not in {line[:1] for line in body.split(b"\n")}
    assert body.replace(b"\r\n", b"\n").count(b"\n\n\n") >= 5


def test_the_node_sdk_of_gemini_gets_nothing_between_the_events(gateway):
    body = gemini_of(gateway, "?alt=sse", **{"x-goog-api-client": "google-genai-sdk/1.30.0 gl-node/v22.0.0"})
    assert b"\n\n\n" not in body.replace(b"\r\n", b"\n")


def test_the_json_array_has_newlines_between_its_elements(gateway):
    body = gemini_of(gateway, "")
    assert body.count(b"\n") >= 5
    assert httpx.Response(200, content=body).json()[-1]["candidates"][0]["finishReason"] == "STOP"
