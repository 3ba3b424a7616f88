"""Where the playground finds the data plane, and that it may call nothing else."""

from __future__ import annotations

import pytest

from hoptrio.control.dashboard.playground import reachable_url
from tests.support.controlling import controlling


@pytest.mark.parametrize(
    ("listens", "host", "url"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1", "http://127.0.0.1:8080"),
        # Through a tunnel, or a name of this machine.
        ("http://127.0.0.1:8080", "localhost", "http://localhost:8080"),
        ("http://0.0.0.0:8080", "gateway.example", "http://gateway.example:8080"),
        ("https://[::]:8443", "2001:db8::1", "https://[2001:db8::1]:8443"),
        # It listens on one address and no other.
        ("http://192.0.2.1:8080", "gateway.example", "http://192.0.2.1:8080"),
        # No header of a caller gets into the policy.
        ("http://127.0.0.1:8080", "a; script-src *", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080", "", "http://127.0.0.1:8080"),
    ],
)
def test_the_data_plane_is_where_the_page_is_unless_it_has_an_address_of_its_own(listens, host, url):
    assert reachable_url(listens, host) == url


async def test_the_page_may_call_the_data_plane_and_nothing_else(control):
    control.office.data_urls = ("http://127.0.0.1:8080",)
    async with control.program() as program:
        answer = await program.get("/playground")
    assert "connect-src 'self' http://control.test:8080;" in answer.headers["content-security-policy"]
    assert 'data-gateway="http://control.test:8080"' in answer.text


async def test_an_operator_says_where_browsers_reach_it():
    table = {"listen": "127.0.0.1:0", "token": "a-control-token", "gateway_url": "https://api.example.com/"}
    async with controlling(control=table) as control, control.program() as program:
        assert 'data-gateway="https://api.example.com"' in (await program.get("/playground")).text


async def test_a_gateway_that_does_not_listen_has_no_playground(control):
    async with control.program() as program:
        assert (await program.get("/playground")).status_code == 503
