"""`Upstream`: one request, one answer, and no connection forgotten, whoever fails or is cancelled when."""

from __future__ import annotations

import gzip
import socket
import struct
from math import inf

import pytest
import trio
import trio.testing

from hoptrio import limits
from hoptrio.upstream.answer import BodyEnd, Origin, Unreached, UnreachedKind
from hoptrio.upstream.client import Upstream
from hoptrio.upstream.connect import ConnectFailed

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"data: hello\n\n"
CHUNK = b"d\r\n" + EVENT + b"\r\n"
LAST = b"0\r\n\r\n"
ANSWER = OK + CHUNK + LAST


def counts(upstream):
    return (upstream.busy, upstream.idle)


async def no_connections(upstream):
    await trio.testing.wait_all_tasks_blocked()
    return counts(upstream) == (0, 0)


# -- the exchange ----------------------------------------------------------------------------------------------------


async def test_a_request_is_written_and_its_answer_read(kit, memory_connector):
    provider = kit.Script(ANSWER)
    async with Upstream(memory_connector(provider)) as upstream:
        answer = await upstream.open(kit.request_for(body=b'{"a":1}', headers=((b"accept", b"*/*"),)))
        assert answer.status == 200
        assert (b"content-type", b"text/event-stream") in answer.headers
        assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
        answer.finish()
    [(head, body)] = provider.requests
    assert head == (b"POST /v1/chat/completions HTTP/1.1\r\nhost: provider.test\r\naccept: */*\r\ncontent-length: 7")
    assert body == b'{"a":1}'


async def test_the_end_of_a_body_is_told_again(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(ANSWER))) as upstream:
        answer = await upstream.open(kit.request_for())
        await kit.read_answer(answer)
        assert await answer.receive() is BodyEnd.CLEAN
        answer.finish()


async def test_dispatch_is_told_right_before_the_first_byte(kit):
    told = []

    async def written():
        told.append("written")

    async def connector(origin):
        told.append("connected")
        ours, _ = trio.testing.memory_stream_pair()
        ours.send_stream.send_all_hook = written
        ours.receive_stream.put_eof()
        return ours

    async with Upstream(connector) as upstream:
        await upstream.open(kit.request_for(), on_dispatched=lambda: told.append("dispatched"))
    assert told == ["connected", "dispatched", "written"]


async def test_interim_responses_are_skipped(kit, memory_connector):
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    async with Upstream(memory_connector(kit.Script([interim[:30], interim[30:], ANSWER]))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert answer.status == 200
        assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
        answer.finish()


async def test_a_head_and_body_sent_byte_by_byte(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script([ANSWER[n : n + 1] for n in range(len(ANSWER))]))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
        answer.finish()
        assert counts(upstream) == (0, 1)


@pytest.mark.parametrize(
    ("wire", "body", "end"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello", BodyEnd.CLEAN),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", b"hell", BodyEnd.TRUNCATED),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello", BodyEnd.CLOSED),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello", BodyEnd.CLOSED),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello", BodyEnd.CLEAN),
        (OK + CHUNK, EVENT, BodyEnd.TRUNCATED),
        (OK + CHUNK + b"5\r\nhel", EVENT + b"hel", BodyEnd.TRUNCATED),
        (OK + CHUNK + b"nonsense\r\n", EVENT, BodyEnd.RESET),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", BodyEnd.CLEAN),
    ],
)
async def test_case_25_how_a_body_ends(kit, memory_connector, wire, body, end):
    async with Upstream(memory_connector(kit.Script(wire, closes=True))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await kit.read_answer(answer) == (body, end)
        answer.finish()
        if end is not BodyEnd.CLEAN:
            assert counts(upstream) == (0, 0)


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (b"", UnreachedKind.CLOSED),
        (b"HTTP/1.1 200 OK\r\nconte", UnreachedKind.CLOSED),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", UnreachedKind.NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", UnreachedKind.NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", UnreachedKind.NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n", UnreachedKind.NOT_HTTP),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", UnreachedKind.NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * limits.UPSTREAM_HEAD_BYTES_MAX + b"\r\n", UnreachedKind.NOT_HTTP),
    ],
)
async def test_no_answer_is_a_value_and_the_request_is_never_sent_again(kit, memory_connector, wire, kind):
    provider = kit.Script(wire, closes=True)
    async with Upstream(memory_connector(provider)) as upstream:
        unreached = await upstream.open(kit.request_for())
        assert unreached.kind is kind
        assert unreached.dispatched
        assert counts(upstream) == (0, 0)
    assert len(provider.requests) == 1


