"""The health of channels on the real thing: what one worker learns all of them know, and so does `hoptrio route`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from hoptrio.config import LedgerSettings
from hoptrio.service.board import SharedBoard, board_paths
from tests.support.deployment import Deployment, config_for, served
from tests.support.eventually import eventually
from tests.support.live import said, streamed
from tests.support.running import simulator

LIMITED = "sim: fail=status:429 retry_after=50"
GOOD = "sim: events=2 pace=1ms"


@pytest.fixture
def deployment(tmp_path):
    with simulator() as provider:
        config = config_for(provider)
        config["server"]["workers"] = 2
        made = Deployment(tmp_path, config)
        made.provider = provider
        yield made


def asked(deployment):
    return len(httpx.get(f"{deployment.provider}/_sim/requests").json()["requests"])


def workers(server):
    return {child.pid for child in psutil.Process(server.pid).children()}


def test_a_cool_down_is_the_machines_and_outlives_workers_and_a_reload_ends_it(deployment):
    secret = deployment.add_account("acme")
    with served(deployment) as server:
        assert said(server, secret, GOOD) == 200
        assert said(server, secret, LIMITED) == 429
        before = asked(deployment)
        answers = [streamed(server, secret, GOOD) for _ in range(30)]
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.json()["error"]["code"] for answer in answers} == {"model_unavailable"}
        assert all(40 <= int(answer.headers["retry-after"]) <= 50 for answer in answers)

        first = workers(server)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(workers(server)) == 2 and not workers(server) & first)
        assert said(server, secret, GOOD) == 503
        assert asked(deployment) == before

        [route] = deployment.books("route", "sim-small", "--protocol", "chat")["routes"]
        assert route["asked"] == []
        [excluded] = route["not_asked"]
        assert excluded["channel"] == "simulated"
        assert excluded["why"].startswith("is cooling down, ")
        assert excluded["why"].endswith(" s to go: it reached the provider's rate limit")
        assert route["refused"] == "The channels of the model 'sim-small' are cooling down after failures."

        server.send(signal.SIGHUP)
        eventually(lambda: said(server, secret, GOOD) == 200)
    told = deployment.books("route", "sim-small", "--protocol", "chat")
    assert told["health"] == "unknown"
    assert [each["channel"] for each in told["routes"][0]["asked"]] == ["simulated"]


def test_one_process_alone_keeps_the_same_board_and_the_next_start_begins_with_an_empty_one(deployment):
    deployment.config["server"]["workers"] = 1
    deployment.write_config()
    secret = deployment.add_account("acme")
    with served(deployment) as server:
        assert said(server, secret, LIMITED) == 429
        assert said(server, secret, GOOD) == 503
        told = deployment.books("route", "sim-small")
        assert told["health"] == "shared"
        assert all(route["asked"] == [] for route in told["routes"])
        server.send(signal.SIGHUP)
        eventually(lambda: said(server, secret, GOOD) == 200)
        assert said(server, secret, LIMITED) == 429
    with served(deployment) as server:
        assert said(server, secret, GOOD) == 200


def test_without_a_file_the_memory_is_shared_all_the_same(deployment):
    """A directory where the file should be stands for one that cannot be written."""
    deployment.path.with_suffix(".health").mkdir()
    secret = deployment.add_account("acme")
    with served(deployment) as server:
        assert said(server, secret, LIMITED) == 429
        assert {said(server, secret, GOOD) for _ in range(20)} == {503}
        assert deployment.books("route", "sim-small")["health"] == "unknown"
    assert "no file for the health of channels" in server.log


@pytest.mark.parametrize("workers", [1, 2])
def test_where_the_configs_directory_is_read_only_the_file_is_beside_the_ledger(deployment, workers):
    deployment.path.with_suffix(".health").mkdir()
    written = deployment.directory / "written"
    written.mkdir()
    deployment.config["server"]["workers"] = workers
    deployment.config["ledger"]["url"] = f"sqlite:///{written / 'hoptrio.db'}"
    deployment.write_config()
    secret = deployment.add_account("acme")
    with served(deployment) as server:
        assert said(server, secret, LIMITED) == 429
        told = deployment.books("route", "sim-small")
        assert told["health"] != "unknown"
    assert (written / "hoptrio.health").is_file()
    assert "no file for the health of channels" not in server.log


def test_the_board_is_beside_the_config_or_else_beside_the_ledger():
    path = Path("/etc/hoptrio/hoptrio.toml")
    beside = Path("/etc/hoptrio/hoptrio.health")
    written = Path("/var/lib/hoptrio/hoptrio.health")
    sqlite = LedgerSettings(url="sqlite:////var/lib/hoptrio/hoptrio.db")
    postgres = LedgerSettings(url="postgresql://hoptrio@db/hoptrio", journal="/var/lib/hoptrio/journal")
    assert board_paths(path, sqlite) == board_paths(path, postgres) == (beside, written)
    assert board_paths(path, LedgerSettings(url="sqlite:////etc/hoptrio/hoptrio.db")) == (beside,)


def test_a_board_that_nobody_uses_belongs_to_no_server(tmp_path):
    path = tmp_path / "x.health"
    assert SharedBoard.of_a_running_server([path]) is None
    path.write_bytes(b"too short")
    assert SharedBoard.of_a_running_server([path]) is None
