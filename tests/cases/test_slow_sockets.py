"""Clients that lag over real connections: what is kept for them is bounded, and reading slowly is not leaving."""

from __future__ import annotations

import socket
import ssl

import psutil
import pytest
import trio
import trustme

from hoptrio import limits
from hoptrio.downstream.wire import Wire
from tests.contract.test_cells import payloads
from tests.support.harness import gateway
from tests.support.provider import sse
from tests.support.running import simulator
from tests.support.serving import serving
from tests.support.slow import Paced
from tests.support.streams import CHAT, data

MIB = 1024 * 1024
#: 64 MB to a client that reads nothing.
VOLUME = 64 * MIB
#: What the process may grow by: the buffer, and a few copies of one event on its way through.
COPIES = 8
MODEL = """
[models.m]
input = "1"
output = "2"
max_input_tokens = 1000
max_output_tokens = 100000
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with simulator() as url:
        channel = f'[channels.sim]\nprotocols = ["chat"]\nbase_url = "{url}"\napi_key = "k"\nmodels = ["m"]\n'
        with serving(tmp_path_factory.mktemp("serve"), MODEL + channel) as it:
            yield it


def call(served, script):
    messages = [{"role": "user", "content": script}]
    return served.request("/v1/chat/completions", {"model": "m", "stream": True, "messages": messages})


async def warm_up(served):
    """One stream to its end, so that what a process allocates once is there."""
    async with served.client() as client:
        await client.send(call(served, "sim: events=3 pace=0"))
        assert (await client.read()).clean


@pytest.mark.parametrize("size", [64 * 1024, MIB, 4 * MIB])
async def test_case_94_one_that_never_reads_cannot_raise_rss_beyond_its_buffer(served, size):
    await warm_up(served)
    process = psutil.Process(served.pid)
    before = peak = process.memory_info().rss
    async with served.client() as client:
        await client.send(call(served, f"sim: events={VOLUME // size} size={size} pace=0 input=5 output=7"))
        head = await client.stream.receive_some(4096)
        request_id = head.split(b"x-request-id: ")[1].split(b"\r\n")[0].decode()
        with trio.fail_after(30):
            while (found := await served.get(f"/v1/requests/{request_id}"))["state"] == "running":
                peak = max(peak, process.memory_info().rss)
                await trio.sleep(0.01)
    assert (found["state"], found["charge"]) == ("captured", "0.000019")
    assert any(step["event"].startswith("client_gone") for step in found["timeline"])
    assert peak - before < limits.BACKLOG_BYTES_MAX + COPIES * size + 4 * MIB


async def test_one_that_reads_again_in_time_gets_the_whole_of_a_large_event(served):
    async with served.client() as client:
        await client.send(call(served, f"sim: events=1 size={8 * MIB} pace=0 input=5 output=7"))
        await trio.sleep(1)
        response = await client.read()
    assert response.clean
    assert max(len(each) for each in response.data) > 8 * MIB
    assert (await served.settled(response.headers["x-request-id"]))["state"] == "captured"


# -- slow, but steady -------------------------------------------------------------------------------------------------

LARGE = [data({"choices": [{"index": 0, "delta": {"content": f"{at:032000d}"}}]}) for at in range(50)]


async def tcp_pair():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        ours = await trio.open_tcp_stream(*listener.socket.getsockname())
        return ours, await listener.accept()


def under_tls(ours, theirs):
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("gateway.test").configure_cert(server)
    authority.configure_trust(client)
    return (
        trio.SSLStream(ours, client, server_hostname="gateway.test"),
        trio.SSLStream(theirs, server, server_side=True),
    )


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_client_that_reads_slowly_but_steadily_has_not_left(tls, monkeypatch):
    """The limit is a second here, and the client takes several to read it all."""
    monkeypatch.setattr(limits, "WRITE_STALL_S", 1.0)
    async with gateway(sse(*CHAT.opening, *LARGE, *CHAT.closing, *CHAT.terminal)) as world:
        ours, theirs = await tcp_pair()
        # A large receive buffer would hide how slow it is.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        if tls:
            ours, theirs = under_tls(ours, theirs)
        client = world.attach(Paced(ours, 0.05, 32768), theirs)
        await world.start(client=client)
        response = await client.read()
        await client.leave()
    assert response.clean
    assert response.data == payloads(*CHAT.opening, *LARGE, *CHAT.closing, *CHAT.terminal)


async def test_what_a_tls_client_has_not_taken_yet_is_known():
    """So that the kernel's queue tells a slow client from one that left, whatever the transport."""
    ours, theirs = under_tls(*await tcp_pair())
    wire = Wire(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.do_handshake)
        await wire.handshake()
    with trio.move_on_after(1):
        await wire.send(b"x" * 16 * MIB)
    assert wire.unsent_bytes() > 0
    for stream in (ours, theirs):
        await trio.aclose_forcefully(stream)
