"""Attempts on the real thing: `hoptrio serve` before simulated providers that cut, stall, refuse or work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from tests.support.deployment import Deployment, as_records, config_for, served
from tests.support.live import streamed
from tests.support.running import simulator

SCRIPTS = {
    "cuts": "events=3 fail=cut@open",
    "stalls": "events=3 fail=silence@open",
    "refuses": "fail=status:503",
    "works": "events=3 pace=1ms",
}
COUNT = 12


@contextmanager
def deployed(folder, contract, *names):
    """A deployment whose channels are simulated providers that behave as their names say. None is probed by itself:
    they would count that, too."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(simulator("--script", SCRIPTS[name])) for name in names}
        channels = {name: config_for(url)["channels"]["simulated"] for name, url in urls.items()}
        for channel in channels.values():
            channel["protocols"] = ["chat"]
            channel["base_url"] = channel["base_url"]["chat"]
        config = config_for("") | {"channels": channels}
        # The shortest there is.
        config["models"]["sim-small"]["stall_seconds"] = 10
        config["contracts"] = {"test": contract | {"certified_only": False}}
        config["certification"] = {"probe_at_start": False}
        made = Deployment(folder, config)
        made.urls = urls
        yield made


def asked(deployment):
    """How often each provider was asked, as it counted."""
    return {name: len(httpx.get(f"{url}/_sim/requests").json()["requests"]) for name, url in deployment.urls.items()}


def balance_of(deployment):
    balance, held = deployment.balance("acme")
    assert held == "0"
    return round(float(balance) * 10**9)


def test_one_cuts_one_stalls_one_works_and_clients_see_whole_answers(tmp_path):
    with deployed(tmp_path, {"preset": "hopbase", "attempts": 3}, "cuts", "stalls", "works") as deployment:
        secret = deployment.add_account("acme")
        with served(deployment) as server, ThreadPoolExecutor(COUNT) as pool:
            answers = list(pool.map(lambda _: streamed(server, secret, "hello"), range(COUNT)))
        records = as_records(deployment)
        requests = asked(deployment)
        report = deployment.audit()
        spent_nanos = 1000 * 10**9 - balance_of(deployment)
    assert {answer.status_code for answer in answers} == {200}
    for answer in answers:
        assert answer.text.endswith("data: [DONE]\n\n")
        assert answer.text.count('"role":"assistant"') == 1
        record = records[answer.headers["x-request-id"]]
        assert (record["state"], record["channel"]) == ("captured", "works")
        failed = [step["event"] for step in record["timeline"] if step["event"].startswith("attempt_failed")]
        assert record["attempts"] == len(failed) + 1
        assert set(failed) <= {"attempt_failed truncated cuts", "attempt_failed stalled stalls"}
    assert (report["ok"], report["captured"], report["open_holds"]) == (True, COUNT, 0)
    assert spent_nanos == sum(round(float(record["charge"]) * 10**9) for record in records.values())
    assert requests["works"] == COUNT
    assert sum(requests.values()) == sum(record["attempts"] for record in records.values())
    assert requests["stalls"] > 0


def test_where_the_working_channel_is_certified_two_attempts_are_enough(tmp_path):
    """The second attempt goes there, whichever failed the first."""
    with deployed(tmp_path, {"preset": "hopbase"}, "cuts", "refuses", "works") as deployment:
        secret = deployment.add_account("acme")
        deployment.command("certify", "--channel", "works")
        with served(deployment) as server, ThreadPoolExecutor(COUNT) as pool:
            answers = list(pool.map(lambda _: streamed(server, secret, "hello"), range(COUNT)))
        records = as_records(deployment)
        report = deployment.audit()
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert {(record["state"], record["channel"]) for record in records.values()} == {("captured", "works")}
    assert (report["ok"], report["captured"], report["open_holds"]) == (True, COUNT, 0)


@pytest.mark.parametrize("preset", ["anypath", "hoptrio"])
def test_exactly_one_request_reaches_a_provider_where_the_contract_says_so(tmp_path, preset):
    with deployed(tmp_path, {"preset": preset, "usage": "optional"}, "refuses", "cuts", "works") as deployment:
        secret = deployment.add_account("acme")
        with served(deployment) as server:
            ids = [request_id(server, secret) for _ in range(COUNT)]
        records = as_records(deployment)
        requests = asked(deployment)
    assert [records[each]["attempts"] for each in ids] == [1] * COUNT
    assert sum(requests.values()) == COUNT
    assert all(requests.values())


def request_id(server, secret):
    """Of one stream, whose client reads as far as there is something to read."""
    body = {"model": "sim-small", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=30) as answer:
        with suppress(httpx.RemoteProtocolError):
            answer.read()
        return answer.headers["x-request-id"]
