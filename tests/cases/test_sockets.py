"""Cases about sockets, on loopback: what a reset and a truncation are to those at the ends."""

from __future__ import annotations

import socket
import struct
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from hoptrio.config import build
from hoptrio.downstream.listener import Listener
from hoptrio.exchange.gateway import Gateway
from hoptrio.exchange.handler import Handler
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.ledger.model import RequestFilter
from hoptrio.upstream.client import Upstream
from tests.contract.test_cells import payloads
from tests.support.certified import certify_all
from tests.support.harness import BODIES, PATHS, settings
from tests.support.provider import sse
from tests.support.streams import SAMPLES

each_sample = pytest.mark.parametrize("sample", list(SAMPLES.values()), ids=SAMPLES)
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def break_off(stream, script, *, reset):
    """Answer one request with `script`, then end the connection by a FIN or a RST."""
    await stream.receive_some(65536)
    for piece in script:
        await stream.send_all(piece)
    await trio.sleep(0.05)
    if reset:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    await trio.aclose_forcefully(stream)


@asynccontextmanager
async def on_sockets(script, *, contract, reset):
    """(base URL, ledger, key) of a gateway on a real port, before a provider on another that breaks off."""
    async with memory_ledger() as ledger, Upstream() as upstream, trio.open_nursery() as nursery:

        async def provide(stream):
            await break_off(stream, script, reset=reset)

        (provider,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, provide, [provider])
        config = settings()
        config["channels"]["one"]["base_url"] = f"http://127.0.0.1:{provider.socket.getsockname()[1]}"
        built = build(config)
        made = Gateway(
            ledger=ledger,
            upstream=upstream,
            catalogue=built.catalogue,
            contracts=built.contracts,
            contract=contract,
            max_streams=10,
            cors_origins=("*",),
            currency="USD",
            released_output_limit=20,
        )
        await certify_all(made)
        handler = Handler(made)
        (front,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(Listener(handler.handle, refuse=handler.refuse).serve, [front])
        await ledger.create_account("acme", deposit_nanos=10**12)
        _, secret = await ledger.create_key("acme")
        yield f"http://127.0.0.1:{front.socket.getsockname()[1]}", ledger, secret
        nursery.cancel_scope.cancel()


async def read_stream(url, body, secret):
    """(status, what of the body came, whether httpx took it for broken)."""
    seen = b""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=10) as client:
        try:
            async with client.stream("POST", url, json=body) as response:
                async for piece in response.aiter_bytes():
                    seen += piece
        except httpx.RemoteProtocolError:
            return response.status_code, seen, True
    return response.status_code, seen, False


@each_sample
@pytest.mark.parametrize("contract", ["anypath", "hoptrio"])
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
async def test_case_21_and_38_a_provider_that_breaks_off_is_an_error_to_httpx_behind_the_last_whole_event(
    sample, contract, reset
):
    script = sse(*sample.opening, *sample.answer, end=False)
    async with on_sockets(script, contract=contract, reset=reset) as (url, ledger, secret):
        status, seen, broken = await read_stream(url + PATHS[sample.kind], BODIES[sample.kind], secret)
        (record,) = await ledger.requests(RequestFilter())
        report = await ledger.audit()
    assert (status, broken) == (200, True)
    assert (record.state, record.reason, report.ok) == ("released", "truncated", True)
    data = [line[6:] for line in seen.split(b"\n") if line.startswith(b"data: ")]
    expected = payloads(*sample.opening, *sample.answer)
    assert data[: len(expected)] == expected
    assert len(data) == len(expected) + (contract == "hoptrio")
