from __future__ import annotations

import pytest
import structlog.testing
import trio
import trio.lowlevel
import trio.testing

from hoptrio import limits

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GET_10 = b"GET / HTTP/1.0\r\n\r\n"
EVENT = b"data: 1\n\n"
MIB = limits.MIB
SSE = [(b"content-type", b"text/event-stream")]


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


# -- framing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["memory", "tcp"])
async def test_each_write_is_a_chunk_and_the_end_is_clean(gateway, streaming, transport):
    async def body(writer):
        for n in range(3):
            writer.write(b"data: %d\n\n" % n)
            await trio.lowlevel.checkpoint()
        writer.write(b"")
        await writer.end()
        writer.write(b"behind the end")

    handler = streaming(body)
    client = gateway.memory(handler) if transport == "memory" else await gateway.tcp(handler)
    for _ in range(2):
        await client.send(GET)
        assert await client.until(b"0\r\n\r\n") == (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            + chunk(b"data: 0\n\n")
            + chunk(b"data: 1\n\n")
            + chunk(b"data: 2\n\n")
            + b"0\r\n\r\n"
        )


async def test_an_http_1_0_body_ends_with_the_connection(gateway, streaming):
    async def body(writer):
        writer.write(EVENT)
        await writer.end()

    client = await gateway.tcp(streaming(body))
    await client.send(GET_10)
    assert await client.all() == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nConnection: close\r\n\r\n" + EVENT
    )


async def test_the_answer_to_head_has_no_body(gateway, streaming):
    async def body(writer):
        writer.write(EVENT)
        await writer.end()

    client = gateway.memory(streaming(body))
    await client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await client.until(b"\r\n\r\n")
    await client.send(GET)
    assert await client.until(b"0\r\n\r\n") == head + chunk(EVENT) + b"0\r\n\r\n"


async def test_two_orders_of_bytes_are_impossible(gateway, streaming):
    pieces = [b"%06d" % n * 3000 for n in range(60)]

    async def body(writer):
        for piece in pieces:
            writer.write(piece)
            await trio.lowlevel.checkpoint()
        await writer.end()

    client = await gateway.tcp(streaming(body), receive_bytes=65536)
    await client.send(GET)
    received = await client.until(b"0\r\n\r\n")
    assert received.partition(b"\r\n\r\n")[2] == b"".join(map(chunk, pieces)) + b"0\r\n\r\n"


# -- clients that lag ------------------------------------------------------------------------------------------------


async def test_blocked_since_follows_what_the_client_takes(gateway, streaming, autojump_clock):
    seen = []

    async def body(writer):
        await trio.sleep(5)
        seen.append((writer.blocked_since, writer.last_write_at))
        await trio.sleep(2)
        seen.append(writer.blocked_since)
        writer.write(EVENT)
        seen.append(writer.blocked_since)
        await writer.end()
        assert gateway.backlogs.bytes == 0

    client = gateway.lockstep(streaming(body))
    started = trio.current_time()
    await client.send(GET)
    await trio.sleep(6)
    await client.until(b"0\r\n\r\n")
    assert seen == [(started, started), None, started + 7]


async def test_the_end_waits_no_longer_than_the_write_stall(gateway, streaming, autojump_clock):
    async def body(writer):
        await writer.end()
        assert writer.gone

    client = gateway.lockstep(streaming(body))
    started = trio.current_time()
    await client.send(GET)
    await gateway.closed.wait()
    assert trio.current_time() - started == limits.WRITE_STALL_S
    assert gateway.backlogs.bytes == 0


async def test_a_whole_answer_waits_no_longer_either(gateway, echo, autojump_clock):
    client = gateway.lockstep(echo)
    started = trio.current_time()
    await client.send(GET)
    await gateway.closed.wait()
    assert trio.current_time() - started == limits.WRITE_STALL_S


async def test_a_cancelled_handler_leaves_whole_events(gateway, autojump_clock):
    async def handler(exchange):
        with trio.move_on_after(1):
            exchange.writer.start()
            exchange.writer.head(200, [])
            exchange.writer.write(EVENT)
            await trio.sleep_forever()
        exchange.writer.write(b"data: error\n\n")
        await exchange.writer.abort()

    client = gateway.memory(handler)
    await client.send(GET)
    assert (await client.all()).endswith(chunk(EVENT) + chunk(b"data: error\n\n"))


async def test_an_end_that_was_cut_short_is_not_delivered_later(gateway, streaming):
    async def body(writer):
        writer.write(b"x" * 6 * MIB)
        with trio.CancelScope() as scope:
            scope.cancel()
            await writer.end()
        await writer.abort()
        assert writer.gone

    client = await gateway.tcp(streaming(body), receive_bytes=65536)
    await client.send(GET)
    await gateway.closed.wait()
    with pytest.raises(trio.BrokenResourceError):
        await client.all()


