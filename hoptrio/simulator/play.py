"""Play: an answer performed by its script: when each event is sent, and how it all fails. Pure: it yields steps.

One rule places every failure: `Failure.when` counts the pieces already sent, or names a moment between the parts of an
answer. An answer with fewer pieces fails before its terminal.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.protocols.events import Framing, Operation, Protocol
from hoptrio.simulator.answer import answer_to
from hoptrio.simulator.chat import ChatDialect, chat_error
from hoptrio.simulator.embeddings import embeddings_body
from hoptrio.simulator.frames import Frame
from hoptrio.simulator.gemini import GeminiDialect, gemini_error
from hoptrio.simulator.images import images_body
from hoptrio.simulator.messages import MessagesDialect, messages_error
from hoptrio.simulator.responses import ResponsesDialect
from hoptrio.simulator.script import ENDINGS, ERRORS, TRANSPORTS, Failure
from hoptrio.simulator.steps import Cut, End, Hang, Head, Raw, Reset, Send, Sleep
from hoptrio.simulator.wire import Encoder, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hoptrio.simulator.frames import Dialect
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script
    from hoptrio.simulator.steps import Step, Steps

__all__ = ["play", "refuse"]

_encode = msgspec.json.encode
_JSON = "application/json"
_HTML = b"<!doctype html><html><head><title>Simulated</title></head><body><h1>It works!</h1></body></html>\n"
_DONE = Frame(b"", b"[DONE]")
_STEPS: dict[str, Step] = {"end": End(), "cut": Cut(), "inside": Cut(), "reset": Reset(), "silence": Hang()}
_ERROR_BODIES = {
    Protocol.CHAT: chat_error,
    Protocol.RESPONSES: chat_error,
    Protocol.MESSAGES: messages_error,
    Protocol.GEMINI: gemini_error,
}


def play(prompt: Prompt, script: Script, serial: int) -> Steps:
    """Everything the provider does for one request. `serial` makes the answer's ids unique."""
    if script.head_delay_s:
        yield Sleep(script.head_delay_s)
    if script.fails("status"):
        yield from refuse(prompt.protocol, int(script.fail.arg), "simulated refusal", serial, script.retry_after)
    elif script.fails("no-head"):
        yield Hang()
    elif script.fails("close"):
        yield Cut()
    elif script.fails("not-http"):
        yield Raw(b"SSH-2.0-simulated\r\n")
        yield Cut()
    elif script.fails("html"):
        yield from _whole(200, _HTML, (("content-type", "text/html; charset=utf-8"),))
    elif script.fails("json-error"):
        yield from _whole(200, _error_body(prompt.protocol, 500, "simulated failure"), _headers(_JSON, serial))
    elif prompt.framing is Framing.JSON:
        yield from _unary(prompt, _transport_only(script), serial)
    elif prompt.framing is Framing.JSON_ARRAY:
        yield from _stream(prompt, _transport_only(script), serial)
    else:
        yield from _stream(prompt, script, serial)


def _transport_only(script: Script) -> Script:
    """The forms of an SSE event mean nothing for JSON."""
    return msgspec.structs.replace(script, wire=script.wire & TRANSPORTS) if script.wire else script


def refuse(protocol: Protocol, status: int, message: str, serial: int = 0, retry_after_s: int | None = None) -> Steps:
    """An HTTP error in the protocol's own shape."""
    headers = _headers(_JSON, serial)
    if retry_after_s is not None:
        headers += (("retry-after", str(retry_after_s)),)
    yield from _whole(status, _error_body(protocol, status, message), headers)


def _error_body(protocol: Protocol, status: int, message: str) -> bytes:
    """The JSON error body in the protocol's own shape."""
    return _encode(_ERROR_BODIES[protocol](status, message))


def _dialect(prompt: Prompt, script: Script, serial: int) -> Dialect:
    answer = answer_to(prompt, script, serial)
    if prompt.protocol is Protocol.CHAT:
        return ChatDialect(answer, usage_asked=prompt.usage_asked)
    if prompt.protocol is Protocol.RESPONSES:
        return ResponsesDialect(answer)
    return MessagesDialect(answer) if prompt.protocol is Protocol.MESSAGES else GeminiDialect(answer)


def _unary(prompt: Prompt, script: Script, serial: int) -> Steps:
    """A provider that does not stream is silent for as long as a stream of the answer would take."""
    yield Sleep(script.delay_s + script.pace_s * script.events)
    if script.fails(*ERRORS):
        yield from refuse(prompt.protocol, 500, "simulated failure", serial)
        return
    body = b"" if script.fails("empty") else _encode(_body(prompt, script, serial))
    if script.fails(*ENDINGS):
        yield from _half(body, script.fail.kind, _headers(_JSON, serial))
        return
    headers = _headers(_JSON, serial, gzip="gzip" in script.wire)
    yield Head(200, headers, length=None if script.wire else len(body), chunked="close" not in script.wire)
    yield from written(iter((Send(body), End())), script)


