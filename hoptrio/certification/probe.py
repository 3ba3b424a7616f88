"""Probe: one real, small stream on a channel, through the same upstream client, protocol rules and pump as any other.

It is metered and charged to nobody: there is no hold and no entry. Whatever happens is a `Result`; only bugs raise. It
is over within `limits.PROBE_S`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import trio

from hoptrio import limits
from hoptrio.admission.body import body_for
from hoptrio.certification.finding import Finding, Seen, judge, words_for
from hoptrio.certification.request import calls
from hoptrio.contract import Reason
from hoptrio.metering.evidence import usage
from hoptrio.protocols.registry import RULES
from hoptrio.stream.opening import begin, unreached
from hoptrio.stream.pump import EventPump
from hoptrio.stream.reading import Native
from hoptrio.upstream.answer import BodyEnd, Unreached
from hoptrio.upstream.provider import request_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoptrio.admission.catalogue import Channel, Model
    from hoptrio.metering.evidence import Usage
    from hoptrio.protocols.events import Call, Protocol
    from hoptrio.stream.outcome import Ended
    from hoptrio.upstream.answer import Answer
    from hoptrio.upstream.client import Upstream

__all__ = ["Result", "probe"]

#: A usage object that is more than null, in any of the protocols.
_USAGE = re.compile(rb'"usage(?:Metadata)?"\s*:\s*(?!null)')
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,40}")


class Result(NamedTuple):
    """What one probe found."""

    finding: Finding
    #: A few words more, "" if there are none.
    detail: str
    usage: Usage | None
    #: The usage object as received, "" if there was none.
    evidence: str
    duration_s: float

    @property
    def certified(self) -> bool:
        """The channel may stream the model."""
        return self.finding is Finding.CERTIFIED

    @property
    def words(self) -> str:
        """The finding and its detail as one clause."""
        return words_for(self.finding) + (f" ({self.detail})" if self.detail else "")


async def probe(upstream: Upstream, channel: Channel, model: Model, protocol: Protocol) -> Result:
    """Run one stream of `model` on `channel`, and judge it."""
    began_at = trio.current_time()
    result = None
    for call in calls(RULES[protocol], model.name):
        result = await _Probe(upstream, channel, model, call).run(began_at + limits.PROBE_S)
        if result.finding is not Finding.REFUSED:
            break
    assert result is not None, "every protocol has a call"
    return result._replace(duration_s=trio.current_time() - began_at)


class _Probe:
    """One call of a probe, and what it saw; run once."""

    def __init__(self, upstream: Upstream, channel: Channel, model: Model, call: Call) -> None:
        self._call = call
        rules = RULES[call.protocol]
        name = channel.models[call.model]
        body = body_for(call, model, channel, name=name, drop_tools=frozenset())
        path = rules.path(call, name)
        self._request = request_to(channel, call.protocol, path, body, stream=True, relayed=call.headers)
        self._upstream = upstream
        self._reading = Native(rules, call, hide_usage=False)
        self._reader = self._reading.reader()
        self._usage = _UsageWord()
        self._pump = EventPump(self._reader, produced=None, emit=self._usage.look, progressed=_ignore, note=_ignore)
        self._answer: _Watched | None = None

    async def run(self, deadline: float) -> Result:
        ended: Ended | None = None
        try:
            with trio.move_on_at(deadline):
                ended = await self._exchange()
            if ended is None and self._answer is not None:
                # Complete evidence wins over whatever ended the reading, as in every stream.
                cut = self._pump.cut(Reason.DEADLINE)
                ended = cut if cut.reason is None else None
        finally:
            if self._answer is not None:
                self._answer.release(complete=ended is not None and ended.reason in (None, Reason.NO_EVIDENCE))
        return self._result(ended)

    async def _exchange(self) -> Ended:
        answer = await self._upstream.open(self._request)
        if isinstance(answer, Unreached):
            return unreached(answer)
        self._answer = _Watched(answer)
        first = await begin(self._answer, self._reading, stream=True)
        return await self._pump.run(self._answer, first) if isinstance(first, bytes) else first

    def _result(self, ended: Ended | None) -> Result:
        counts = self._reader.counts
        if ended is not None:
            self._usage.look(ended.tail)
        counted = None if counts is None else usage(counts, self._call.protocol, answered=self._reader.answered)
        finding, detail = judge(
            Seen(
                ended=ended,
                status=None if self._answer is None else self._answer.status,
                content_type="" if self._answer is None else _media_type(self._answer),
                body_end=None if self._answer is None else self._answer.end,
                error_event=self._reader.error is not None,
                usage_there=self._usage.there,
                usage=counted,
            )
        )
        evidence = "" if counts is None else counts.raw.decode("utf-8", "replace")
        return Result(finding, detail, counted, evidence, 0.0)


class _UsageWord:
    """Whether anything that looks like usage came, counted or not."""

    def __init__(self) -> None:
        self.there = False

    def look(self, data: bytes) -> None:
        self.there = self.there or _USAGE.search(data) is not None


class _Watched:
    """An answer that remembers how its body ended."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.status = answer.status
        self.headers = answer.headers
        self.end: BodyEnd | None = None

    async def receive(self) -> bytes | BodyEnd:
        """See `upstream.answer.Answer`."""
        data = await self._answer.receive()
        if isinstance(data, BodyEnd):
            self.end = data
        return data

    async def each(self, take: Callable[[bytes], bool]) -> BodyEnd | None:
        """See `upstream.answer.Answer`."""
        self.end = await self._answer.each(take)
        return self.end

    def finish(self) -> None:
        """See `upstream.answer.Answer`."""
        self._answer.finish()

    def abort(self) -> None:
        """See `upstream.answer.Answer`."""
        self._answer.abort()

    def release(self, *, complete: bool) -> None:
        """Done with it."""
        (self.finish if complete else self.abort)()


def _media_type(answer: _Watched) -> str:
    value = next((value for name, value in answer.headers if name == b"content-type"), b"")
    text = value.partition(b";")[0].strip().lower().decode("latin-1")
    return text if _MEDIA_TYPE.fullmatch(text) else ""


def _ignore(*_: object) -> None:
    """The timeline of a probe is nobody's."""
