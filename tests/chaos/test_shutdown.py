"""Signals: how a gateway with live streams ends, and what SIGHUP changes."""

from __future__ import annotations

import json
import signal
import time

import httpx
import pytest
import trio

from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.live import live_streams, streamed
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(90)

FOR_EVER = "sim: events=100000 pace=50ms"
SOON_OVER = "sim: events=30 pace=50ms"
#: Never read, these fill the buffer of a stream and all the sockets on the way, and do not overflow it.
UNREAD = "sim: events=40 size=100000 pace=0"


@pytest.fixture(scope="module")
def provider():
    with simulator() as url:
        yield url


@pytest.fixture
def deployment(tmp_path, provider):
    deployment = Deployment(tmp_path, config_for(provider))
    deployment.secret = deployment.add_account("acme")
    return deployment


def give_grace(deployment, seconds):
    deployment.config["server"]["shutdown_grace_seconds"] = seconds
    deployment.write_config()


async def exit_status(server, within_s):
    return await trio.to_thread.run_sync(server.wait, within_s)


def ends(deployment):
    return {(record["state"], record["reason"]) for record in as_records(deployment).values()}


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_running_streams_end_within_the_grace_and_no_new_connection_is_taken(deployment, stop):
    give_grace(deployment, 20)
    with served(deployment) as server:
        async with live_streams(server, deployment.secret, count=20, prompt=SOON_OVER) as streams:
            server.send(stop)
            await trio.sleep(0.3)
            with pytest.raises(OSError):
                await trio.open_tcp_stream(*server.address)
            assert await exit_status(server, 10) == 0
            await streams.over()
    assert all(seen.clean and seen.data[-1] == b"[DONE]" for seen in streams.responses)
    assert ends(deployment) == {("captured", None)}
    assert deployment.audit()["ok"]


async def test_what_runs_after_the_grace_is_settled_and_told_by_the_shutdown_rule(deployment):
    give_grace(deployment, 1)
    with served(deployment) as server:
        async with live_streams(server, deployment.secret, count=20, prompt=FOR_EVER) as streams:
            server.send(signal.SIGTERM)
            assert await exit_status(server, 1 + 5) == 0
            await streams.over()
    assert not any(seen.clean for seen in streams.responses)
    assert all("error" in json.loads(seen.data[-1]) for seen in streams.responses)
    assert ends(deployment) == {("released", "shutdown")}
    assert deployment.audit()["held"] == "0"


async def test_a_second_signal_ends_the_grace(deployment):
    give_grace(deployment, 600)
    with served(deployment) as server:
        async with live_streams(server, deployment.secret, count=20, prompt=FOR_EVER) as streams:
            server.send(signal.SIGTERM)
            await trio.sleep(0.3)
            server.send(signal.SIGTERM)
            assert await exit_status(server, 5) == 0
            await streams.over()
    assert ends(deployment) == {("released", "shutdown")}
    assert deployment.audit()["ok"]


async def test_a_client_that_never_reads_holds_a_shutdown_no_longer_than_its_bound(deployment):
    give_grace(deployment, 1)
    with served(deployment, limits={"SETTLE_S": 2.0}) as server:
        async with await trio.open_tcp_stream(*server.address) as stream:
            body = json.dumps(
                {"model": "sim-small", "stream": True, "messages": [{"role": "user", "content": UNREAD}]}
            ).encode()
            await stream.send_all(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\n"
                b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n"
                % (deployment.secret.encode(), len(body))
                + body
            )
            await trio.sleep(1)
            assert server.ready()[1]["streams"] == 1
            began = time.monotonic()
            server.send(signal.SIGTERM)
            assert await exit_status(server, 25) == 0
            # The grace, then what `service.run.LAST_WORDS_S` is with this limit.
            assert time.monotonic() - began < 1 + 7 + 3
    assert ends(deployment) == {("captured", None)}


def asked_last(provider):
    return httpx.get(f"{provider}/_sim/requests").json()["requests"][-1]


async def reloaded(deployment, server, word="reloaded"):
    """Send SIGHUP and wait for what the gateway says about it."""
    before = server.log.count(word)
    server.send(signal.SIGHUP)
    with trio.fail_after(20):
        while server.log.count(word) == before:  # noqa: ASYNC110 - another process is asked
            await trio.sleep(0.02)


async def charge(deployment, server):
    """What a stream of a million tokens costs now."""
    answer = await trio.to_thread.run_sync(streamed, server, deployment.secret, "sim: events=1 input=0 output=1000")
    assert answer.status_code == 200
    return deployment.books("request", "show", answer.headers["x-request-id"])["charge"]


async def test_sighup_takes_over_price_key_and_channel_for_the_next_request(deployment, provider):
    with served(deployment) as server:
        assert await charge(deployment, server) == "0.002"
        async with live_streams(server, deployment.secret, count=1, prompt=SOON_OVER) as streams:
            deployment.config["models"]["sim-small"]["output"] = "6.00"
            channel = deployment.config["channels"].pop("simulated")
            channel["api_key"] = "sk-provider-new"
            deployment.config["channels"]["renamed"] = channel
            deployment.write_config()
            await reloaded(deployment, server)
            assert await charge(deployment, server) == "0.006"
            assert ["authorization", "Bearer sk-provider-new"] in asked_last(provider)["headers"]
            await streams.over()
        records = sorted(as_records(deployment).values(), key=lambda record: record["created_at"])
        assert [record["channel"] for record in records] == ["simulated", "simulated", "renamed"]
        assert records[1]["charge"] == "0.000063", "a price is pinned when its stream is admitted"


@pytest.mark.parametrize(
    "broken", ["[server\n", "[server]\nlisten = 5\n", None], ids=["no toml", "bad value", "no file"]
)
async def test_a_broken_config_changes_nothing_and_is_logged(deployment, broken):
    with served(deployment) as server:
        if broken is None:
            deployment.path.unlink()
        else:
            deployment.path.write_text(broken)
        await reloaded(deployment, server, "reload refused")
        deployment.write_config()
        assert await charge(deployment, server) == "0.002"
