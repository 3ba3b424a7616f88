"""Endpoints of the vendors that are not served: a 404 that says so, in the vendor's own shape."""

from __future__ import annotations

import pytest

from tests.support.harness import gateway
from tests.support.raw import ask, assert_nothing_held, assert_shape, request

UNSERVED = {
    "responses": ["/v1/responses/compact", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1/input_items"],
    "chat": [
        *("/v1/completions", "/v1/files", "/v1/files/file-1/content", "/v1/batches", "/v1/batches/b_1/cancel"),
        *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/moderations", "/v1/images/edits"),
        *("/v1/images/variations", "/v1/fine_tuning/jobs", "/v1/assistants", "/v1/assistants/asst_1"),
        *("/v1/threads/thread_1/runs", "/v1/vector_stores/vs_1/search", "/v1/realtime/client_secrets", "/v1/realtime"),
        *("/v1/uploads/u_1/parts", "/v1/conversations/conv_1/items", "/v1/containers", "/v1/evals", "/v1/videos"),
        *("/v1/chat/completions/chatcmpl-1", "/v1/chat/completions/chatcmpl-1/messages"),
        *("/v1/organization/usage/costs", "/v1beta/openai/chat/completions", "/v1beta/openai/models"),
    ],
    "messages": [
        *("/v1/messages/batches", "/v1/messages/batches/b_1/results", "/v1/complete", "/v1/organizations/api_keys"),
        *("/v1/sessions", "/v1/agents/a_1"),
    ],
    "gemini": [
        *("/v1beta/models/m:embedContent", "/v1/models/m:embedContent", "/v1beta/models/m:batchEmbedContents"),
        *("/v1beta/models/m:batchGenerateContent", "/v1beta/models/m:predict", "/v1beta/models/m:predictLongRunning"),
        *("/v1beta/models/m:bidiGenerateContent", "/v1beta/tunedModels/t:generateText", "/v1beta/files/abc"),
        *("/upload/v1beta/files", "/v1beta/cachedContents", "/v1beta/cachedContents/c_1", "/v1beta/batches/b_1:cancel"),
        *("/v1beta/corpora/c/documents", "/v1beta/fileSearchStores", "/v1alpha/auth_tokens", "/v1beta/interactions"),
        "/v1/models/ft:gpt:acme:predict",
    ],
}


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in UNSERVED.items() for path in paths])
async def test_a_known_endpoint_that_is_not_served_is_a_404_that_says_so(kind, path, method, autojump_clock):
    async with gateway() as world:
        headers = {"authorization": f"Bearer {world.secret}"}
        response = await ask(world, request(method, path, headers, b"{}" if method == "POST" else b""))
        assert_shape(response, kind, 404, "endpoint_not_served")
        assert f"hoptrio does not serve the endpoint {path}" in response.json["error"]["message"]
        await assert_nothing_held(world)


async def test_a_stored_response_cannot_be_deleted(autojump_clock):
    async with gateway() as world:
        response = await ask(world, request("DELETE", "/v1/responses/resp_1"))
        assert_shape(response, "responses", 404, "endpoint_not_served")
        assert "DELETE /v1/responses/resp_1" in response.json["error"]["message"]
        served = await ask(world, request("DELETE", "/v1/responses/input_tokens"))
        assert_shape(served, "responses", 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1beta/models/m:zebra", "gemini"), ("/v1beta/models/a:b:zebra", "gemini"), ("/v1/models/m:zebra", "chat")],
)
async def test_a_method_that_no_model_has_is_a_404_that_says_which_there_are(path, kind, autojump_clock):
    async with gateway() as world:
        response = await ask(world, request("POST", path, {}, b"{}"))
        assert_shape(response, kind, 404, "unknown_path")
        assert "no method zebra" in response.json["error"]["message"]
        assert "streamGenerateContent" in response.json["error"]["message"]
        assert_shape(await ask(world, request("POST", "/v1beta/models/m", {}, b"{}")), "gemini", 405)


SHARED = ["/v1/files", "/v1/batches", "/v1/skills/s_1"]


@pytest.mark.parametrize("path", SHARED)
@pytest.mark.parametrize(
    ("headers", "kind"),
    [({}, "chat"), ({"anthropic-version": "2023-06-01"}, "messages"), ({"x-goog-api-key": "k"}, "gemini")],
)
async def test_where_vendors_share_a_path_the_callers_headers_tell_the_shape(path, headers, kind, autojump_clock):
    async with gateway() as world:
        assert_shape(await ask(world, request("GET", path, headers)), kind, 404, "endpoint_not_served")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/responses/resp_1/nothing",
        "/v1/filings",
        "/v1/messages/x",
        "/v1beta/x",
        "/v2/files",
        "/files",
        "/v1/complete2",
    ],
)
async def test_an_unknown_path_is_not_called_an_endpoint(path, autojump_clock):
    async with gateway() as world:
        response = await ask(world, request("GET", path))
        assert response.status == 404
        assert "unknown_path" in response.body.decode()


async def test_models_whose_names_look_like_methods_are_still_models(autojump_clock):
    async with gateway() as world:
        for name in ("m:predicted", "ft:predict:acme"):
            response = await world.get(f"/v1/models/{name}")
            assert_shape(response, "chat", 404, "model_not_found")
