"""Frames of a server, however they arrive, next to a library's."""

from __future__ import annotations

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message, Ping, TextMessage

from bench.unframe import Unframe, masked_text

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536]


def server():
    return Connection(ConnectionType.SERVER)


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize("size", SIZES)
def test_a_message_is_found_however_it_arrives(size, step):
    data = server().send(TextMessage("x" * size)) + server().send(Ping(b"?")) + server().send(TextMessage("y"))
    unframe = Unframe()
    found = b"".join(unframe.feed(data[at : at + step]) for at in range(0, len(data), step))
    assert found == b"x" * size + b"\ny\n"
    assert not unframe.finished


def test_a_message_in_pieces_is_one_line():
    sender = server()
    data = sender.send(Message("a", message_finished=False)) + sender.send(TextMessage("b"))
    assert Unframe().feed(data) == b"ab\n"


def test_a_close_is_the_end():
    unframe = Unframe()
    assert unframe.feed(server().send(TextMessage("a")) + server().send(CloseConnection(code=1000))) == b"a\n"
    assert unframe.finished


def test_a_masked_frame_is_no_server_s():
    with pytest.raises(ValueError, match="masked"):
        Unframe().feed(masked_text(b"a"))


@pytest.mark.parametrize("size", SIZES)
def test_what_a_client_sends_is_read_by_a_server(size):
    reader = server()
    reader.receive_data(masked_text(b"x" * size))
    assert "".join(event.data for event in reader.events()) == "x" * size