def _body(prompt: Prompt, script: Script, serial: int) -> dict[str, Any]:
    """The whole answer to what was asked for."""
    if prompt.operation is Operation.EMBEDDINGS:
        return embeddings_body(prompt, script)
    if prompt.operation is Operation.IMAGES:
        return images_body(prompt, script)
    return _dialect(prompt, script, serial).body()


def _half(body: bytes, kind: str, headers: tuple[tuple[str, str], ...]) -> Steps:
    """Half a body; only `end` pretends that it is all."""
    yield Head(200, headers, length=None if kind == "end" else len(body))
    yield Send(body[: len(body) // 2])
    yield _STEPS.get(kind, Hang())


def _stream(prompt: Prompt, script: Script, serial: int) -> Steps:
    array = prompt.framing is Framing.JSON_ARRAY
    headers = _headers(_JSON if array else "text/event-stream", serial, gzip="gzip" in script.wire)
    yield Head(200, headers, chunked="close" not in script.wire)
    if script.fails("empty"):
        yield End()
        return
    yield from written(_events(prompt, script, serial), script)


def _events(prompt: Prompt, script: Script, serial: int) -> Steps:
    dialect = _dialect(prompt, script, serial)
    encoder = Encoder(script, prompt.framing)
    between = _noise(dialect, encoder, script.between)
    pace = Sleep(script.pace_s) if script.pace_s else None
    sent = pieces = 0
    if script.delay_s:
        yield Sleep(script.delay_s)
    for frame in _frames(dialect, script, _moment(script)):
        if frame.piece:
            if pieces and pace is not None:
                yield pace
            pieces += 1
        yield Send(encoder.event(frame))
        sent += 1
        if frame.piece and between is not None:
            yield Send(between())
    if script.fails("inside"):
        yield from _inside(_dialect(prompt, script, serial), script, encoder, sent)
    elif script.fails(*ERRORS):
        yield from _error(dialect, script, encoder)
    else:
        yield from _ending(dialect, script, encoder)


def _frames(dialect: Dialect, script: Script, when: int | str) -> Iterator[Frame]:
    """The events up to a moment, "done" being all of them. Not one more is made: making one uses up its number."""
    if when == 0:
        return
    yield from dialect.opening()
    if when == "open":
        return
    pieces = 0
    for frame in dialect.content():
        yield frame
        pieces += frame.piece
        if frame.piece and pieces == when:
            return
    yield from dialect.closing()
    if when == "done":
        yield from dialect.terminal()
        if "done" in script.wire:
            yield _DONE


def _moment(script: Script) -> int | str:
    """When the events stop."""
    if script.fails("no-terminal"):
        return "end"
    return script.fail.when if script.fails(*ERRORS, *ENDINGS) else "done"


def _inside(dialect: Dialect, script: Script, encoder: Encoder, sent: int) -> Steps:
    """Half of the event that would be next. It comes from a second performance: the first one is used up."""
    following = next(islice(_frames(dialect, script, "done"), sent, None), _DONE)
    event = encoder.event(following)
    yield Send(event[: len(event) // 2])
    yield Cut()


def _error(dialect: Dialect, script: Script, encoder: Encoder) -> Steps:
    """The error event, and what follows it."""
    errors = dialect.errors(script.fail)
    if script.after == "failed":
        errors += dialect.errors(Failure("failed", script.fail.arg))
    elif script.after == "done":
        errors.append(_DONE)
    for frame in errors:
        stray = script.fails("stray-error") and frame is errors[0]
        yield Send(frame.data + b"\n" if stray else encoder.event(frame))
    if script.after in ("cut", "reset", "silence"):
        yield _STEPS[script.after]
    else:
        yield from _closed(encoder)


def _ending(dialect: Dialect, script: Script, encoder: Encoder) -> Steps:
    if script.fails("comments", "pings"):
        noise = _noise(dialect, encoder, script.fail.kind.removesuffix("s"))
        while noise is not None:
            yield Sleep(script.every_s)
            yield Send(noise())
    if script.fails("cut", "reset", "silence"):
        yield _STEPS[script.fail.kind]
    else:
        yield from _closed(encoder)


def _closed(encoder: Encoder) -> Steps:
    """A clean end."""
    closing = encoder.closing()
    if closing:
        yield Send(closing)
    yield End()


def _noise(dialect: Dialect, encoder: Encoder, kind: str) -> Callable[[], bytes] | None:
    """What makes bytes that move nothing; Chat has no ping, so that it gets a comment."""
    if kind == "none":
        return None
    if kind == "blank":
        return encoder.blank

    def ping() -> bytes:
        frame = dialect.ping()
        return encoder.comment() if frame is None else encoder.event(frame)

    return ping if kind == "ping" else encoder.comment


def _whole(status: int, body: bytes, headers: tuple[tuple[str, str], ...]) -> Steps:
    yield Head(status, headers, length=len(body))
    yield Send(body)
    yield End()


def _headers(content_type: str, serial: int, *, gzip: bool = False) -> tuple[tuple[str, str], ...]:
    """Both spellings of the request id, as the vendors have them."""
    request_id = f"req_sim_{serial}"
    headers = (("content-type", content_type), ("x-request-id", request_id), ("request-id", request_id))
    return (*headers, ("content-encoding", "gzip")) if gzip else headers
