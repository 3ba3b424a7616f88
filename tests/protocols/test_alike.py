"""A run of alike events is told as if each had been read."""

from __future__ import annotations

import json
from itertools import cycle

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptrio.protocols.alike import Alike, Text
from hoptrio.protocols.chat.reader import ChatReader
from hoptrio.protocols.messages.reader import MessagesReader
from hoptrio.stream.pump import EventPump
from hoptrio.upstream.answer import BodyEnd
from tests.support.corpus import recordings

EVENT = b'data: {"i":1,"content":"Hello","x":null}\n\n'


def alike(event=EVENT, *, told=None, field=b'"content":', value=b'"Hello"'):
    made = Alike()
    made.follow(told or event, event, lambda decoded: decoded, Text(field, value))
    return made


def other(text, event=EVENT):
    return event.replace(b"Hello", text)


def test_events_that_differ_in_their_text_are_a_run():
    data = other(b" wor") + other("世界".encode()) + other(b"")
    assert alike().run(data) == (3, data)


@pytest.mark.parametrize(
    "text",
    [b"", b'a"', b'a","usage":{"total_tokens":1},"b":"c', b"a\\u0041", b"a\nb", b"a\rb", b'a"}\n\ndata: {"b":"c'],
)
def test_a_text_that_is_none_is_read(text):
    assert alike().run(other(text)) is None


@pytest.mark.parametrize(
    "data",
    [
        EVENT.replace(b"1", b"2"),
        EVENT + b": ping\n\n",
        b"\n" + EVENT,
        EVENT + EVENT[:-1],
        EVENT[:-20],
        EVENT + EVENT.replace(b"null", b"true"),
        b"",
    ],
)
def test_anything_else_is_read(data):
    assert alike().run(data) is None


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (EVENT, b'"content":', b'["Hello"]'),
        (EVENT, b'"text":', b'"Hello"'),
        (b'data: {"a":{"content":"Hello"},"content":"Hello"}\n\n', b'"content":', b'"Hello"'),
        (b'data: {"x\\"content":"Hello"}\n\n', b'"content":', b'"Hello"'),
        (other(b"Hello" * 500), b'"content":', b'"' + b"Hello" * 500 + b'"'),
    ],
)
def test_no_example_is_taken_where_the_text_is_not_certain(event, field, value):
    assert alike(event, field=field, value=value).run(event) is None


def test_what_is_withheld_of_the_example_is_withheld_of_the_run():
    told = EVENT.replace(b',"x":null', b"")
    made = alike(told=told)
    assert made.run(other(b"a") + other(b"b")) == (2, other(b"a", told) + other(b"b", told))


def test_nothing_is_told_where_the_text_is_not_in_what_the_client_is_told():
    assert alike(told=b"data: {}\n\n").run(other(b"a")) is None


def test_what_was_forgotten_is_read():
    made = alike()
    made.forget()
    assert made.run(EVENT) is None


def test_a_likeness_that_never_comes_is_given_up():
    made = Alike()
    for number in range(20):
        event = other(b"Hello", EVENT.replace(b"1", b"%d" % number))
        made.follow(event, event, lambda decoded: decoded, Text(b'"content":', b'"Hello"'))
        made.run(EVENT.replace(b"1", b"x"))
    made.follow(EVENT, EVENT, lambda decoded: decoded, Text(b'"content":', b'"Hello"'))
    assert made.run(EVENT) is None


# -- through the pump, next to a reader that is fed every event --------------------------------------------------------


class Reads:
    """An answer of given reads."""

    def __init__(self, reads):
        self.reads = list(reads)

    async def receive(self):
        return self.reads.pop(0) if self.reads else BodyEnd.CLEAN

    async def each(self, take):
        while self.reads:
            if take(self.reads.pop(0)):
                return None
        return BodyEnd.CLEAN


class EachFed:
    """A reader that recognises nothing."""

    def __init__(self, reader):
        self._reader = reader

    def alike(self):
        return None

    def __getattr__(self, name):
        return getattr(self._reader, name)


