"""HTTPS on the data plane, over real sockets."""

from __future__ import annotations

import os
import signal
import ssl

import httpx
import pytest
import trio
import trustme

from hoptrio.config import build
from hoptrio.service.run import serve
from hoptrio.service.tls import server_context


@pytest.fixture
def certificate(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "chain.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return tmp_path, trusting


async def test_the_data_plane_speaks_https_where_a_certificate_is_configured(certificate):
    directory, trusting = certificate
    server = {"listen": "127.0.0.1:0", "tls_certificate": "chain.pem", "tls_key": "key.pem"}
    config = build({"server": server, "ledger": {"url": "sqlite:///l.db"}}, directory=directory)
    async with trio.open_nursery() as nursery:
        (url,) = (await nursery.start(serve, config)).data
        assert url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(verify=trusting) as client:
            assert (await client.get(f"{url}/healthz")).json() == {"status": "ok"}
            assert (await client.get(f"{url}/readyz")).json()["ready"] is True
        os.kill(os.getpid(), signal.SIGTERM)


async def test_old_tls_is_refused(certificate):
    directory, _ = certificate
    context = server_context(str(directory / "chain.pem"), str(directory / "key.pem"))
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_without_a_certificate_there_is_no_tls():
    assert server_context("", "") is None
