"""The client sees how an answer ended, whatever way that was, and behaves as a case wants it to."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trustme

from bench.process import free_port
from hoptrio.conform.client import Manner, Unreachable, call
from hoptrio.conform.request import lookup
from hoptrio.conform.target import target_at
from hoptrio.conform.wire import Ending
from tests.cases.test_sockets import break_off
from tests.support.provider import END, SSE_HEAD, chunk, plain, sse

EVENTS = [b"data: %d\n\n" % number for number in range(4)]


@asynccontextmanager
async def answering(script, *, reset=False, serve=None):
    """The target of a server that answers with `script` and then breaks off, or does as `serve` says."""
    async with trio.open_nursery() as nursery:
        serve = serve or partial(break_off, script=script, reset=reset)
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield target_at(f"http://127.0.0.1:{listener.socket.getsockname()[1]}", key="none")
        nursery.cancel_scope.cancel()


async def wire_of(script, manner=None, *, reset=False, limit_s=5.0, **more):
    async with answering(script, reset=reset) as target:
        return await call(target, lookup(target, "/"), manner or Manner(), limit_s=limit_s, **more)


async def never(stream):
    """Read, and answer nothing more than a head."""
    await stream.receive_some()
    await stream.send_all(SSE_HEAD + chunk(EVENTS[0]))
    await trio.sleep_forever()


async def silent(stream):
    """Answer nothing at all."""
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("script", "reset", "ending"),
    [
        (sse(*EVENTS), False, Ending.CLEAN),
        (plain(200, b"{}"), False, Ending.CLEAN),
        (sse(*EVENTS, end=False), False, Ending.TRUNCATED),
        ([plain(200, b"{}")[0][:-1]], False, Ending.TRUNCATED),
        (sse(*EVENTS, end=False), True, Ending.RESET),
        ([], False, Ending.TRUNCATED),
    ],
    ids=["chunks", "length", "cut chunks", "cut length", "reset", "nothing"],
)
async def test_an_ending_is_what_the_framing_and_the_connection_say(script, reset, ending):
    assert (await wire_of(script, reset=reset)).ending is ending


async def test_every_byte_has_its_time_and_every_header_its_name():
    wire = await wire_of(sse(*EVENTS))
    assert (wire.status, wire.headers["content-type"]) == (200, "text/event-stream")
    assert [event.data for event in wire.events] == [b"0", b"1", b"2", b"3"]
    assert 0 < wire.head_s <= wire.pieces[0][0] <= wire.pieces[-1][0] <= wire.ended_s


async def test_case_08_interim_responses_are_noted_and_are_no_answer():
    wire = await wire_of([b"HTTP/1.1 102 Processing\r\n\r\n", *sse(*EVENTS)])
    assert (wire.interim, wire.status) == ((102,), 200)


async def test_what_does_not_end_is_open_at_the_limit():
    async with answering([], serve=never) as target:
        wire = await call(target, lookup(target, "/"), limit_s=0.2)
    assert (wire.ending, len(wire.events)) == (Ending.OPEN, 1)


@pytest.mark.parametrize("manner", [Manner(leave_after_events=1), Manner(leave_after_head_s=0.01)])
async def test_a_client_leaves_by_what_it_saw(manner):
    async with answering([], serve=never) as target:
        wire = await call(target, lookup(target, "/"), manner, limit_s=5.0)
    assert (wire.ending, wire.ended_s < 2) == (Ending.LEFT, True)


async def test_a_client_leaves_once_the_provider_was_asked():
    asked = trio.Event()
    asked.set()
    async with answering([], serve=silent) as target:
        manner = Manner(leave_once_asked=True)
        wire = await call(target, lookup(target, "/"), manner, limit_s=5.0, asked=asked.wait)
    assert (wire.ending, wire.status) == (Ending.LEFT, 0)


async def test_a_client_that_stops_reading_stays_until_the_provider_is_done_with():
    over = trio.Event()
    seen = []

    async def serve(stream):
        await never_ending(stream, seen, over)

    async with answering([], serve=serve) as target:
        wire = await call(target, lookup(target, "/"), Manner(stop_after_bytes=100), limit_s=5.0, over=over.wait)
    assert wire.ending is Ending.LEFT
    assert seen == ["stuck"]


async def never_ending(stream, seen, over):
    """Write until nobody reads any more."""
    await stream.receive_some()
    await stream.send_all(SSE_HEAD)
    with trio.move_on_after(0.3) as scope:
        while True:
            await stream.send_all(chunk(b"x" * 100_000))
    seen.append("stuck" if scope.cancelled_caught else "gone")
    over.set()
    await stream.aclose()


async def test_nobody_there_is_said():
    target = target_at(f"http://127.0.0.1:{free_port()}", key="none")
    with pytest.raises(Unreachable, match=r"no connection to 127\.0\.0\.1:\d+: Connection refused"):
        await call(target, lookup(target, "/"), limit_s=5.0)


async def test_tls_is_checked_and_its_failure_said(monkeypatch, tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(stream):
        secure = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await secure.receive_some()
            await secure.send_all(b"".join(sse(*EVENTS)))
        except trio.BrokenResourceError:
            return

    async with answering([], serve=serve) as plainly:
        target = target_at(f"https://localhost:{plainly.port}", key="none")
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await call(target, lookup(target, "/"), limit_s=5.0)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        wire = await call(target, lookup(target, "/"), limit_s=5.0)
        assert (wire.ending, len(wire.events)) == (Ending.CLEAN, 4)
        assert b"".join(sse(*EVENTS)).endswith(END)


async def test_tls_with_a_server_that_has_none_is_said():
    async with answering([b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as plainly:
        target = target_at(f"https://127.0.0.1:{plainly.port}", key="none")
        with pytest.raises(Unreachable, match="no TLS with"):
            await call(target, lookup(target, "/"), limit_s=5.0)
