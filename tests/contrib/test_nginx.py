"""The nginx config of contrib/ before a real gateway: events keep their distance, and a cut stays visible."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.deployment import Deployment, config_for, served
from tests.support.live import chat_body
from tests.support.running import simulator

CONFIG = Path(__file__).resolve().parents[2] / "contrib" / "nginx" / "hoptrio.conf"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
PACE_S = 0.2

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")


@contextmanager
def nginx(folder, gateway):
    """nginx with our file, its addresses changed to those of this test; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host, its_port = gateway
    ours = CONFIG.read_text()
    assert "127.0.0.1:8080" in ours
    assert "127.0.0.1:8088" in ours
    (folder / "hoptrio.conf").write_text(
        ours.replace("127.0.0.1:8080", f"{host}:{its_port}").replace("127.0.0.1:8088", f"127.0.0.1:{port}")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
        f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        f"include {folder}/hoptrio.conf; }}\n"
    )
    with subprocess.Popen([NGINX, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"]) as process:
        try:
            _await_port(port, process, folder)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def _await_port(port, process, folder):
    deadline = time.monotonic() + 10
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, (folder / "error.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """The URL of nginx before a gateway, and a key."""
    with simulator() as provider:
        deployment = Deployment(tmp_path_factory.mktemp("gateway"), config_for(provider))
        secret = deployment.add_account("acme")
        with served(deployment) as server, nginx(tmp_path_factory.mktemp("nginx"), server.address) as url:
            yield url, {"authorization": f"Bearer {secret}"}


def test_events_keep_their_distance(proxied):
    url, headers = proxied
    body = chat_body(f"sim: events=4 pace={PACE_S * 1000:.0f}ms")
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30) as answer:
        assert answer.status_code == 200
        seen = [time.monotonic() for line in answer.iter_lines() if '"content"' in line]
    assert len(seen) >= 4
    # A proxy that gathers gives them all at once; one that does not adds nothing that a busy machine does not.
    assert seen[-1] - seen[0] > 2 * PACE_S


def test_a_stream_that_ended_is_told_from_one_that_was_cut(proxied):
    url, headers = proxied
    whole = httpx.post(
        f"{url}/v1/chat/completions", json=chat_body("sim: events=3 pace=1ms"), headers=headers, timeout=30
    )
    assert whole.text.endswith("data: [DONE]\n\n")
    cut = chat_body("sim: events=3 pace=1ms fail=cut@2")
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=cut, headers=headers, timeout=30) as answer:
        assert answer.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()


def test_a_refusal_and_its_request_id_pass_through(proxied):
    url, _ = proxied
    refused = httpx.post(f"{url}/v1/messages", json={"model": "sim-small"}, headers={"x-api-key": "sk-wrong"})
    assert refused.status_code == 401
    assert refused.json()["type"] == "error"
    assert refused.headers["x-request-id"].startswith("req_")
