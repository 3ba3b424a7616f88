"""Probes of running gateways: at the start, beside `hoptrio certify`, over several workers, and after a reload."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import httpx
import pytest

from tests.support.deployment import Deployment, Server, config_for, served
from tests.support.eventually import eventually
from tests.support.live import said
from tests.support.running import simulator

PROTOCOLS = 4


@pytest.fixture
def provider():
    with simulator("--script", "events=2 pace=1ms") as url:
        yield url


@pytest.fixture
def deployment(tmp_path, provider):
    deployment = Deployment(tmp_path, config_for(provider))
    deployment.secret = deployment.add_account("acme")
    return deployment


def asked(provider):
    return httpx.get(f"{provider}/_sim/requests").json()["count"]


@contextmanager
def served_by(deployment, workers):
    server = Server(["serve", "--workers", str(workers), "--json"], deployment.directory)
    try:
        yield server
    finally:
        server.stop()


def test_a_start_is_announced_when_the_channels_are_certified(deployment, provider):
    with served(deployment) as server:
        assert server.ready()[0] == 200
        assert said(server, deployment.secret, "hello") == 200
        assert asked(provider) == PROTOCOLS + 1
    with served(deployment) as server:
        assert said(server, deployment.secret, "hello") == 200
    assert asked(provider) == PROTOCOLS + 2, "what is certified is not probed again at the next start"
    assert deployment.audit()["captured"] == 2
    assert len(deployment.books("request", "list")) == 2, "a probe is nobody's request"


def test_a_certificate_made_beside_a_running_gateway_counts_within_seconds(deployment, provider):
    deployment.config["certification"] = {"probe_at_start": False}
    deployment.write_config()
    with served(deployment) as server:
        assert server.ready()[0] == 200
        assert said(server, deployment.secret, "hello") == 503
        assert asked(provider) == 0
        assert all(row["certified"] for row in deployment.command("certify"))
        eventually(lambda: said(server, deployment.secret, "hello") == 200)


def test_several_workers_probe_once_and_are_announced_when_all_know(deployment, provider):
    with served_by(deployment, 3) as server:
        assert [said(server, deployment.secret, "hello") for _ in range(12)] == [200] * 12
        assert asked(provider) == PROTOCOLS + 12


def test_what_a_probe_found_wrong_is_told_in_the_log_and_no_stream_is_sent(tmp_path):
    with simulator("--script", "fail=status:401") as refusing:
        deployment = Deployment(tmp_path, config_for(refusing))
        secret = deployment.add_account("acme")
        with served(deployment) as server:
            assert server.ready()[0] == 200
            assert said(server, secret, "hello") == 503
            assert asked(refusing) == PROTOCOLS
            assert "the provider refused the channel's key or account (HTTP 401)" in server.log
            assert "sk-provider" not in server.log


def test_a_channel_that_a_reload_brings_is_certified_before_it_is_asked(deployment, provider):
    with served(deployment) as server, simulator("--script", "usage=none") as silent:
        channel = deployment.config["channels"]["simulated"]
        deployment.config["channels"]["silent"] = {**channel, "base_url": f"{silent}/v1", "priority": 9}
        deployment.write_config()
        server.send(signal.SIGHUP)
        eventually(lambda: "reloaded" in server.log)
        assert [said(server, deployment.secret, "hello") for _ in range(5)] == [200] * 5
        assert asked(silent) == PROTOCOLS
        assert "the stream ended without usage" in server.log