async def test_a_request_that_is_not_http_is_refused_without_quoting_it(kit, memory_connector):
    provider = kit.Script(ANSWER)
    async with Upstream(memory_connector(provider)) as upstream:
        with pytest.raises(ValueError, match="not valid HTTP") as caught:
            await upstream.open(kit.request_for(headers=((b"authorization", b"sk-secret\r\nx: y"),)))
        assert "sk-secret" not in repr(caught.value)
        assert caught.value.__suppress_context__
    assert provider.connections == 0


# -- compression -----------------------------------------------------------------------------------------------------


GZIPPED = gzip.compress(EVENT, mtime=0)


def gzipped(*headers, body=GZIPPED):
    head = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (head, len(body), body)


async def test_labelled_gzip_is_decoded(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(gzipped(b"content-encoding: gzip")))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
        answer.finish()
        assert counts(upstream) == (0, 1)


async def test_unlabelled_gzip_is_passed_as_it_is(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(gzipped()))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert (await kit.read_answer(answer))[0].startswith(b"\x1f\x8b")
        answer.finish()


@pytest.mark.parametrize(
    ("label", "body"),
    [(b"br", b"x"), (b"zstd", b"x"), (b"gzip", b"not gzip at all"), (b"gzip", gzip.compress(EVENT, mtime=0)[:-3])],
)
async def test_labelled_compression_that_cannot_be_decoded(kit, memory_connector, label, body):
    wire = gzipped(b"content-encoding: " + label, body=body)
    async with Upstream(memory_connector(kit.Script(wire))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert (await kit.read_answer(answer))[1] is BodyEnd.UNDECODABLE
        answer.finish()


async def test_a_compressed_body_cut_inside_is_truncated(kit, memory_connector):
    wire = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(EVENT * 50)[:-9]
    async with Upstream(memory_connector(kit.Script(wire, closes=True))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert (await kit.read_answer(answer))[1] is BodyEnd.TRUNCATED
        answer.finish()


# -- keeping connections ---------------------------------------------------------------------------------------------


async def test_a_clean_connection_is_used_again(kit, memory_connector):
    provider = kit.Script(ANSWER)
    async with Upstream(memory_connector(provider)) as upstream:
        for _ in range(3):
            answer = await upstream.open(kit.request_for())
            assert repr(upstream) == "<Upstream busy=1 idle=0>"
            await kit.read_answer(answer)
            answer.finish()
            assert repr(upstream) == "<Upstream busy=0 idle=1>"
    assert provider.connections == 1
    assert counts(upstream) == (0, 0)


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more",
    ],
)
async def test_a_connection_that_may_not_be_used_again_is_closed(kit, memory_connector, wire):
    async with Upstream(memory_connector(kit.Script(wire))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await kit.read_answer(answer) == (b"ok", BodyEnd.CLEAN)
        answer.finish()
        assert counts(upstream) == (0, 0)


async def test_an_aborted_connection_is_closed_at_once_and_only_once(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(OK + CHUNK))) as upstream:
        answer = await upstream.open(kit.request_for())
        answer.abort()
        answer.abort()
        answer.finish()
        assert counts(upstream) == (0, 0)


async def test_the_end_of_a_finished_body_is_awaited_in_the_background(kit, memory_connector, autojump_clock):
    async with Upstream(memory_connector(kit.Script([OK + CHUNK, limits.POOL_FINISH_S / 2, LAST]))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await answer.receive() == EVENT
        answer.finish()
        assert counts(upstream) == (1, 0)
        await trio.sleep(limits.POOL_FINISH_S)
        assert counts(upstream) == (0, 1)


@pytest.mark.parametrize(
    "rest",
    [
        [limits.POOL_FINISH_S * 2, LAST],
        [b"%x\r\n" % (2 * limits.POOL_FINISH_BYTES_MAX), b"x" * 2 * limits.POOL_FINISH_BYTES_MAX, b"\r\n" + LAST],
        [b"nonsense\r\n"],
        [b"5\r\nhel"],
    ],
)
async def test_a_body_that_does_not_end_soon_costs_its_connection(kit, memory_connector, autojump_clock, rest):
    async with Upstream(memory_connector(kit.Script([OK + CHUNK, *rest]))) as upstream:
        answer = await upstream.open(kit.request_for())
        answer.finish()
        await trio.sleep(limits.POOL_FINISH_S * 1.5)
        assert counts(upstream) == (0, 0)


async def test_leaving_closes_what_is_idle_and_what_is_being_finished(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(ANSWER, OK + CHUNK))) as upstream:
        first = await upstream.open(kit.request_for())
        second = await upstream.open(kit.request_for())
        for answer in (first, second):
            await answer.receive()
        await kit.read_answer(first)
        first.finish()
        third = await upstream.open(kit.request_for())
        third.finish()
        second.finish()
    assert counts(upstream) == (0, 0)


