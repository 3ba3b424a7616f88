"""The operator's commands beside a running gateway: what they change holds for its next request."""

from __future__ import annotations

import pytest
import trio

from tests.support.deployment import Deployment, config_for, served
from tests.support.live import live_streams, said, streamed
from tests.support.running import simulator

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def deployment(tmp_path):
    with simulator() as provider:
        yield Deployment(tmp_path, config_for(provider))


def test_a_key_works_from_the_next_request_on_and_is_refused_from_the_next_one_after_its_revocation(deployment):
    with served(deployment) as server:
        deployment.command("account", "create", "acme")
        key = deployment.command("key", "create", "--account", "acme")
        assert said(server, key["secret"], "hello") == 402
        deployment.command("account", "deposit", "acme", "5")
        assert said(server, key["secret"], "hello") == 200
        deployment.command("key", "revoke", key["id"])
        assert said(server, key["secret"], "hello") == 401


def test_requests_are_shown_as_their_own_account_sees_them(deployment):
    with served(deployment) as server:
        secret = deployment.add_account("acme")
        answer = streamed(server, secret, "sim: events=2 input=10 output=100")
        shown = deployment.command("request", "show", answer.headers["x-request-id"])
        assert (shown["state"], shown["charge"], shown["account"]) == ("captured", "0.000205", "acme")
        assert deployment.command("request", "list") == [shown]
        assert deployment.balance("acme") == ("999.999795", "0")


async def test_the_audit_passes_while_streams_run(deployment):
    with served(deployment) as server:
        secret = await trio.to_thread.run_sync(deployment.add_account, "acme")
        async with live_streams(server, secret, count=20, prompt="sim: events=60 pace=100ms") as streams:
            audit = await trio.to_thread.run_sync(deployment.audit)
            assert (audit["ok"], audit["open_holds"]) == (True, 20)
            await streams.over()
        audit = deployment.audit()
    assert (audit["ok"], audit["open_holds"], audit["captured"]) == (True, 0, 20)
