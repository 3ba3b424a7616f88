"""No secret, prompt or output is where others look: in logs, errors, the list of processes, or the database."""

from __future__ import annotations

import signal

import httpx
import psutil
import pytest

from tests.service.test_supervisor import eventually
from tests.support.deployment import Deployment, Server, config_for
from tests.support.running import simulator

#: Each is found wherever it gets to, since nothing else has these words in it.
PROVIDER_KEY, HEADER, TOKEN = "canary-provider-key", "canary-header", "canary-control-token"
GUESS, GUESSED_TOKEN, PROMPT = "sk-canary-guess", "canary-guessed-token", "canary-prompt"
ENVIRONMENT = {"PROVIDER_KEY": PROVIDER_KEY, "TOKEN": TOKEN}

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def deployment(tmp_path, monkeypatch):
    """Secrets from the environment and from a file, one channel that answers and one that nobody listens for."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "header").write_text(HEADER + "\n")
    with simulator() as provider:
        config = config_for(provider)
        config["server"]["workers"] = 2
        config["control"]["token"] = "env:TOKEN"
        good = config["channels"]["simulated"] | {
            "api_key": "env:PROVIDER_KEY",
            "headers": {"x-tenant": "file:header"},
            "query": {"code": "file:header"},
        }
        away = good | {"base_url": "http://127.0.0.1:9/v1", "protocols": ["chat"], "models": ["away"]}
        config["channels"] = {"simulated": good, "away": away}
        config["models"]["away"] = config["models"]["sim-small"]
        config["certification"] = {"probe_at_start": False}
        config["contracts"]["test"]["certified_only"] = False
        yield Deployment(tmp_path, config)


def chat(server, secret, prompt, model="sim-small", **headers):
    """One stream to its end, whatever that is."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": f"{PROMPT}\n{prompt}"}]}
    head = {"authorization": f"Bearer {secret}"} | headers
    with httpx.Client(timeout=30) as client:
        try:
            return client.post(f"{server.url}/v1/chat/completions", json=body, headers=head).status_code
        except httpx.RemoteProtocolError:
            return 0


def used(server, secret):
    """Everything that has a secret in it, right and wrong."""
    assert chat(server, secret, "sim: events=4 pace=1ms") == 200
    for failure in ("status:401", "status:500", "cut@2", "error@2", "garbage@2"):
        chat(server, secret, f"sim: events=4 pace=1ms fail={failure}")
    assert chat(server, secret, "hi", model="away") in (502, 503)
    assert chat(server, GUESS, "hi") == 401
    gemini = f"{server.url}/v1beta/models/sim-small:streamGenerateContent?key={GUESS}"
    assert httpx.post(gemini, json={"contents": [{"parts": [{"text": PROMPT}]}]}).status_code == 401
    broken = httpx.post(
        f"{server.url}/v1/chat/completions",
        content=b'{"model": "sim-small", "' + PROMPT.encode(),
        headers={"authorization": f"Bearer {secret}"},
    )
    assert broken.status_code == 400
    for address in (server.control, server.url):
        httpx.get(f"{address}/api/accounts", headers={"authorization": f"Bearer {GUESSED_TOKEN}"})
    httpx.post(f"{server.control}/login", data={"token": GUESSED_TOKEN}, headers={"sec-fetch-site": "same-origin"})
    told = httpx.get(f"{server.control}/api/channels", headers={"authorization": f"Bearer {TOKEN}"})
    assert told.status_code == 200
    return broken.text + told.text


def test_no_secret_is_in_a_log_an_answer_a_list_of_processes_or_the_database(deployment):
    secret = deployment.add_account("acme")
    server = Server(["serve", "--json"], deployment.directory)
    try:
        answers = used(server, secret)
        tree = [psutil.Process(server.pid), *psutil.Process(server.pid).children()]
        assert len(tree) == 3
        arguments = " ".join(word for process in tree for word in process.cmdline())
        # A config that is refused has everything in it that was right a moment ago.
        deployment.config["server"]["workers"] = "canary-header"
        deployment.write_config()
        server.send(signal.SIGHUP)
        eventually(lambda: "reload refused" in server.log)
    finally:
        assert server.stop() == 0
    stored = b"".join(path.read_bytes() for path in deployment.directory.glob("hoptrio.db*"))
    for place, text in {
        "log": server.log,
        "answers": answers,
        "arguments": arguments,
        "database": stored.decode("latin-1"),
    }.items():
        assert "acme" in text or "simulated" in text or place == "arguments", f"nothing to find in: {place}"
        for canary in (PROVIDER_KEY, HEADER, TOKEN, GUESS, GUESSED_TOKEN, PROMPT, secret):
            assert canary not in text, f"{canary} is in: {place}"