async def test_case_94_a_client_that_does_not_read_leaves_and_the_producer_goes_on(gateway):
    produced = 0
    writers = []

    async def handler(exchange):
        nonlocal produced
        writers.append(exchange.writer)
        exchange.writer.start()
        exchange.writer.head(200, [])
        for _ in range(800):
            exchange.writer.write(b"x" * 65536)
            produced += 65536
            assert gateway.backlogs.bytes <= limits.BACKLOG_BYTES_MAX
            await trio.lowlevel.checkpoint()
        assert exchange.writer.gone
        assert exchange.writer.wire.closed
        exchange.writer.stop()

    client = await gateway.tcp(handler, receive_bytes=65536)
    await client.send(GET)
    await gateway.closed.wait()
    assert produced == 50 * MIB
    assert gateway.backlogs.bytes == 0


async def test_a_slow_reader_gets_eight_megabytes_whole(gateway):
    async def handler(exchange):
        await exchange.writer.respond(200, [], b"x" * 8 * MIB)

    client = await gateway.tcp(handler, receive_bytes=65536)
    await client.send(GET)
    received = 0
    while received < 8 * MIB:
        received += len(await client.some())
    assert received > 8 * MIB


async def test_a_whole_answer_that_is_taken_a_little_at_a_time_has_an_end(gateway, monkeypatch):
    """Each read counts as progress, so that without an end of its own a reader could keep 8 MiB for hours."""
    monkeypatch.setattr(limits, "RESPOND_S", 0.3)

    async def handler(exchange):
        await exchange.writer.respond(200, [], b"x" * 8 * MIB)

    client = await gateway.tcp(handler, receive_bytes=4096)
    await client.send(GET)
    with trio.fail_after(5):
        while not gateway.closed.is_set():
            await client.stream.receive_some(1)
            await trio.sleep(0.005)
    assert gateway.backlogs.bytes == 0


async def test_one_event_larger_than_the_buffer_reaches_a_client_that_keeps_up(gateway, streaming):
    async def body(writer):
        writer.write(b"x" * 6 * MIB)
        assert not writer.gone
        await writer.end()

    client = await gateway.tcp(streaming(body), receive_bytes=65536)
    await client.send(GET)
    assert len(await client.until(b"0\r\n\r\n")) > 6 * MIB


async def test_the_largest_backlog_leaves_when_the_process_is_full(gateway):
    gateway.backlogs.bytes_max = 2 * MIB
    writers = []

    async def handler(exchange):
        writers.append(exchange.writer)
        exchange.writer.head(200, [])
        await release.wait()
        await exchange.writer.abort()

    release = trio.Event()
    for _ in range(2):
        client = await gateway.tcp(handler, receive_bytes=65536)
        await client.send(GET)
    while len(writers) < 2:
        await trio.lowlevel.checkpoint()
    small, large = writers
    large.write(b"x" * 6 * MIB)
    assert not large.gone
    small.write(b"x" * 5 * MIB)
    assert large.gone
    assert not small.gone
    small.leave()
    assert gateway.backlogs.bytes == 0
    release.set()


# -- clients that leave ----------------------------------------------------------------------------------------------


async def test_a_reset_is_proof(gateway, streaming):
    left = trio.Event()

    async def body(writer):
        while not writer.gone:
            await trio.lowlevel.checkpoint()
        assert writer.wire.closed
        writer.write(EVENT)
        await writer.end()
        left.set()

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    await client.some()
    await client.reset()
    await left.wait()


async def test_a_half_close_is_a_hint_and_the_rest_arrives(gateway, streaming):
    async def body(writer):
        while not writer.half_closed:
            await trio.lowlevel.checkpoint()
        for _ in range(5):
            writer.write(EVENT)
            await trio.lowlevel.checkpoint()
        assert not writer.gone
        await writer.end()

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    await client.stream.send_eof()
    assert (await client.all()).endswith(chunk(EVENT) * 5 + b"0\r\n\r\n")


async def test_a_close_is_noticed_by_writing(gateway, streaming):
    async def body(writer):
        while not writer.half_closed:
            await trio.lowlevel.checkpoint()
        while not writer.gone:
            writer.write(EVENT)
            await trio.lowlevel.checkpoint()

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    await client.some()
    await client.stream.aclose()
    await gateway.closed.wait()


async def test_leave_frees_the_socket_while_the_handler_goes_on(gateway, streaming):
    async def body(writer):
        writer.leave()
        assert writer.wire.sock.fileno() == -1
        writer.write(EVENT)
        await writer.end()
        await writer.abort()
        await writer.respond(200, [], b"")

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    with pytest.raises(trio.BrokenResourceError):
        await client.all()


async def test_leave_closes_any_other_transport_soon(gateway, streaming, autojump_clock):
    async def body(writer):
        writer.leave()
        await trio.sleep(100)

    client = gateway.memory(streaming(body))
    await client.send(GET)
    started = trio.current_time()
    await client.all()
    assert trio.current_time() == started