async def test_finishing_after_the_end_of_all_closes(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(OK + CHUNK))) as upstream:
        answer = await upstream.open(kit.request_for())
    answer.finish()
    assert counts(upstream) == (0, 0)


async def test_idle_connections_are_dropped_on_demand(kit, memory_connector):
    async with Upstream(memory_connector(kit.Script(ANSWER))) as upstream:
        for _ in range(2):
            answer = await upstream.open(kit.request_for())
            await kit.read_answer(answer)
            answer.finish()
            upstream.close_idle()
            assert counts(upstream) == (0, 0)


async def test_idle_connections_are_swept(kit, memory_connector, autojump_clock):
    async with Upstream(memory_connector(kit.Script(ANSWER))) as upstream:
        answer = await upstream.open(kit.request_for())
        await kit.read_answer(answer)
        answer.finish()
        await trio.sleep(limits.POOL_IDLE_S + limits.POOL_SWEEP_S)
        assert counts(upstream) == (0, 0)


# -- connecting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectFailed(UnreachedKind.TLS, "x"), UnreachedKind.TLS),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), UnreachedKind.DNS),
        (ConnectionRefusedError(), UnreachedKind.CONNECT),
        (trio.BrokenResourceError(), UnreachedKind.CONNECT),
    ],
)
async def test_a_failed_connection_is_a_value_and_nothing_was_dispatched(kit, error, kind):
    async def connector(origin):
        raise error

    told = []
    async with Upstream(connector) as upstream:
        unreached = await upstream.open(kit.request_for(), on_dispatched=lambda: told.append(1))
    assert (unreached.kind, unreached.dispatched, told) == (kind, False, [])
    assert "unknown" not in unreached.detail


async def test_connecting_has_a_limit(kit, autojump_clock):
    async def connector(origin):
        await trio.sleep_forever()

    async with Upstream(connector) as upstream:
        start = trio.current_time()
        unreached = await upstream.open(kit.request_for())
        assert trio.current_time() - start == limits.CONNECT_S
        assert unreached == Unreached(UnreachedKind.CONNECT, False, "timeout")


async def test_a_head_may_take_as_long_as_it_likes(kit, memory_connector, autojump_clock):
    async with Upstream(memory_connector(kit.Script([500.0, ANSWER]))) as upstream:
        answer = await upstream.open(kit.request_for())
        assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
        answer.finish()


# -- cancelling ------------------------------------------------------------------------------------------------------


class CancelAt(trio.abc.Instrument):
    """Cancels `scope` before the k-th step of any task."""

    def __init__(self, k):
        self.left = k
        self.scope = trio.CancelScope()

    def before_task_step(self, task):
        self.left -= 1
        if self.left == 0:
            self.scope.cancel()


@pytest.mark.parametrize("reused", [False, True])
async def test_cancelling_at_every_step_leaks_no_connection(kit, memory_connector, reused):
    answers = [[OK, CHUNK, CHUNK, LAST]]
    async with Upstream(memory_connector(kit.Script(*answers))) as upstream:
        for k in range(1, 1000):
            if reused and upstream.idle == 0:
                answer = await upstream.open(kit.request_for())
                await kit.read_answer(answer)
                answer.finish()
            instrument = CancelAt(k)
            trio.lowlevel.add_instrument(instrument)
            done = False
            answer = None
            with instrument.scope:
                try:
                    answer = await upstream.open(kit.request_for())
                    await kit.read_answer(answer)
                    done = True
                finally:
                    if answer is not None:
                        answer.finish() if done else answer.abort()
            trio.lowlevel.remove_instrument(instrument)
            assert upstream.busy == 0
            if instrument.left > 0:
                break
            upstream.close_idle()
        assert k > 8
        assert done


async def test_2400_cancelled_requests_leak_nothing(kit, tcp_origin):
    async def silent(stream):
        await stream.send_all(OK)
        await trio.sleep_forever()

    origin = await tcp_origin(silent)
    async with Upstream() as upstream:
        for n in range(24):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as requests:
                    for _ in range(100):
                        requests.start_soon(read_and_abort, upstream, kit.request_for(origin), kit)
                    for _ in range(n):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert counts(upstream) == (0, 0)


async def read_and_abort(upstream, request, kit):
    answer = await upstream.open(request)
    try:
        await kit.read_answer(answer)
    finally:
        answer.abort()


