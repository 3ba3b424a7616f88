"""A sample of the recordings through real processes: `hoptrio simulate --replay` behind `hoptrio serve`, a real
database, real sockets, writes as they were recorded. Skipped where the recordings are not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.corpus.test_replay import asks, check_relayed
from tests.support.corpus import CORPUS, HOSTED, PRICES, PROTOCOLS, owed, recordings, relayed
from tests.support.running import simulator
from tests.support.serving import serving

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/{model}:streamGenerateContent?alt=sse",
}


def chosen():
    """Five of each protocol: those that came in the most chunks, so that most have their recorded ones."""
    return [each for name in PROTOCOLS for each in sorted(recordings(name), key=lambda it: -len(it.chunk_sizes))[:5]]


SAMPLE = chosen()
pytestmark = pytest.mark.skipif(not SAMPLE, reason="no recordings here")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """A model for each recording."""
    prices = "".join(f'{name} = "{price}"\n' for name, price in PRICES.items())
    tools = ", ".join(f'"{name}" = "0"' for name in HOSTED)
    limits = "max_input_tokens = 10000000\nmax_output_tokens = 1000000\n"
    models = "".join(f"[models.r{at}]\n{prices}{limits}tools = {{ {tools} }}\n" for at in range(len(SAMPLE)))
    names = ", ".join(f'{{ name = "r{at}", upstream = "{each.folder.name}" }}' for at, each in enumerate(SAMPLE))
    with simulator("--replay", str(CORPUS)) as url:
        channel = f'[channels.replay]\nprotocols = {list(PROTOCOLS)}\nbase_url = "{url}"\napi_key = "k"\n'
        with serving(
            tmp_path_factory.mktemp("serve"),
            f'{models}{channel}models = [{names}]\nroute = "dedicated"\naccounts = ["acme"]\n',
        ) as it:
            yield it


@pytest.mark.parametrize("at", range(len(SAMPLE)), ids=[str(each) for each in SAMPLE])
async def test_a_recording_passes_through_real_processes_and_is_settled(gateway, at):
    recording = SAMPLE[at]
    body = dict(recording.request)
    if recording.protocol != "gemini":
        body["model"] = f"r{at}"
    async with gateway.client() as client:
        await client.send(gateway.request(PATHS[recording.protocol].format(model=f"r{at}"), body))
        response = await client.read()
    expected = relayed(recording, usage=asks(recording))
    check_relayed(recording, response, expected)
    found = await gateway.settled(response.headers["x-request-id"])
    assert found["reason"] == expected.reason
    assert found["state"] == ("released" if expected.reason else "captured")
    assert Decimal(found["charge"]) * 10**9 == (0 if expected.reason else owed(recording))
