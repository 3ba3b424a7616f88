"""A provider that quotes the key it was asked with: no client is told it, wherever the refusal stands."""

from __future__ import annotations

import pytest

from tests.exchange.test_count import PATHS, counted
from tests.support.converting import DIRECTIONS
from tests.support.harness import BODIES, channels, gateway
from tests.support.provider import plain, sse

REFUSAL = (
    b'{"type": "error", "error": {"code": 400, "type": "invalid_request_error", "message": "no sk-provider-secret"}}'
)
#: With a status of its own, with a 200, and as its stream's first event.
REFUSALS = {
    "status": plain(400, REFUSAL),
    "body": plain(200, REFUSAL),
    "event": sse(b"event: error\ndata: " + REFUSAL + b"\n\n"),
}
NATIVE = [(each, each) for each in ("chat", "responses", "messages", "gemini")]


def assert_redacted(response):
    assert response.status == 400, response.raw
    assert b"no [secret]" in response.body
    assert b"sk-provider-secret" not in response.raw


@pytest.mark.parametrize("where", REFUSALS)
@pytest.mark.parametrize(("channel", "client"), [*NATIVE, *DIRECTIONS])
async def test_a_stream_that_is_refused(channel, client, where, autojump_clock):
    async with gateway(hosts={"a": [REFUSALS[where]]}, config=channels("a", protocols=[channel])) as world:
        assert_redacted(await world.call(client, BODIES[client]))


@pytest.mark.parametrize("where", ["status", "body"])
async def test_a_whole_answer_that_is_refused(where, autojump_clock):
    async with gateway(REFUSALS[where]) as world:
        assert_redacted(await world.call("responses", BODIES["responses"] | {"stream": False}))


@pytest.mark.parametrize("kind", PATHS)
async def test_a_count_that_is_refused(kind, autojump_clock):
    async with gateway(REFUSALS["status"]) as world:
        assert_redacted(await counted(world, kind))
