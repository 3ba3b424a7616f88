"""Templates: an answer of the simulated provider's dialects, cut where the time goes, so that sending an event is one
formatted write. All streams of a kind share their bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bench.dialogs import STAMP
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.answer import answer_to
from hoptrio.simulator.chat import ChatDialect
from hoptrio.simulator.gemini import GeminiDialect
from hoptrio.simulator.messages import MessagesDialect
from hoptrio.simulator.prompt import Prompt
from hoptrio.simulator.responses import ResponsesDialect
from hoptrio.simulator.script import Failure, Script
from hoptrio.simulator.wire import Encoder

if TYPE_CHECKING:
    from hoptrio.simulator.frames import Dialect, Frame

__all__ = ["Frames", "Stamped", "template"]


class Stamped(NamedTuple):
    """An event's bytes before and behind the 19 digits of its time."""

    before: bytes
    behind: bytes

    def at(self, now_ns: int) -> bytes:
        return b"%b%019d%b" % (self.before, now_ns, self.behind)


class Frames(NamedTuple):
    """One answer as chunks of HTTP: what comes before the first event, the events, and what comes behind the last."""

    opening: bytes
    events: tuple[Stamped, ...]
    #: In the order of their writes; the last ends the body.
    closing: tuple[bytes, ...]
    error: bytes
    #: The answer as one JSON value, for a request that does not stream.
    body: bytes


@cache
def template(protocol: Protocol, events: int, size: int, input_tokens: int, output_tokens: int, asked: bool) -> Frames:
    """The answer of so many events of `size` bytes of text each, with these counts."""
    text = STAMP + "x" * max(0, size - len(STAMP))
    script = Script(events=events, text=text * events, input=input_tokens, output=output_tokens)
    dialect = _dialect(protocol, script, asked)
    encoder = Encoder(script, Framing.SSE)
    shared: dict[bytes, bytes] = {}

    def chunk(frame: Frame) -> bytes:
        data = encoder.event(frame)
        return b"%x\r\n%b\r\n" % (len(data), data)

    opening = b"".join(map(chunk, dialect.opening()))
    found: list[Stamped] = []
    between = b""
    for frame in dialect.content():
        data = between + chunk(frame)
        between = b""
        if not frame.piece:
            # Boundaries of items and blocks leave with the event behind them.
            between = data
            continue
        before, _, behind = data.partition(STAMP.encode())
        before, behind = before + b"~", b"~" + behind
        found.append(Stamped(shared.setdefault(before, before), shared.setdefault(behind, behind)))
    closing = (between + b"".join(map(chunk, dialect.closing())), *map(chunk, dialect.terminal()))
    errors = b"".join(map(chunk, _dialect(protocol, script, asked).errors(Failure("error"))))
    end = b"0\r\n\r\n"
    body = msgspec.json.encode(_dialect(protocol, script, asked).body())
    return Frames(
        opening, tuple(found), (*(each for each in closing[:-1] if each), closing[-1] + end), errors + end, body
    )


def _dialect(protocol: Protocol, script: Script, asked: bool) -> Dialect:
    prompt = Prompt(protocol=protocol, model="bench", framing=Framing.SSE, text="", text_bytes=0, usage_asked=asked)
    answer = answer_to(prompt, script, 1)
    if protocol is Protocol.CHAT:
        return ChatDialect(answer, usage_asked=asked)
    if protocol is Protocol.RESPONSES:
        return ResponsesDialect(answer)
    return MessagesDialect(answer) if protocol is Protocol.MESSAGES else GeminiDialect(answer)
