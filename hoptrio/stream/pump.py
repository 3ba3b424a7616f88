"""The pumps: a provider's body in, whole events (or one whole body) out. They read at the provider's pace, always.

A pump never awaits the client: `Writer.write` takes what it is given or the client has left. It returns how the
provider's side ended; what must not be seen before the hold is resolved (terminal, error events, a whole body) is in
`Ended.tail`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Protocol as Interface

import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.protocols.events import Kind
from hoptrio.protocols.sse import Splitter
from hoptrio.protocols.texts import is_answer
from hoptrio.stream.outcome import Ended
from hoptrio.upstream.answer import BodyEnd
from hoptrio.upstream.failure import from_body_end, from_provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hoptrio.protocols.alike import Alike
    from hoptrio.protocols.convert.reader import Tell
    from hoptrio.protocols.events import Counts, ProviderError, SseEvent
    from hoptrio.protocols.rules import Reader
    from hoptrio.stream.produced import Produced
    from hoptrio.stream.reading import Reading
    from hoptrio.upstream.answer import Answer

__all__ = ["BodyPump", "EventPump", "Pump"]

#: Looking a member up in its enum costs 60 ns, and every event asks.
_ANSWER, _TERMINAL = Kind.ANSWER, Kind.TERMINAL
_EVENT_END = b"\n\n"


class Pump(Interface):
    """What the stream asks of either pump."""

    @property
    def counts(self) -> Counts | None:
        """Usage by the protocol's rule."""

    @property
    def reported(self) -> Counts | None:
        """Usage as far as reported."""

    @property
    def answered(self) -> bool:
        """Some of the model's answer was read."""

    @property
    def events(self) -> int:
        """How many were handed on, the terminal not among them; none of a whole body."""

    @property
    def provider_ids(self) -> tuple[str, ...]:
        """Ids in the answer that a later request may refer to."""

    async def run(self, answer: Answer, first: bytes) -> Ended:
        """Read the answer to its end; `first` was read already."""

    def cut(self, reason: Reason) -> Ended:
        """The clock, the deadline or a shutdown ended `run`: what had been read until then may yet be complete."""