# -- the next request while one runs ---------------------------------------------------------------------------------


async def test_a_request_that_comes_early_is_served_next(gateway, streaming):
    async def body(writer):
        while not writer.wire.inbox:
            await trio.lowlevel.checkpoint()
        writer.write(EVENT)
        await writer.end()

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    await client.some()
    await client.send(GET + GET)
    received = b""
    while received.count(b"\r\n0\r\n\r\n") < 2:
        received += await client.some()


async def test_a_flood_while_streaming_is_held_back(gateway, streaming):
    async def body(writer):
        while len(writer.wire.inbox) < limits.PIPELINED_BYTES_MAX:
            await trio.lowlevel.checkpoint()
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        assert len(writer.wire.inbox) == limits.PIPELINED_BYTES_MAX
        writer.write(EVENT)
        await writer.end()

    client = await gateway.tcp(streaming(body))
    await client.send(GET)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send, b"x" * 8 * MIB)
        assert chunk(EVENT) + b"0\r\n\r\nHTTP/1.1 431 " in await client.until(b"}")
        nursery.cancel_scope.cancel()


# -- endings that nobody can take for complete -----------------------------------------------------------------------


async def test_case_21_a_truncated_body_has_no_final_chunk(gateway, streaming):
    async def body(writer):
        for _ in range(200):
            writer.write(EVENT)
        await writer.abort()
        writer.write(EVENT)

    client = await gateway.tcp(streaming(body))
    await client.send(GET)
    received = await client.all()
    assert received.endswith(b"\r\n\r\n" + chunk(EVENT) * 200)


async def test_a_truncated_http_1_0_body_ends_in_a_reset_after_its_last_byte(gateway, streaming):
    async def body(writer):
        for _ in range(2000):
            writer.write(EVENT)
        await writer.abort()

    client = await gateway.tcp(streaming(body))
    await client.send(GET_10)
    await client.until(b"\r\n\r\n" + EVENT * 2000)
    with pytest.raises(trio.BrokenResourceError):
        await client.some()


async def test_a_cancelled_http_1_0_response_is_reset_too(gateway):
    async def handler(exchange):
        exchange.writer.head(200, [])
        exchange.writer.write(EVENT)
        await trio.sleep_forever()

    async with trio.open_nursery() as gateway.nursery:
        client = await gateway.tcp(handler)
        await client.send(GET_10)
        await client.until(EVENT)
        gateway.nursery.cancel_scope.cancel()
    with pytest.raises(trio.BrokenResourceError):
        await client.some()


async def test_case_17_an_abort_closes_within_the_lingering_read(gateway, streaming, autojump_clock):
    async def body(writer):
        writer.write(EVENT)
        await writer.abort()
        assert writer.wire.closed

    client = gateway.memory(streaming(body))
    started = trio.current_time()
    await client.send(GET)
    await client.all()
    assert trio.current_time() == started
    await gateway.closed.wait()
    assert trio.current_time() - started <= limits.LINGER_S


async def test_an_abort_before_the_head_just_closes(gateway):
    async def handler(exchange):
        await exchange.writer.abort()

    client = await gateway.tcp(handler)
    await client.send(GET)
    assert await client.all() == b""


async def test_nothing_is_written_before_the_head(gateway):
    async def handler(exchange):
        exchange.writer.write(EVENT)
        await exchange.writer.respond(200, [], b"ok")

    client = gateway.memory(handler)
    await client.send(GET)
    assert (await client.until(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_handler_that_forgets_the_end_truncates(gateway):
    async def handler(exchange):
        exchange.writer.head(200, SSE)
        exchange.writer.write(EVENT)

    client = await gateway.tcp(handler)
    await client.send(GET)
    assert (await client.all()).endswith(b"\r\n\r\n" + chunk(EVENT))


async def test_a_header_cannot_smuggle_a_line(gateway):
    async def handler(exchange):
        await exchange.writer.respond(200, [(b"x", b"a\r\nset-cookie: b")], b"ok")

    client = gateway.memory(handler)
    with structlog.testing.capture_logs() as logs:
        await client.send(GET)
        assert b"set-cookie" not in await client.all()
    assert "cookie" not in str(logs)


@pytest.mark.parametrize("moment", range(20))
async def test_a_watch_may_begin_again_at_once(gateway, moment):
    """On any stream and in any order of tasks: the one that was stopped is still reading then."""

    async def handler(exchange):
        writer = exchange.writer
        writer.head(200, SSE)
        for _ in range(3):
            writer.start()
            await trio.testing.wait_all_tasks_blocked()
            writer.stop()
        writer.start()
        writer.write(EVENT)
        await trio.testing.wait_all_tasks_blocked()
        writer.stop()
        await writer.end()

    client = gateway.memory(handler)
    await client.send(GET)
    assert (await client.until(b"0\r\n\r\n")).endswith(chunk(EVENT) + b"0\r\n\r\n")
