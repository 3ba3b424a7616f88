"""A channel's answer for a client of another protocol: the native reader judges, a decoder and an encoder translate.

Metering always happens on the channel's own events, before conversion: what an event means for the stream, usage, the
provider's error and completeness are the native reader's, unchanged. Conversion adds one judgement of its own: an
answer that the client's protocol cannot express (`unconvertible`) is never complete (contract, "What ends a stream").

The client's terminal is given out where the native one is: with the native terminal event, or by `finish` where the end
of the body proves it. A provider's error is translated once.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.contract import Reason
from hoptrio.limits import CONVERTED_BYTES_MAX
from hoptrio.protocols.convert.answer.decode.chat import ChatDecoder
from hoptrio.protocols.convert.answer.decode.gemini import GeminiDecoder
from hoptrio.protocols.convert.answer.decode.messages import MessagesDecoder
from hoptrio.protocols.convert.answer.decode.responses import ResponsesDecoder
from hoptrio.protocols.convert.answer.encode.chat import ChatEncoder
from hoptrio.protocols.convert.answer.encode.gemini import GeminiEncoder
from hoptrio.protocols.convert.answer.encode.messages import MessagesEncoder
from hoptrio.protocols.convert.answer.encode.responses import ResponsesEncoder
from hoptrio.protocols.convert.answer.vocabulary import Origin
from hoptrio.protocols.convert.answer.whole.bodies import ChatBody, GeminiBody, MessagesBody, ResponsesBody
from hoptrio.protocols.events import Counts, Finish, Framing, Kind, Protocol, ProviderError, Step
from hoptrio.protocols.members import is_object
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.vocabulary import Decoder, Encoder, Weigh
    from hoptrio.protocols.convert.naming import ToolName
    from hoptrio.protocols.events import Call, SseEvent
    from hoptrio.protocols.rules import Reader

    #: A provider's error as the client is told of it: `upstream.failure.from_provider`.
    Tell = Callable[[ProviderError], HoptrioError]

__all__ = ["Converted", "ConvertingReader", "read", "reader"]

#: Makes a named tuple in half the time of its own constructor; for the one place every event passes.
_new = tuple.__new__
#: Looking a member up in its enum costs 60 ns, and every event asks.
_ANSWER = Kind.ANSWER


class Converted(NamedTuple):
    """A whole answer, converted: `rules.Unary`, and the client's body."""

    counts: Counts | None
    reported: Counts | None
    error: ProviderError | None
    provider_ids: tuple[str, ...]
    #: b"" with an error.
    body: bytes
    #: Why the answer cannot be expressed in the client's protocol; "" = it can.
    unconvertible: str


class ConvertingReader:
    """See `rules.Reader`."""

    __slots__ = (
        "_bytes_left",
        "_channel",
        "_decode",
        "_encoder",
        "_holding",
        "_judge",
        "_native",
        "_over",
        "_tell",
        "_told",
        "_weigh",
    )

    def __init__(
        self, native: Reader, decoder: Decoder, encoder: Encoder, *, channel: Protocol, tell: Tell, weigh: Weigh
    ) -> None:
        self._native = native
        self._judge = native.feed
        self._decode = decoder.feed
        self._encoder = encoder
        self._channel = channel
        self._tell = tell
        self._weigh = weigh
        #: Nothing more is written: the client's terminal or error was, or the answer cannot be expressed.
        self._over = False
        #: The provider's error was translated.
        self._told = False
        #: The newest bytes are held back.
        self._holding = False
        self._bytes_left = CONVERTED_BYTES_MAX

    @property
    def unconvertible(self) -> str:
        """Why the answer cannot be expressed in the client's protocol, so that the stream fails; "" = it can so far."""
        return self._encoder.unconvertible

    @property
    def patience_s(self) -> float | None:
        """The native reader's; an answer that cannot be expressed is over now."""
        return 0.0 if self._encoder.unconvertible else self._native.patience_s

    @property
    def answered(self) -> bool:
        """The native reader's."""
        return self._native.answered

    @property
    def counts(self) -> Counts | None:
        """The native reader's."""
        return self._native.counts

    @property
    def reported(self) -> Counts | None:
        """The native reader's."""
        return self._native.reported

    @property
    def error(self) -> ProviderError | None:
        """The native reader's."""
        return self._native.error

    @property
    def provider_ids(self) -> tuple[str, ...]:
        """The native reader's. The client never sees these."""
        return self._native.provider_ids

    def feed(self, event: SseEvent) -> Step:
        """The native reader's judgement of one event, with the client's bytes for it."""
        kind = self._judge(event)[0]
        if kind is not _ANSWER or self._over:
            return self._feed_other(kind, event)
        self._bytes_left -= len(event[1])
        if self._bytes_left < 0:
            self._encoder.refuse("an answer beyond the size limit")
            self._over = True
        return _new(Step, (kind, self._decode(event)))

    def _feed_other(self, kind: Kind, event: SseEvent) -> Step:
        if kind is Kind.FAILURE:
            return self._fail()
        if self._over or event.stray:
            return Step(kind, b"")
        if kind is Kind.TERMINAL:
            return self._hold(event)
        return Step(kind, self._decode(event))

    def alike(self) -> None:
        """Every event is translated."""

    def finish(self, *, clean: bool) -> Finish:
        """The native judgement, with the client's terminal if it was not written yet."""
        complete, _ = self._native.finish(clean=clean)
        if not complete or self._over:
            return Finish(complete and not self._encoder.unconvertible, b"")
        if not self._holding:
            self._encoder.mark()
        wire = self._end()
        return Finish(not self._encoder.unconvertible, wire)

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our own error event in the client's protocol; nothing behind a provider's error, which was translated."""
        return b"" if self._told else self._encoder.failure(reason, error)

    def _hold(self, event: SseEvent) -> Step:
        """What may be the terminal. Gemini's never says so itself: the client's waits for `finish`."""
        self._holding = True
        self._encoder.mark()
        wire = self._decode(event)
        if self._native.patience_s == 0:
            wire += self._end()
        return Step(Kind.TERMINAL, wire)

    def _end(self) -> bytes:
        self._over = True
        native = self._native
        counts = native.counts
        usage = None if counts is None else self._weigh(counts, self._channel, answered=native.answered)
        wire = self._encoder.end(usage)
        return b"" if self._encoder.unconvertible else wire

    def _fail(self) -> Step:
        """Tell of the provider's error, once. Responses' ``error`` is told at once, though more may follow."""
        error = self._native.error
        if self._over or error is None:
            return Step(Kind.FAILURE, b"")
        self._over = self._told = True
        self._encoder.mark()
        return Step(Kind.FAILURE, self._encoder.failure(Reason.PROVIDER_ERROR, self._tell(error)))


def reader(
    call: Call,
    channel: Protocol,
    *,
    created_s: int,
    names: Mapping[str, ToolName],
    tell: Tell,
    weigh: Weigh,
) -> ConvertingReader:
    """A reader for one stream of a `channel` for the client's `call`. `created_s` is the wall clock; `names` are the
    client's tools by the names the channel has for them."""
    origin = _origin(call, created_s, names)
    encoder = _stream_encoder(call, origin)
    native = RULES[channel].reader(_on(call, channel), hide_usage=False)
    decoder = _decoder(channel, encoder, names)
    return ConvertingReader(native, decoder, encoder, channel=channel, tell=tell, weigh=weigh)


