"""The OpenAPI description against a running server, by schemathesis: whatever it makes up, right and wrong, the server
answers as the description says, and never with a failure of its own.

`HOPTRIO_API_EXAMPLES` is how many requests are made up for each operation (``make api``). Its pytest plugin is not
loaded, and the library by these tests alone: it would cost every run of every test a second.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from hoptrio.control.openapi import describe
from hoptrio.control.operations import OPERATIONS
from tests.support.deployment import Deployment, config_for, served

TOKEN = "a-control-token"
EXAMPLES = int(os.environ.get("HOPTRIO_API_EXAMPLES", "6"))


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


@pytest.fixture(scope="module")
def description():
    import schemathesis

    return schemathesis.openapi.from_dict(describe(OPERATIONS))


def made_up(described):
    """Requests as the description has them, and such that violate it where there is something to violate."""
    from schemathesis import GenerationMode

    right = described.as_strategy(generation_mode=GenerationMode.POSITIVE)
    violable = list(described.iter_parameters()) or described.body
    return right | described.as_strategy(generation_mode=GenerationMode.NEGATIVE) if violable else right


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_answer_is_a_described_one(operation, description, control):
    from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

    # Whether a stranger is refused is test_api's: the first check takes a header of ours for one of the request's own.
    # And that a request has the right form does not say that there is such an account, or a contract of that name.
    excluded = [ignored_auth, positive_data_acceptance]
    headers = {"authorization": f"Bearer {TOKEN}"}

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(made_up(description[operation.path][operation.method]))
    def answers(case):
        case.call_and_validate(base_url=control, headers=headers, excluded_checks=excluded)

    answers()