class EventPump:
    """One stream of events. `emit` gets whole events for the client; `progressed` is called once a read that moved the
    model's answer, and `note` with each note for the timeline. `produced`, if any, gathers what the events say; `tell`
    makes the client's error of a provider's."""

    def __init__(
        self,
        reader: Reader,
        *,
        produced: Produced | None,
        emit: Callable[[bytes], None],
        progressed: Callable[[], None],
        note: Callable[[str], None],
        tell: Tell = from_provider,
    ) -> None:
        self._reader = reader
        self._tell = tell
        self._feed = reader.feed if produced is None else produced.reading(reader)
        #: Not where every event's words are gathered.
        self._alike = reader.alike() if produced is None else None
        self._splitter = Splitter()
        self._emit = emit
        self._progressed = progressed
        self._note = note
        self._tail = b""
        #: What is held back would be the terminal if nothing followed.
        self._candidate = False
        self._partial = 0
        self._any = False
        self.events = 0

    @property
    def counts(self) -> Counts | None:
        """Usage by the protocol's rule."""
        return self._reader.counts

    @property
    def reported(self) -> Counts | None:
        """As the reader found it."""
        return self._reader.reported

    @property
    def answered(self) -> bool:
        """An ANSWER event was read."""
        return self._reader.answered

    @property
    def provider_ids(self) -> tuple[str, ...]:
        """As the reader found them."""
        return self._reader.provider_ids

    async def run(self, answer: Answer, first: bytes) -> Ended:
        """Read until the terminal, the provider's error, or the end of the body, whichever is first."""
        end: BodyEnd | None = None
        self._read(first)
        while end is None and not self._over:
            patience_s = self._reader.patience_s
            end = await (answer.each(self._read) if patience_s is None else self._wait(answer, patience_s))
        if self._splitter.too_large:
            return Ended(Reason.EVENT_TOO_LARGE)
        return self._judge(clean=True) if end is None or self._over else self._ended(end)

    def cut(self, reason: Reason) -> Ended:
        """Complete evidence wins over whatever ended the reading."""
        ended = self._judge(clean=False)
        return ended if ended.reason in (None, Reason.UNCONVERTIBLE) else Ended(reason)

    @property
    def _over(self) -> bool:
        """Nothing more is read."""
        return self._reader.patience_s == 0 or self._splitter.too_large

    def _read(self, data: bytes) -> bool:
        """One read; True if there is something to decide before the next."""
        if self._alike is None or self._candidate:
            self._take(self._splitter.feed(data))
        else:
            self._take_alike(data, self._alike)
        return self._reader.patience_s is not None or self._splitter.too_large

    async def _wait(self, answer: Answer, patience_s: float) -> BodyEnd | None:
        """One more read, or silence, which is the end."""
        with trio.move_on_after(patience_s):
            data = await answer.receive()
            if isinstance(data, BodyEnd):
                return data
            self._read(data)
            return None
        return BodyEnd.CLEAN

    def _take(self, events: Iterable[SseEvent]) -> None:
        """Classify events in order and hand on what may be seen now, in one write a read, whatever it holds."""
        out: list[bytes] = []
        self._hand_on(out, moved=self._classify(events, out))

    def _take_alike(self, data: bytes, alike: Alike) -> None:
        """The same for a read that may be the rest of an event, many that are alike, and the beginning of one."""
        out: list[bytes] = []
        moved = False
        splitter = self._splitter
        if not splitter.between:
            begins_at = data.find(_EVENT_END) + len(_EVENT_END) if _EVENT_END in data else len(data)
            moved = self._classify(splitter.feed(data[:begins_at]), out)
            data = b"" if self._over else data[begins_at:]
        ends_at = data.rfind(_EVENT_END) + len(_EVENT_END)
        if ends_at >= len(_EVENT_END) and splitter.between and (run := alike.run(data[:ends_at])) is not None:
            count, wire = run
            self.events += count - 1
            out.append(wire)
            moved = True
            data = data[ends_at:]
        if data:
            moved = self._classify(splitter.feed(data), out) or moved
        self._hand_on(out, moved=moved)

    def _classify(self, events: Iterable[SseEvent], out: list[bytes]) -> bool:
        """Put what the client may see now into `out`; whether the answer moved."""
        moved = False
        for event in events:
            kind, wire = self._feed(event)
            if kind is _ANSWER:
                moved = True
                out.append(wire)
            elif kind < _TERMINAL:
                out.append(wire)
            else:
                # One of several candidates has finished and others go on: that moved the answer.
                moved |= self._reader.patience_s is None
                self._hold_back(kind, wire, out)
                if self._reader.patience_s == 0:
                    break
        return moved

    def _hand_on(self, out: list[bytes], *, moved: bool) -> None:
        moved |= self._grown()
        self.events += len(out)
        if moved:
            self._progressed()
        if data := out[0] if len(out) == 1 else b"".join(out):
            if not self._any:
                self._any = True
                self._note("first_event")
            self._emit(data)

    def _grown(self) -> bool:
        """Bytes of one large unfinished event are progress, too (contract, "Clocks")."""
        before, self._partial = self._partial, self._splitter.partial_bytes
        return self._partial > before

    def _hold_back(self, kind: Kind, wire: bytes, out: list[bytes]) -> None:
        """Whatever comes behind a candidate for the terminal sets it free; error events are kept together."""
        if self._candidate:
            out.append(self._tail)
            self._tail = b""
        self._candidate = kind is _TERMINAL
        self._tail += wire
        self._note("terminal" if kind is _TERMINAL else "provider_error")

    def _ended(self, end: BodyEnd) -> Ended:
        clean = end in (BodyEnd.CLEAN, BodyEnd.CLOSED)
        if clean:
            self._take(self._splitter.finish())
        if end is BodyEnd.UNDECODABLE:
            ended = self.cut(Reason.PROVIDER_ERROR)
            return ended if ended.reason is None else ended._replace(error=from_body_end(end))
        return self._judge(clean=clean)

    def _judge(self, *, clean: bool) -> Ended:
        reader = self._reader
        finish = reader.finish(clean=clean)
        if reader.unconvertible:
            return Ended(Reason.UNCONVERTIBLE)
        if reader.error is not None:
            return self._failed(reader.error)
        if not finish.complete:
            return Ended(Reason.TRUNCATED, self._tail)
        reason = Reason.NO_EVIDENCE if reader.counts is None else None
        return Ended(reason, self._tail + finish.wire)

    def _failed(self, error: ProviderError) -> Ended:
        told = self._tell(error)
        if self._reader.patience_s:
            # The protocol's own closing error event was awaited and never came: ours follows the provider's.
            self._tail += self._reader.failure(Reason.PROVIDER_ERROR, told)
        return Ended(Reason.PROVIDER_ERROR, self._tail, told, error)


class BodyPump:
    """One whole JSON answer."""

    def __init__(self, reading: Reading, *, produced: Produced | None, note: Callable[[str], None]) -> None:
        self._reading = reading
        self._produced = produced
        self._note = note
        self.counts: Counts | None = None
        self.reported: Counts | None = None
        self.events = 0
        self.answered = False
        self.provider_ids: tuple[str, ...] = ()

    async def run(self, answer: Answer, first: bytes) -> Ended:
        """Read the body, then its usage."""
        # One block that grows, since thousands of read-sized ones would leave the heap in pieces (`service.heap`).
        body = bytearray(first)
        while not isinstance(data := await answer.receive(), BodyEnd):
            body += data
            if len(body) > limits.UNARY_BYTES_MAX:
                return Ended(Reason.EVENT_TOO_LARGE)
        if data not in (BodyEnd.CLEAN, BodyEnd.CLOSED):
            return Ended(Reason.TRUNCATED, error=from_body_end(data))
        self._note("body")
        return self._judge(bytes(body))

    def cut(self, reason: Reason) -> Ended:
        """Half a body is nothing."""
        return Ended(reason)

    def _judge(self, body: bytes) -> Ended:
        read, told, unconvertible = self._reading.whole(body)
        self.counts, self.reported, self.provider_ids = read.counts, read.reported, read.provider_ids
        if read.error is not None:
            self._gather(body)
            return Ended(Reason.PROVIDER_ERROR, error=self._reading.tell(read.error), cause=read.error)
        self.answered = True
        if unconvertible:
            return Ended(Reason.UNCONVERTIBLE)
        if read.counts is not None:
            return Ended(None, told)
        if self._produced is not None:
            self._gather(body)
        return Ended(Reason.NO_EVIDENCE, told)

    def _gather(self, body: bytes) -> None:
        """What there is of an answer that is no evidence, and its words unless the provider reported them."""
        self.answered = is_answer(body)
        if self._produced is not None and not (self.reported and self.reported.output):
            self._produced.take(body)