async def test_cancelling_receive_loses_no_byte(kit, tcp_origin):
    async def paced(stream):
        await kit.read_request(stream)
        await stream.send_all(OK)
        for n in range(200):
            await stream.send_all(b"4\r\n%04d\r\n" % n)
            await trio.lowlevel.checkpoint()
        await stream.send_all(LAST)

    origin = await tcp_origin(paced)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin))
        body = b""
        data = b""
        for n in range(10**6):
            with trio.CancelScope(deadline=-inf if n % 2 else trio.current_time() + 0.0005):
                data = await answer.receive()
                if isinstance(data, BodyEnd):
                    break
                body += data
        answer.finish()
    assert body == b"".join(b"%04d" % n for n in range(200))


# -- real sockets ----------------------------------------------------------------------------------------------------


async def test_case_20_an_idle_connection_the_provider_closed_is_never_used(kit, tcp_origin):
    closed = trio.Event()

    async def once(stream):
        await kit.read_request(stream)
        await stream.send_all(ANSWER)
        await stream.aclose()
        closed.set()

    origin = await tcp_origin(once)
    async with Upstream() as upstream:
        for _ in range(5):
            answer = await upstream.open(kit.request_for(origin))
            assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
            answer.finish()
            assert upstream.idle == 1
            await closed.wait()
            closed = trio.Event()


async def test_case_20_a_provider_that_dies_is_asked_once_and_its_connection_not_kept(kit, tcp_origin):
    provider = kit.Script(OK + CHUNK + CHUNK, closes=True)
    origin = await tcp_origin(provider)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin))
        assert await kit.read_answer(answer) == (EVENT + EVENT, BodyEnd.TRUNCATED)
        answer.finish()
        assert counts(upstream) == (0, 0)
    assert len(provider.requests) == 1


async def test_case_38_a_reset_within_the_body(kit, tcp_origin):
    async def resetting(stream):
        await kit.read_request(stream)
        await stream.send_all(OK + CHUNK)
        await stream.receive_some(1)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    origin = await tcp_origin(resetting)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin))
        assert await answer.receive() == EVENT
        await answer.connection.wire.send(b"go")
        assert await answer.receive() is BodyEnd.RESET
        answer.finish()
        assert counts(upstream) == (0, 0)


async def test_a_provider_that_answers_before_it_read_the_body_is_heard(kit, tcp_origin):
    refusal = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\n{}"

    async def refusing(stream):
        await stream.receive_some(10)
        await stream.send_all(refusal)
        await trio.sleep_forever()

    origin = await tcp_origin(refusing)
    async with Upstream() as upstream:
        answer = await upstream.open(kit.request_for(origin, body=b"x" * (32 * limits.MIB)))
        assert answer.status == 413
        assert await kit.read_answer(answer) == (b"{}", BodyEnd.CLEAN)
        answer.finish()
        assert await no_connections(upstream)


@pytest.mark.parametrize("size_bytes", [10, limits.SEND_FIRST_BYTES_MAX, 4 * limits.MIB])
async def test_a_provider_that_answers_and_resets_is_heard_too(kit, tcp_origin, size_bytes):
    async def refusing(stream):
        await stream.send_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}")
        stream.socket.close()

    origin = await tcp_origin(refusing)
    async with Upstream() as upstream:
        for _ in range(20):
            answer = await upstream.open(kit.request_for(origin, body=b"x" * size_bytes))
            assert (answer.status, await answer.receive()) == (401, b"{}")
            answer.finish()
        assert upstream.busy == 0


async def test_a_large_body_is_sent_whole_and_its_connection_kept(kit, tcp_origin):
    provider = kit.Script(ANSWER)
    origin = await tcp_origin(provider)
    body = b"x" * (4 * limits.MIB)
    async with Upstream() as upstream:
        for _ in range(2):
            answer = await upstream.open(kit.request_for(origin, body=body))
            assert await kit.read_answer(answer) == (EVENT, BodyEnd.CLEAN)
            answer.finish()
            assert counts(upstream) == (0, 1)
    assert [sent for _, sent in provider.requests] == [body, body]
    assert provider.connections == 1


async def test_a_large_body_nobody_reads_is_given_up_with_its_request(kit, tcp_origin):
    async def deaf(stream):
        await trio.sleep_forever()

    origin = await tcp_origin(deaf)
    async with Upstream() as upstream:
        with trio.move_on_after(0.02):
            await upstream.open(kit.request_for(origin, body=b"x" * (32 * limits.MIB)))
        assert await no_connections(upstream)


async def test_a_refused_connection_is_a_value(kit):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        origin = Origin("http", "127.0.0.1", unused.getsockname()[1])
        async with Upstream() as upstream:
            unreached = await upstream.open(kit.request_for(origin))
    assert (unreached.kind, unreached.dispatched) == (UnreachedKind.CONNECT, False)
