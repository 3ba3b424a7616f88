"""The container's files, as far as they can be tried without an engine; tests/container has the image itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from hoptrio.config import load
from hoptrio.service.run import LAST_WORDS_S

HERE = Path(__file__).resolve().parents[2] / "contrib" / "container"
CONTAINERFILE = (HERE / "Containerfile").read_text(encoding="utf-8")
SERVICES = yaml.safe_load((HERE / "compose.yaml").read_text(encoding="utf-8"))["services"]


@pytest.fixture
def config(monkeypatch):
    monkeypatch.setenv("HOPTRIO_CONTROL_TOKEN", "token")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    return load(HERE / "config" / "hoptrio.toml")


def test_the_config_of_the_compose_file_is_valid(config):
    assert config.server.workers == 2
    assert str(config.ledger.journal) == "/var/lib/hoptrio/journal"


def test_the_config_is_mounted_with_its_directory_and_what_is_written_outlives_the_container(config):
    assert re.search(r"HOPTRIO_CONFIG=(\S+)", CONTAINERFILE)[1] == "/etc/hoptrio/hoptrio.toml"
    mounts = dict(reversed(each.removesuffix(":ro").split(":")) for each in SERVICES["hoptrio"]["volumes"])
    assert mounts == {"/etc/hoptrio": "./config", "/var/lib/hoptrio": "journal"}
    assert Path(config.server.spool_dir).parent == Path("/var/lib/hoptrio")


def test_a_container_is_given_the_grace_to_stop(config):
    given_s = float(SERVICES["hoptrio"]["stop_grace_period"].removesuffix("s"))
    assert given_s > config.server.shutdown_grace_seconds + LAST_WORDS_S
    # A signal before the first handler is lost on a process 1.
    assert all(SERVICES[name]["init"] for name in ("hoptrio", "migrate"))


def test_the_database_is_asked_where_only_the_whole_one_answers():
    test = SERVICES["database"]["healthcheck"]["test"]
    assert test[:4] == ["CMD", "pg_isready", "-h", "127.0.0.1"]
    assert SERVICES["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert SERVICES["hoptrio"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_what_stopped_with_the_machine_starts_with_it():
    """And so does a gateway that was there before its database."""
    assert {SERVICES[name]["restart"] for name in ("database", "hoptrio")} == {"unless-stopped"}


def test_the_compose_file_asks_for_health_as_the_image_does():
    options, command = re.search(r"HEALTHCHECK (.*) CMD (.*)", CONTAINERFILE).groups()
    checked = dict(SERVICES["hoptrio"]["healthcheck"])
    assert checked.pop("test") == ["CMD", *json.loads(command)]
    assert {f"--{name.replace('_', '-')}={value}" for name, value in checked.items()} == set(options.split())


@contextmanager
def answering(status):
    """A server that answers every request with `status`; yields its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b'{"why":"draining"}')

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def ready(address):
    """How the health check ends, and what it prints."""
    # An engine may put a proxy into the environment, which knows nothing of this address.
    environment = os.environ | {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    argv = [sys.executable, str(HERE / "ready.py"), address]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("status", "exit_status"), [(200, 0), (503, 1), (500, 1)])
def test_the_health_check_says_what_readyz_does(status, exit_status):
    with answering(status) as address:
        assert ready(address) == (exit_status, '{"why":"draining"}\n')


def test_nobody_is_not_healthy():
    with answering(200) as address:
        pass
    status, told = ready(address)
    assert status == 1
    assert "refused" in told
    assert "Traceback" not in told
