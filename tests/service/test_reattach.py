"""Coming back to a stream of another process: two gateways of one machine, one of them killed, drained or replaced."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from tests.support.deployment import Deployment, Server, config_for
from tests.support.live import chat_body
from tests.support.running import simulator

#: Two seconds.
SLOW = "sim: events=20 pace=100ms size=10"


@pytest.fixture(scope="module")
def provider():
    with simulator() as url:
        yield url


class Pair:
    """Two processes that share a config, a ledger and a spool; each has its own port."""

    def __init__(self, folder, provider, stack):
        config = config_for(provider)
        config["certification"] = {"probe_at_start": False}
        config["contracts"]["test"]["certified_only"] = False
        self.deployment = Deployment(folder, config)
        self.secret = self.deployment.add_account("acme")
        self._stack = stack
        self.servers = []
        self.start()
        self.start()

    def start(self):
        """One more."""
        server = Server(["serve", "--json"], self.deployment.directory)
        self._stack.callback(server.stop)
        self.servers.append(server)

    def ask(self, which, method, path, body=None, **headers):
        """A request to one of them; the response, unread, and its connection."""
        host, port = self.servers[which].address
        connection = HTTPConnection(host, port, timeout=20)
        headers = {"authorization": f"Bearer {self.secret}"} | headers
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection, connection.getresponse()

    def get(self, which, path):
        """Status and body of a GET."""
        connection, response = self.ask(which, "GET", path)
        with closing(connection):
            return response.status, response.read().decode()

    def post(self, which, prompt, **headers):
        return self.ask(which, "POST", "/v1/chat/completions", chat_body(prompt), **headers)

    def events(self, which, request_id, after=0):
        status, text = self.get(which, f"/v1/requests/{request_id}/events?after={after}")
        return status, [block.split("\n")[1][6:] for block in text.split("\n\n") if block.startswith("id: ")]


@pytest.fixture(scope="module")
def pair(tmp_path_factory, provider):
    with ExitStack() as stack:
        yield Pair(tmp_path_factory.mktemp("pair"), provider, stack)


def payloads(response):
    """The data of a Chat stream's events."""
    return [block[6:] for block in response.read().decode().split("\n\n")[:-1]]


def settled(pair, request_id):
    """The request's record, once it is over."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        record = json.loads(pair.get(1, f"/v1/requests/{request_id}")[1])
        if record["state"] != "running":
            return record
        time.sleep(0.05)
    raise AssertionError("it runs for ever")


def test_a_stream_is_gone_on_with_at_another_process_and_joined_there(pair):
    connection, response = pair.post(0, SLOW, **{"Idempotency-Key": "joined"})
    request_id = response.headers["x-request-id"]
    first = [response.readline() for _ in range(6)]
    connection.close()
    joined, again = pair.post(1, SLOW, **{"Idempotency-Key": "joined"})
    status, rest = pair.events(1, request_id, 3)
    with closing(joined):
        whole = again.read().decode().split("\n\n")[:-1]
    assert (status, again.status, again.headers["x-request-id"]) == (200, 200, request_id)
    assert [line.decode().strip() for line in first if line.strip()] == whole[:3]
    assert [f"data: {each}" for each in rest] == whole[3:]
    assert rest[-1] == "[DONE]"
    assert settled(pair, request_id)["state"] == "captured"
    assert pair.deployment.audit()["captured"] == 1


def test_streams_outlive_a_process_that_was_killed_and_one_that_was_drained(pair):
    done = {}
    for prompt in ("sim: events=3 pace=1ms", "sim: events=400 pace=0 size=1000"):
        connection, response = pair.post(0, prompt)
        done[response.headers["x-request-id"]] = payloads(response)
        connection.close()
    time.sleep(2.5)  # what a kill takes is what ended in the last second, and a busy machine has long ones
    connection, response = pair.post(0, SLOW, **{"Idempotency-Key": "killed"})
    request_id = response.headers["x-request-id"]
    response.readline()
    pair.servers[0].stop(signal.SIGKILL)
    connection.close()
    for each, expected in done.items():
        assert pair.events(1, each) == (200, expected)
    status, text = pair.get(1, f"/v1/requests/{request_id}/events")
    assert (status, json.loads(text)["error"]["code"]) == (410, "gone"), "half a stream is none"
    assert settled(pair, request_id)["reason"] == "orphaned"
    connection, response = pair.post(1, SLOW, **{"Idempotency-Key": "killed"})
    fresh_id = response.headers["x-request-id"]
    assert fresh_id != request_id, "a new request under the same key"
    fresh = payloads(response)
    connection.close()
    assert fresh[-1] == "[DONE]"
    assert pair.servers[1].stop() == 0
    pair.start()
    assert pair.events(2, fresh_id) == (200, fresh), "it had no time to be written before the drain"
    assert pair.deployment.audit()["ok"]
