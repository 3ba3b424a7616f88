"""The WebSocket driver against frames right and wrong (RFC 6455; the cases of the Autobahn suite): the code that it
closes with, and that nothing of the connection is left."""

from __future__ import annotations

import ssl
from random import Random

import pytest
import trio
import trio.testing
import trustme
from structlog.testing import capture_logs

from hoptrio import limits
from hoptrio.downstream.websocket.connection import converse
from tests.support.websocket import frame, raw_frames

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
CONTINUATION = 0


async def echo(socket):
    """Says what it hears."""
    share = socket.share()
    while (message := await socket.receive()) is not None:
        share.put([message.encode()])


def talking(talk=echo):
    async def handler(exchange):
        await converse(exchange, [(b"x-test", b"1")], talk)

    return handler


async def opened(gateway, talk=echo, *, early=b""):
    """A client whose handshake is over."""
    return await raw_frames(gateway.memory(talking(talk)), "sk", early)


async def is_over(gateway):
    """Nothing is left of the connection."""
    with trio.fail_after(10):
        await gateway.closed.wait()
    assert gateway.backlogs.bytes == 0


def code(number, reason=b""):
    return number.to_bytes(2, "big") + reason


# -- what is right -----------------------------------------------------------------------------------------------------


async def test_text_goes_both_ways(gateway, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"hello") + frame(TEXT))
    assert [await frames.next(), await frames.next()] == [(TEXT, b"hello"), (TEXT, b"")]


async def test_frames_right_behind_the_handshake_are_heard(gateway, autojump_clock):
    frames = await opened(gateway, early=frame(TEXT, b"early") + frame(TEXT, b"bird")[:3])
    assert await frames.next() == (TEXT, b"early")
    await frames.client.send(frame(TEXT, b"bird")[3:])
    assert await frames.next() == (TEXT, b"bird")


@pytest.mark.parametrize("size", [1, 2, 7])
async def test_a_message_may_come_in_fragments_cut_anywhere_with_pings_between(gateway, size, autojump_clock):
    text = "ΑΩ 🦜 …".encode()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    sent = frame(TEXT, pieces[0], fin=False)
    for piece in pieces[1:]:
        sent += frame(PING, b"are you there") + frame(CONTINUATION, piece, fin=False)
    sent += frame(CONTINUATION)
    frames = await opened(gateway)
    for at in range(0, len(sent), 3):
        await frames.client.send(sent[at : at + 3])
    for _ in pieces[1:]:
        assert await frames.next() == (PONG, b"are you there")
    assert await frames.next() == (TEXT, text)


async def test_a_message_of_the_largest_size_passes(gateway, autojump_clock, monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 70_000)
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"x" * 70_000))
    assert await frames.next() == (TEXT, b"x" * 70_000)


@pytest.mark.parametrize("payload", [b"", code(1000), code(1001, b"bye"), code(3001, b"mine"), code(4999)])
async def test_a_close_is_answered_with_its_code(gateway, payload, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(CLOSE, payload))
    assert await frames.next() == (CLOSE, payload)
    assert await frames.next() is None
    await is_over(gateway)


async def test_a_close_of_ours_has_its_code_and_waits_a_moment_for_the_peers(gateway, autojump_clock):
    async def talk(socket):
        await socket.close(1001, "going away")
        assert await socket.receive() is None

    frames = await opened(gateway, talk)
    assert await frames.next() == (CLOSE, code(1001, b"going away"))
    await frames.client.send(frame(PING, b"behind it") + frame(CLOSE, code(1001)))
    assert await frames.next() is None
    await frames.client.stream.aclose()
    await is_over(gateway)
    assert trio.current_time() < 1


async def test_a_close_of_ours_that_is_not_answered_is_the_end_all_the_same(gateway, autojump_clock):
    frames = await opened(gateway, lambda socket: socket.close(1000))
    assert await frames.close_code() == 1000
    await is_over(gateway)
    assert trio.current_time() < limits.WEBSOCKET_CLOSE_S + limits.LINGER_S + 1


# -- what is wrong -----------------------------------------------------------------------------------------------------

