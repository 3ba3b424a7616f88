"""The OpenAPI description against a running server, by schemathesis: whatever it makes up, the server answers as the
description says, and never with a failure of its own.

`HOPTRIO_API_EXAMPLES` is how many requests are made up for each operation (``make api``).
"""

from __future__ import annotations

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from hoptrio.control.openapi import describe
from hoptrio.control.operations import OPERATIONS
from tests.support.deployment import Deployment, config_for, served

TOKEN = "a-control-token"
EXAMPLES = int(os.environ.get("HOPTRIO_API_EXAMPLES", "3"))

description = schemathesis.openapi.from_dict(describe(OPERATIONS))


@pytest.fixture(scope="module")
def control(tmp_path_factory):
    """The control plane of a server that has something of everything."""
    deployment = Deployment(tmp_path_factory.mktemp("description"), config_for("http://127.0.0.1:9"))
    deployment.config["control"] = {"listen": "127.0.0.1:0", "token": TOKEN}
    deployment.config["certification"] = {"probe_at_start": False}
    deployment.write_config()
    deployment.add_account("acme")
    with served(deployment) as running:
        yield running.control
        assert running.process.poll() is None


@description.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_a_described_one(case, control):
    # Whether a stranger is refused is test_api's: this check takes a header of ours for one of the request's own.
    headers = {"authorization": f"Bearer {TOKEN}"}
    # That a request has the right form does not say that there is such an account, or a contract of that name.
    excluded = [ignored_auth, positive_data_acceptance]
    case.call_and_validate(base_url=control, headers=headers, excluded_checks=excluded)