def read(
    call: Call, channel: Protocol, body: bytes, *, created_s: int, names: Mapping[str, ToolName], weigh: Weigh
) -> Converted:
    """A whole 2xx body of a `channel`, read natively and converted. Never raises for what a provider sends."""
    unary = RULES[channel].read(_on(call, channel), body)
    if unary.error is not None:
        return Converted(unary.counts, unary.reported, unary.error, unary.provider_ids, b"", "")
    encoder = _body_encoder(call, _origin(call, created_s, names))
    if not is_object(body):
        encoder.refuse("the answer is no JSON object")
    _decoder(channel, encoder, names).whole(body)
    usage = None if unary.counts is None else weigh(unary.counts, channel, answered=True)
    answer = encoder.end(usage)
    if encoder.unconvertible:
        answer = b""
    return Converted(unary.counts, unary.reported, None, unary.provider_ids, answer, encoder.unconvertible)


def _on(call: Call, channel: Protocol) -> Call:
    """The call as the channel's own rules know it: Gemini's channel is always asked for SSE."""
    framing = Framing.SSE if call.stream else Framing.JSON
    return msgspec.structs.replace(call, protocol=channel, framing=framing)


def _origin(call: Call, created_s: int, names: Mapping[str, ToolName]) -> Origin:
    return Origin(model=call.model, created_s=created_s, token=secrets.token_hex(12), names=names)


def _decoder(channel: Protocol, encoder: Encoder, names: Mapping[str, ToolName]) -> Decoder:
    if channel is Protocol.CHAT:
        return ChatDecoder(encoder)
    if channel is Protocol.RESPONSES:
        return ResponsesDecoder(encoder, [name for name, tool in names.items() if tool.custom])
    return MessagesDecoder(encoder) if channel is Protocol.MESSAGES else GeminiDecoder(encoder)


def _stream_encoder(call: Call, origin: Origin) -> Encoder:
    if call.protocol is Protocol.CHAT:
        return ChatEncoder(origin, include_usage=call.usage_asked)
    if call.protocol is Protocol.RESPONSES:
        return ResponsesEncoder(origin, call.body)
    if call.protocol is Protocol.MESSAGES:
        return MessagesEncoder(origin, show_thinking=_wants_thinking(call.body))
    return GeminiEncoder(origin, show_thoughts=_wants_thoughts(call.body), array=call.framing is Framing.JSON_ARRAY)


def _body_encoder(call: Call, origin: Origin) -> Encoder:
    if call.protocol is Protocol.CHAT:
        return ChatBody(origin)
    if call.protocol is Protocol.RESPONSES:
        return ResponsesBody(origin, call.body)
    if call.protocol is Protocol.MESSAGES:
        return MessagesBody(origin, show_thinking=_wants_thinking(call.body))
    return GeminiBody(origin, show_thoughts=_wants_thoughts(call.body))


def _wants_thinking(body: Mapping[str, Any]) -> bool:
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") not in (None, "disabled")


def _wants_thoughts(body: Mapping[str, Any]) -> bool:
    """Gemini takes both spellings in requests."""
    config = _member(body, "generationConfig", "generation_config")
    thinking = _member(config, "thinkingConfig", "thinking_config")
    return _member(thinking, "includeThoughts", "include_thoughts") is True


def _member(value: Any, *names: str) -> Any:
    return next((value[name] for name in names if name in value), None) if isinstance(value, dict) else None