async def pumped(reader, reads):
    """All that the stream learns and the client is told, and after which reads the answer had moved."""
    told, moved, at = [], set(), [0]
    pump = EventPump(
        reader, produced=None, emit=told.append, progressed=lambda: moved.add(at[0]), note=lambda event: None
    )
    answer = Reads(reads)
    feed = pump._read

    def count(data):
        at[0] += 1
        return feed(data)

    pump._read = count
    ended = await pump.run(answer, b"")
    return b"".join(told), moved, pump.events, pump.counts, reader.answered, repr(ended)


def chat_event(text, **members):
    delta = {"content": text} if isinstance(text, str) else text
    choice = {"index": 0, "delta": delta, "finish_reason": members.pop("finish", None)}
    return b"data: " + json.dumps({"id": "c", "choices": [choice], **members}, ensure_ascii=False).encode() + b"\n\n"


def messages_event(kind, **members):
    value = json.dumps({"type": kind, **members}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {value}\n\n".encode()


TEXTS = st.sampled_from(
    ["Hi", " you", "'s", " there", "", '"', "\\", "\n", "世界", "a\u2028b", '"},"usage":{"total_tokens":9}', "0"]
)


def runs(*forms):
    """Events of one form with texts of their own."""
    return st.tuples(st.sampled_from(forms), st.lists(TEXTS, min_size=2, max_size=9)).map(
        lambda drawn: b"".join(drawn[0](text) for text in drawn[1])
    )


def text_delta(text):
    return messages_event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def thinking_delta(text):
    return messages_event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": text})


CHAT = st.one_of(
    runs(
        chat_event,
        lambda text: chat_event(text, usage=None),
        lambda text: chat_event({"reasoning_content": text, "content": None}),
    ),
    st.sampled_from(
        [
            b": ping\n\n",
            chat_event("x", usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
            chat_event({}, finish="stop"),
            chat_event({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]}),
            chat_event("tier", service_tier="priority"),
            b'data: {"choices":[\n\n',
            b"data: [DONE]\n\n",
            b'data: {"error":{"message":"no"}}\n\n',
        ]
    ),
)
MESSAGES = st.one_of(
    runs(text_delta, thinking_delta),
    st.sampled_from(
        [
            messages_event("ping"),
            messages_event("content_block_stop", index=0),
            messages_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
            messages_event("message_stop"),
            messages_event("error", error={"type": "overloaded_error", "message": "no"}),
        ]
    ),
)


@st.composite
def bodies(draw, events):
    """Runs of events, some of them odd, cut into reads anywhere."""
    body = b"".join(draw(st.lists(events, min_size=1, max_size=8)))
    if draw(st.booleans()):
        body = body.replace(b"\n", b"\r\n")
    sizes = cycle(draw(st.lists(st.sampled_from((1, 30, 100, 200, 500, 2000)), min_size=1, max_size=6)))
    reads, at = [], 0
    while at < len(body):
        reads.append(body[at : at + next(sizes)])
        at += len(reads[-1])
    return reads


def same(make, reads):
    assert trio.run(pumped, make(), reads) == trio.run(pumped, EachFed(make()), reads)


@given(bodies(CHAT), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_chat_stream_is_told_as_if_each_event_had_been_read(reads, hide_usage):
    same(lambda: ChatReader(hide_usage=hide_usage), reads)


@given(bodies(MESSAGES))
@settings(max_examples=200, deadline=None)
def test_a_messages_stream_is_told_as_if_each_event_had_been_read(reads):
    same(MessagesReader, reads)


@pytest.mark.skipif(not recordings(), reason="no recordings here")
@pytest.mark.parametrize("size", [1 << 16, 1000, 77])
def test_every_recording_is_told_as_if_each_event_had_been_read(size):
    for recording in recordings():
        body = recording.raw
        make = {"chat": lambda: ChatReader(hide_usage=True), "messages": MessagesReader}.get(recording.protocol)
        if make is not None:
            same(make, [body[at : at + size] for at in range(0, len(body), size)])
