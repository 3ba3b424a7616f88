"""One stream: hold, dispatch, relay, settle, tell. What belongs to it, and the order of its ends.

    this task    hold -> [ scope: { open -> pump } ], perhaps again -> settle -> tell -> deliver
    writer       watches the client, empties its backlog                           (downstream's, started here)
    clock        keep-alive, header limit, stall, write stall

The scope around an attempt carries the deadline of the whole, from the first dispatch; the clock ends it when the
attempt stalls, a shutdown through `stop`. Attempts are one or several by the contract, each with a reader and a scope
of its own. However the last one ends, the settlement follows, shielded: nothing that a client, a provider or an
operator does can skip or repeat it, and only that attempt is in it. A client that leaves cancels nothing: writes become
no-ops, and the provider is read to its terminal or the deadline.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import structlog
import trio

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.protocols.events import Framing
from hoptrio.spool.chunk import End
from hoptrio.stream.blame import blame
from hoptrio.stream.clock import Clock
from hoptrio.stream.ending import ending, error_for
from hoptrio.stream.kept import Kept
from hoptrio.stream.opening import begin, unreached
from hoptrio.stream.outcome import Ended, Outcome
from hoptrio.stream.ports import Elsewhere
from hoptrio.stream.produced import Produced
from hoptrio.stream.pump import BodyPump, EventPump
from hoptrio.upstream.answer import Unreached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.contract import Contract
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Call
    from hoptrio.protocols.rules import Reader, Rules
    from hoptrio.stream.blame import Blame
    from hoptrio.stream.ports import Desk, Face, Record, Source, Writer
    from hoptrio.stream.pump import Pump
    from hoptrio.telemetry.tally import Meter
    from hoptrio.upstream.answer import Answer

__all__ = ["Stream"]

log = structlog.get_logger("hoptrio.stream")

#: After `settle` gave up waiting, its own bounds have passed; this much more is for its hand-over.
SETTLE_MARGIN_S = 1.0


class Stream:
    """One request in flight; run once. `contract`, `stall_s` (None: off) and `call` are fixed before the hold."""

    #: A dictionary of more than thirty attributes takes 1.6 KiB, and every silent stream has one (CPython 3.11).
    __slots__ = (
        "_alive",
        "_answer",
        "_answered",
        "_attempt_reason",
        "_call",
        "_channel",
        "_client_gone_noted",
        "_clock",
        "_contract",
        "_created_at",
        "_cut_short",
        "_deadline",
        "_desk",
        "_dispatched_at",
        "_face",
        "_kept",
        "_left_early",
        "_meter",
        "_now",
        "_produced",
        "_pump",
        "_reader",
        "_reading",
        "_record",
        "_scope",
        "_source",
        "_stop_reason",
        "_tried",
        "_writer",
        "attempts",
        "settled",
        "timeline",
    )

    def __init__(
        self,
        *,
        call: Call,
        rules: Rules,
        contract: Contract,
        stall_s: float | None,
        client_headers: Mapping[str, str],
        writer: Writer,
        source: Source,
        desk: Desk,
        face: Face,
        meter: Meter,
        record: Record | None = None,
    ) -> None:
        """With a `record`, what the client is told is kept, too."""
        self._call = call
        self._meter = meter
        self._contract = contract
        self._writer = writer
        self._source = source
        self._desk = desk
        self._face = face
        self._record = record
        self._alive = rules.keepalive(call.framing, client_headers) if call.stream else b""
        self._clock = Clock(
            writer,
            mode=contract.keepalive if self._alive else "off",
            keepalive_s=contract.keepalive_seconds,
            stall_s=stall_s if call.stream else None,
            keepalive=self._keepalive,
            stalled=self._stalled,
        )
        #: Of the provider's side; it begins with the first dispatch.
        self._deadline = inf
        self._stop_reason: Reason | None = None
        self._dispatched_at: float | None = None
        #: Attempts begun.
        self._tried = 0
        #: Those of which a byte left for the provider.
        self.attempts = 0
        #: `trio.current_time` without two of its three frames: every event asks.
        self._now = trio.lowlevel.current_clock().current_time
        self._created_at = self._now()
        self._client_gone_noted = False
        self._left_early = False
        #: The channel of the attempt that is settled in the end.
        self._channel = source.channel
        self._begin()
        #: ((seconds since the request came, event), ...), appended by this object only.
        self.timeline: list[tuple[float, str]] = []
        #: Set when the hold is resolved, or the request refused.
        self.settled = False

    async def run(self) -> None:
        """Carry the stream through. Returns when the client has been told, or has left and the hold is resolved."""
        self._writer.start()
        try:
            await self._serve()
        finally:
            self._clock.stop()
            self._writer.stop()
            # The pump calls this object: without a cycle both are freed at once, and not by the collector.
            del self._pump, self._kept

    def stop(self, reason: Reason) -> None:
        """End the provider's side now, for `reason`. What is complete by then stays complete, and nothing is tried
        again."""
        if self._stop_reason is None:
            self._stop_reason = reason
        self._scope.cancel()

    def note(self, event: str) -> None:
        """Put an event on the timeline."""
        at_s = trio.current_time() - self._created_at
        self.timeline.append((at_s, event))
        if event == "first_event":
            self._meter.first_event(at_s)

    @property
    def channel(self) -> str:
        """The channel of the attempt that runs, or was the last."""
        return self._channel

    @property
    def client_left(self) -> bool:
        """Nobody reads what the provider sends."""
        return self._writer.gone

    # -- the way through ------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        refusal = await self._desk.place()
        if refusal is not None:
            self.settled = True
            if not isinstance(refusal, Elsewhere):
                await self._writer.respond(*self._face.refusal(refusal))
            return
        self.note("held")
        # Not before: a keep-alive would commit the status, and a refused hold has one of its own.
        self._clock.start()
        ended = Ended(Reason.SHUTDOWN)  # what it is if this task is cancelled from outside
        settled = False
        try:
            ended = await self._provider_side()
        finally:
            with trio.move_on_after(limits.MEASURE_S + limits.SETTLE_S + SETTLE_MARGIN_S, shield=True):
                settled = await self._desk.settle(self._outcome(ended))
            self.settled = True
            self._release_answer(ended)
            # Not behind the telling, which waits for the client and may be cut off.
            end = self._last_words(ended, settled=settled)
        self._clock.delivering = True
        await self._tell(end)

    async def _provider_side(self) -> Ended:
        """Attempts under the scope; a bug in there ends this stream and no other."""
        try:
            ended = await self._attempts()
        except Exception as error:
            log.error("stream failed", error=type(error).__name__, exc_info=error)
            ended = Ended(Reason.INTERNAL)
        if not self._cut_short:
            self._source.over(self._blame(ended))
            return ended
        said = self._blame(ended)
        # Silence in what an attempt before left of the time, or in less than a stall takes, proves nothing.
        short = self._tried > 1 or self._contract.deadline_seconds < limits.STALL_S
        self._source.over(said._replace(fault=None) if short else said)
        return ended

    async def _attempts(self) -> Ended:
        """Attempts until one succeeds or is the last. One whose client left before its dispatch is none."""
        ended = await self._attempt()
        while self._try_again(ended):
            before = self._channel
            self._begin()
            further = await self._attempt()
            if further.reason is Reason.NOT_DISPATCHED:
                self._source.over(self._blame(further))
                self._channel = before
                self._meter.asked(before)
                return ended._replace(tail=b"")
            ended = further
        return ended

    def _begin(self) -> None:
        """What one attempt has of its own; nothing is left of the one before."""
        self._tried += 1
        self._channel = self._source.channel
        self._meter.asked(self._channel)
        self._reading = self._source.reading
        self._answer: Answer | None = None
        self._scope = trio.CancelScope(deadline=self._deadline)
        #: Why the clock or the client ended the attempt; None = it did not.
        self._attempt_reason: Reason | None = None
        #: The deadline or a shutdown ended the attempt.
        self._cut_short = False
        self._clock.progress_at = None
        self._answered = False
        self._kept: Kept | None = None
        self._reader: Reader | None = None
        self._pump: Pump = self._make_pump()

    async def _attempt(self) -> Ended:
        with self._scope:
            return await self._exchange()
        self._cut_short = self._attempt_reason is None
        return self._pump.cut(self._attempt_reason or self._cut_reason())

    def _try_again(self, ended: Ended) -> bool:
        """Give a failed attempt up, and choose a channel for another; False = this one stands.

        Only while nothing of the model's answer reached the client, and not for a client that left: a FIN is enough.
        """
        said = self._blame(ended)
        seen = self._kept is not None and self._kept.released
        left = self._writer.gone or self._writer.half_closed
        over = self._tried >= self._contract.attempts or self._stop_reason is not None or self._cut_short
        if over or seen or left or not said.mendable:
            return False
        self._source.over(said)
        if not self._source.again():
            return False
        # The channel stands last: the account that asked is not told it (`ledger.report`).
        self.note(f"attempt_failed {ended.reason} {self._channel}")
        self._release_answer(ended)
        return True

    def _blame(self, ended: Ended) -> Blame:
        return blame(ended, answered=self._pump.answered, stream=self._call.stream)

    async def _exchange(self) -> Ended:
        if self._writer.gone or self._writer.half_closed:
            return Ended(Reason.NOT_DISPATCHED)
        answer = await self._source.open(self._dispatched)
        if isinstance(answer, Unreached):
            return unreached(answer)
        self._answer = answer
        self.note("headers")
        self._clock.progress_at = trio.current_time()
        first = await begin(answer, self._reading, stream=self._call.stream)
        return first if isinstance(first, Ended) else await self._pump.run(answer, first)

    def _dispatched(self) -> None:
        """The first byte is about to leave: the deadline starts. Before that, a FIN is enough to stop and void."""
        if self._writer.gone or self._writer.half_closed:
            self._end_attempt(Reason.NOT_DISPATCHED)
            return
        now = trio.current_time()
        if self._dispatched_at is None:
            self._dispatched_at = now
            self._deadline = self._scope.deadline = now + self._contract.deadline_seconds
        self.attempts += 1
        self._clock.progress_at = now
        self.note("dispatched")

    def _cut_reason(self) -> Reason:
        if self._stop_reason is not None:
            return self._stop_reason
        return Reason.DEADLINE if self._answer is not None else Reason.HEADER_TIMEOUT

    # -- called by the clock and the pump --------------------------------------------------------------------------

    def _make_pump(self) -> Pump:
        self._produced = Produced(self._reading.rules) if self._contract.interrupted == "charge" else None
        if not self._call.stream:
            return BodyPump(self._reading, produced=self._produced, note=self.note)
        emit = self._emit
        self._reader = self._reading.reader()
        if self._tried < self._contract.attempts:
            self._kept = Kept(self._reader, emit)
            emit = self._kept.emit
        return EventPump(
            self._reader,
            produced=self._produced,
            emit=emit,
            progressed=self._progressed,
            note=self.note,
            tell=self._reading.tell,
        )

    def _emit(self, data: bytes) -> None:
        if self._record is not None:
            self._record.take(data)
        if self._writer.gone:
            self._note_client_gone()
            return
        self._write_head()
        self._writer.write(data)

    def _progressed(self) -> None:
        now, before = self._now(), self._clock.progress_at
        self._clock.progress_at = now
        self._meter.moved(now, self._pump.events)
        if self._answered:
            if before is not None and now - before >= limits.GAP_SHOWN_S:
                self._note_if_room(f"gap {round((now - before) * 1000)}")
        elif self._pump.answered:
            self._answered = True
            self._source.answered()

    def _end_attempt(self, reason: Reason) -> None:
        if not self._scope.cancel_called:
            self._attempt_reason = reason
            self._scope.cancel()

    def _keepalive(self) -> None:
        self._meter.kept_alive()
        self._write_head()
        self._writer.write(self._alive)
        self._note_if_room("keepalive")

    def _note_if_room(self, event: str) -> None:
        """What may happen any number of times must leave room for what happens once."""
        if len(self.timeline) < limits.TIMELINE_EVENTS_MAX:
            self.note(event)

    def _stalled(self) -> None:
        self._meter.stalled()
        self._end_attempt(Reason.STALLED if self._answer is not None else Reason.HEADER_TIMEOUT)

    def _write_head(self) -> None:
        if not self._writer.head_written:
            # A FIN that was there before the first byte is proven to be a client that left only by later writes.
            self._left_early = self._writer.half_closed
            self._writer.head(200, self._face.stream_headers(self._answer))

    def _note_client_gone(self) -> None:
        if not self._client_gone_noted:
            self._client_gone_noted = True
            self._meter.left()
            early = self._left_early or not self._writer.head_written
            self.note("client_gone_before_first_byte" if early else "client_gone")

    # -- the end ---------------------------------------------------------------------------------------------------

    def _outcome(self, ended: Ended) -> Outcome:
        if self._writer.gone:
            self._note_client_gone()
        self.note("ended")
        pump = self._pump
        self._meter.relayed(pump.events)
        return Outcome(
            reason=ended.reason,
            counts=pump.counts,
            reported=pump.reported,
            produced=() if self._produced is None or ended.reason is None else self._produced.texts(),
            answered=pump.answered,
            provider_ids=pump.provider_ids,
            timeline=tuple(self.timeline),
            attempts=self.attempts,
            channel=self._channel,
            answer=self._answer,
        )

    def _release_answer(self, ended: Ended) -> None:
        if self._answer is None:
            return
        if ended.reason in (None, Reason.NO_EVIDENCE):
            self._answer.finish()
        else:
            self._answer.abort()

    def _last_words(self, ended: Ended, *, settled: bool) -> End:
        """Write what is left to write of a stream; how the client is to be told the end."""
        if self._call.framing is Framing.JSON:
            end = self._whole(ended, settled=settled)
        else:
            end = self._stream_end(ended, settled=settled)
        if self._record is not None:
            self._record.finish(end)
        return end

    def _whole(self, ended: Ended, *, settled: bool) -> End:
        charged_without = ended.reason is Reason.NO_EVIDENCE and self._contract.interrupted == "charge"
        if settled and self._answer is not None and (ended.reason is None or charged_without):
            return End(True, 200, tuple(self._face.body_headers(self._answer)), ended.tail)
        return self._refused(ended, settled=settled)

    def _stream_end(self, ended: Ended, *, settled: bool) -> End:
        step = ending(
            self._contract,
            ended.reason,
            settled=settled,
            head_written=self._writer.head_written or (self._record is not None and self._record.begun),
            framing=self._call.framing,
            tail=bool(ended.tail),
        )
        if step.status:
            return self._refused(ended, settled=settled)
        if self._kept is not None and (step.tail or step.event):
            self._kept.release()
        if step.tail and ended.tail:
            self._emit(ended.tail)
        if step.event and self._reader is not None:
            error = self._error(ended, settled=settled)
            self._emit(self._reader.failure(ended.reason or Reason.INTERNAL, error))
        return End(step.clean)

    def _refused(self, ended: Ended, *, settled: bool) -> End:
        """A status; and what stands for it where somebody has the head of a stream."""
        error = self._error(ended, settled=settled)
        status, headers, body = self._face.refusal(error)
        event = b""
        if self._record is not None and self._reader is not None and self._contract.failure != "truncate":
            event = self._reader.failure(ended.reason or Reason.INTERNAL, error)
        unsent = settled and ended.reason is Reason.NOT_DISPATCHED
        return End(False, status, tuple(headers), body, event, unsent)

    async def _tell(self, end: End) -> None:
        """Deliver it, within the delivery's own deadline."""
        writer = self._writer
        if writer.gone:
            return
        began_at = trio.current_time() if self._dispatched_at is None else self._dispatched_at
        until = began_at + self._contract.deadline_seconds + limits.DELIVERY_GRACE_S
        if end.status:
            await writer.respond(end.status, end.headers, end.body, until)
        else:
            self._write_head()
            await (writer.end(until) if end.clean else writer.abort(until))

    def _error(self, ended: Ended, *, settled: bool) -> HoptrioError:
        return ended.error if settled and ended.error is not None else error_for(ended.reason if settled else None)