ABUSE = {
    "bad UTF-8": (1007, frame(TEXT, b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited")),
    "UTF-8 that ends too soon": (1007, frame(TEXT, b"\xf0\x9f\xa6")),
    "bad UTF-8 in a fragment": (1007, frame(TEXT, b"ok", fin=False) + frame(CONTINUATION, b"\xff", fin=False)),
    "a reason that is no UTF-8": (1007, frame(CLOSE, code(1000, b"\xff"))),
    "binary": (1003, frame(BINARY, b"\x00\x01")),
    "binary in fragments": (1003, frame(BINARY, b"\x00", fin=False) + frame(CONTINUATION, b"\x01")),
    "oversize": (1009, frame(TEXT, b"x" * 1001)),
    "oversize in bytes": (1009, frame(TEXT, "🦜".encode() * 251)),
    "oversize in fragments": (1009, frame(TEXT, b"x" * 900, fin=False) + frame(CONTINUATION, b"x" * 900, fin=False)),
    "without a mask": (1002, frame(TEXT, b"hello", masked=False)),
    "a reserved bit": (1002, frame(TEXT, b"hello", rsv=4)),
    "a reserved opcode": (1002, frame(3, b"hello")),
    "a reserved control opcode": (1002, frame(11)),
    "a ping in fragments": (1002, frame(PING, b"a", fin=False) + frame(CONTINUATION, b"b")),
    "a long ping": (1002, frame(PING, b"x" * 126)),
    "a continuation of nothing": (1002, frame(CONTINUATION, b"x")),
    "a message inside another": (1002, frame(TEXT, b"x", fin=False) + frame(TEXT, b"y")),
    "a close of one byte": (1002, frame(CLOSE, b"\x03")),
    "a close code that may not be sent": (1002, frame(CLOSE, code(1006))),
    "a close code there is not": (1002, frame(CLOSE, code(2000))),
    "a close code below all": (1002, frame(CLOSE, code(999))),
}


@pytest.mark.parametrize("name", ABUSE)
async def test_abuse_ends_in_the_right_code(gateway, name, autojump_clock, monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 1000)
    expected, sent = ABUSE[name]
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"hello"))
    assert await frames.next() == (TEXT, b"hello")
    await frames.client.send(sent)
    assert await frames.close_code() == expected
    await is_over(gateway)


async def test_a_flood_of_messages_behind_the_abuse_changes_nothing(gateway, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"\xff") + frame(TEXT, b"more") * 1000)
    assert await frames.close_code() == 1007
    await is_over(gateway)


@pytest.mark.parametrize("cut", [1, 5, 9])
async def test_a_client_that_is_cut_inside_a_frame_has_left(gateway, cut, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"hello")[:cut])
    await frames.client.stream.aclose()
    await is_over(gateway)


async def test_a_half_close_without_a_close_frame_is_a_client_that_left(gateway, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"hello"))
    assert await frames.next() == (TEXT, b"hello")
    await frames.client.stream.send_eof()
    assert await frames.close_code() is None
    await is_over(gateway)


async def test_a_silent_peer_is_dropped(gateway, autojump_clock):
    frames = await opened(gateway)
    began = trio.current_time()
    assert (await frames.next())[0] == PING
    assert trio.current_time() - began == pytest.approx(limits.WEBSOCKET_PING_S)
    assert await frames.close_code() == 1011
    assert trio.current_time() - began < limits.WEBSOCKET_PING_S + limits.WEBSOCKET_PONG_S + 5
    await is_over(gateway)


async def test_a_peer_that_answers_pings_is_not_silent(gateway, autojump_clock):
    frames = await opened(gateway)
    for _ in range(10):
        opcode, payload = await frames.next()
        assert opcode == PING
        await frames.client.send(frame(PONG, payload))
    await frames.client.send(frame(TEXT, b"here"))
    assert await frames.next() == (TEXT, b"here")


async def test_a_large_message_has_the_time_that_a_body_has(gateway, autojump_clock):
    frames = await opened(gateway)
    await frames.client.send(frame(TEXT, b"x" * (limits.WEBSOCKET_UNFINISHED_BYTES_MAX + 1), fin=False))
    while (found := await frames.next())[0] == PING:
        await frames.client.send(frame(PONG, found[1]))
    assert found == (CLOSE, code(1008, b"The message took too long."))
    assert limits.BODY_S < trio.current_time() < limits.BODY_S + 30
    await is_over(gateway)


