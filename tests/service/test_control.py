"""The control plane of a server with several workers: one set of figures, one word on channels, no hold on streams."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from contextlib import asynccontextmanager

import httpx
import psutil
import pytest
import trio

from tests.support.client import Client
from tests.support.deployment import Deployment, config_for, served
from tests.support.eventually import eventually
from tests.support.live import chat_request, said, streamed
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(90)

TOKEN = "a-control-token"
GOOD = "sim: events=4 pace=1ms"


@pytest.fixture
def deployment(tmp_path):
    with simulator() as provider:
        config = config_for(provider)
        config["server"]["workers"] = 2
        config["control"]["token"] = TOKEN
        yield Deployment(tmp_path, config)


class Control:
    """A program that asks, each time over a new connection, so that either worker may answer."""

    def __init__(self, server):
        self.url = server.control

    def get(self, path, **query):
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = httpx.get(self.url + path, params=query or None, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer

    def post(self, path, body=None):
        headers = {"authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(self.url + path, json=body or {}, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def counted(self, name):
        """The sum of a counter over its labels."""
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def workers(server):
    return {child.pid for child in psutil.Process(server.pid).children()}


def test_figures_are_those_of_all_workers_and_outlive_them(deployment):
    with served(deployment) as server:
        secret = deployment.add_account("acme")
        control = Control(server)
        eventually(lambda: control.get("/api/overview").json()["workers"] == 2)
        assert {said(server, secret, GOOD) for _ in range(20)} == {200}
        assert said(server, "sk-wrong", GOOD) == 401
        eventually(lambda: control.counted("hoptrio_streams_total") == 20)
        eventually(lambda: control.counted("hoptrio_requests_refused_total") == 1)
        eventually(lambda: control.counted("hoptrio_settlement_seconds_count") == 20)
        first = workers(server)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(workers(server) - first) == 2)
        eventually(lambda: control.get("/api/overview").json()["workers"] == 2)
        assert control.counted("hoptrio_streams_total") == 20
        assert said(server, secret, GOOD) == 200
        eventually(lambda: control.counted("hoptrio_streams_total") == 21)
        assert control.counted("hoptrio_streams_open") == 0


def test_a_paused_channel_gets_no_stream_on_any_worker_nor_after_a_restart(deployment):
    secret = deployment.add_account("acme")
    with served(deployment) as server:
        control = Control(server)
        assert said(server, secret, GOOD) == 200
        control.post("/api/channels/simulated/pause", {"why": "it lies"})
        refused = [streamed(server, secret, GOOD) for _ in range(12)]
        assert {answer.status_code for answer in refused} == {503}
        assert "out of service" in refused[0].text
    with served(deployment) as server:
        control = Control(server)
        assert said(server, secret, GOOD) == 503
        assert control.get("/api/channels/simulated").json()["paused"]["why"] == "it lies"
        control.post("/api/channels/simulated/resume")
        assert {said(server, secret, GOOD) for _ in range(12)} == {200}


def test_who_logs_out_is_out_on_every_worker(deployment):
    with served(deployment) as server:
        ours = {"sec-fetch-site": "same-origin", "accept": "text/html"}
        entered = httpx.post(f"{server.control}/login", data={"token": TOKEN}, headers=ours)
        cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}

        def pages():
            """Over so many new connections that both workers are asked."""
            return [httpx.get(f"{server.control}/", headers=ours | cookie) for _ in range(12)]

        assert {page.status_code for page in pages()} == {200}
        token = re.search(r'name="csrf_token" value="([^"]+)"', pages()[0].text)[1]
        httpx.post(f"{server.control}/logout", data={"csrf_token": token}, headers=ours | cookie)
        assert {page.status_code for page in pages()} == {303}


@asynccontextmanager
async def streaming(server, secret, *, count, prompt):
    """So many streams that run until the block ends; yields a function that waits for their ends."""
    connections = [await trio.open_tcp_stream(*server.address) for _ in range(count)]
    for each in connections:
        await each.send_all(chat_request(secret, prompt))

    async def over():
        answers = [await Client(each).read() for each in connections]
        assert all(b"[DONE]" in answer.body for answer in answers)

    try:
        yield over
    finally:
        for each in connections:
            await trio.aclose_forcefully(each)


async def test_live_streams_are_those_of_all_workers_with_their_timelines(deployment):
    deployment.config["server"]["shutdown_grace_seconds"] = 1
    deployment.write_config()
    with served(deployment) as server:
        secret = await trio.to_thread.run_sync(deployment.add_account, "acme")
        control = Control(server)
        async with streaming(server, secret, count=8, prompt="sim: events=600 pace=100ms"):

            def seen():
                return control.get("/api/streams").json()

            await trio.to_thread.run_sync(eventually, lambda: len(seen()) == 8 and all(e["events"] for e in seen()))
            live = seen()
            assert {each["account"] for each in live} == {"acme"}
            assert all([step["event"] for step in each["timeline"]][-1] == "first_event" for each in live)
            shown = control.get(f"/api/requests/{live[0]['id']}").json()
            assert (shown["state"], shown["channel"]) == ("running", "simulated")
            assert [step["event"] for step in shown["timeline"]][:2] == ["held", "dispatched"]


async def test_streams_of_workers_that_died_are_counted_and_have_their_lines(deployment):
    with served(deployment) as server:
        secret = await trio.to_thread.run_sync(deployment.add_account, "acme")
        control = Control(server)

        def orphaned():
            lines = control.get("/metrics").text.splitlines()
            return [line for line in lines if line.startswith("hoptrio_streams_total") and '"orphaned"' in line]

        async with streaming(server, secret, count=4, prompt="sim: events=600 pace=100ms"):
            await trio.to_thread.run_sync(eventually, lambda: control.counted("hoptrio_streams_open") == 4)
            for pid in workers(server):
                os.kill(pid, signal.SIGKILL)
            await trio.to_thread.run_sync(
                eventually, lambda: sum(float(line.rpartition(" ")[2]) for line in orphaned()) == 4
            )
            assert all('model="sim-small"' in line and 'protocol="chat"' in line for line in orphaned())
        await trio.to_thread.run_sync(server.stop)
        told = server.logged(event="stream")
        assert [(line["outcome"], line["account"], line["charge"]) for line in told] == [("orphaned", "acme", "0")] * 4
    assert deployment.audit()["ok"]


async def test_clients_of_the_control_plane_that_never_read_hold_up_neither_streams_nor_the_end(deployment):
    with served(deployment) as server:
        secret = await trio.to_thread.run_sync(deployment.add_account, "acme")
        address = httpx.URL(server.control)
        request = f"GET /api/openapi.json HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
        silent = [socket.create_connection((address.host, address.port)) for _ in range(8)]
        for each in silent:
            each.sendall(request * 300)
        async with streaming(server, secret, count=10, prompt="sim: events=20 pace=50ms") as over:
            await over()
        began_at = time.monotonic()
        # By its own end, not by a kill.
        assert await trio.to_thread.run_sync(server.stop) == 0
        assert time.monotonic() - began_at < 10
        for each in silent:
            each.close()
    assert deployment.audit()["ok"]