async def test_a_client_that_takes_no_answer_has_left_in_a_minute(gateway, autojump_clock):
    """Whatever it is sent: this one has no turn whose clock would notice."""
    client = gateway.lockstep(talking())
    await raw_frames(client, "sk")
    await client.send(frame(TEXT, b"hello"))
    began = trio.current_time()
    with trio.fail_after(100):
        await gateway.closed.wait()
    assert trio.current_time() - began <= 70
    assert gateway.backlogs.bytes == 0


async def test_pings_of_a_client_that_reads_none_of_the_pongs_are_held_back(gateway, autojump_clock):
    client = gateway.lockstep(talking())
    await raw_frames(client, "sk")
    with trio.move_on_after(10) as flood:
        await client.send(frame(PING, b"x" * 125) * 10_000)
        await client.send(b"\x89")
    assert flood.cancelled_caught
    assert gateway.backlogs.bytes == 0


async def test_a_shutdown_in_the_middle_of_a_message_leaves_nothing(gateway, nursery, autojump_clock):
    async def talk(socket):
        socket.share().put([b"x" * 100_000])
        await trio.sleep_forever()

    scope = trio.CancelScope()

    async def serve(stream):
        with scope:
            await gateway.serve(stream, talking(talk))
        over.set()

    over = trio.Event()
    ours, theirs = trio.testing.lockstep_stream_pair()
    nursery.start_soon(serve, theirs)
    await raw_frames(gateway.client(ours), "sk")
    await trio.sleep(1)
    scope.cancel()
    with trio.fail_after(10):
        await over.wait()
    assert gateway.backlogs.bytes == 0


def noise(random):
    """A few frames of which most are in order, cut anywhere or followed by anything."""
    sent = b""
    for _ in range(random.randint(1, 6)):
        payload = random.choice(
            [b"", b"{}", "Ω".encode(), b"\xff", code(1000), random.randbytes(random.randint(0, 200))]
        )
        opcode = random.choice([TEXT, TEXT, CONTINUATION, PING, PONG, CLOSE, BINARY, random.randint(0, 15)])
        wrong = random.random() < 0.05
        sent += frame(opcode, payload, fin=random.random() < 0.7, masked=not wrong, rsv=random.choice([0] * 9 + [1]))
    return sent[: random.randint(1, len(sent))] if random.random() < 0.3 else sent


@pytest.mark.parametrize("seed", range(5))
async def test_noise_ends_in_an_answer_or_a_code_and_never_in_a_bug(gateway, seed, autojump_clock):
    random = Random(seed)
    with capture_logs() as logs:
        for _ in range(60):
            async with trio.open_nursery() as nursery:
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(gateway.serve, theirs, talking())
                frames = await raw_frames(gateway.client(ours), "sk")
                await frames.client.send(noise(random))
                with trio.move_on_after(1):
                    while (found := await frames.next()) is not None:
                        assert found[0] in (TEXT, PONG, CLOSE)
                await frames.client.stream.aclose()
            assert gateway.backlogs.bytes == 0
    assert logs == []


# -- over TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contexts():
    """A client's and a server's."""
    authority = trustme.CA()
    mine, theirs = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(mine)
    authority.issue_cert("x").configure_cert(theirs)
    return mine, theirs


def encrypted(pair, contexts):
    ours, theirs = pair
    mine, server = contexts
    return (
        trio.SSLStream(ours, mine, server_hostname="x", https_compatible=True),
        trio.SSLStream(theirs, server, server_side=True, https_compatible=True),
    )


async def test_text_goes_both_ways_and_the_close_has_its_code_over_tls(gateway, contexts, autojump_clock):
    client = gateway.over(encrypted(trio.testing.memory_stream_pair(), contexts), talking())
    frames = await raw_frames(client, "sk", frame(TEXT, b"early"))
    assert await frames.next() == (TEXT, b"early")
    await client.send(frame(TEXT, b"\xff"))
    assert await frames.close_code() == 1007
    await is_over(gateway)


async def test_a_client_that_takes_nothing_has_left_over_tls_too(gateway, contexts, autojump_clock):
    client = gateway.over(encrypted(trio.testing.lockstep_stream_pair(), contexts), talking())
    await raw_frames(client, "sk")
    await client.send(frame(TEXT, b"x" * 100_000))
    with trio.fail_after(100):
        await gateway.closed.wait()
    assert gateway.backlogs.bytes == 0
