"""From a response head to the first bytes that a pump may read, or to the reason why there are none.

A provider's refusal keeps its meaning (protocols page 8.3, 9.10) and nothing else of it: only a message about the
request itself is passed on. A 200 that is not what was asked for is a failure, and its body is never relayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.protocols.events import ProviderError
from hoptrio.stream.outcome import Ended
from hoptrio.upstream.answer import BodyEnd, Unreached
from hoptrio.upstream.failure import Content, content_of, from_body_end, from_unreached

if TYPE_CHECKING:
    from hoptrio.stream.reading import Reading
    from hoptrio.upstream.answer import Answer

__all__ = ["begin", "unreached"]


def unreached(failure: Unreached) -> Ended:
    """No head came: broken off after the dispatch, or never reached at all."""
    reason = Reason.TRUNCATED if failure.dispatched else Reason.PROVIDER_ERROR
    return Ended(reason, error=from_unreached(failure), cause=failure)


async def begin(answer: Answer, reading: Reading, *, stream: bool) -> bytes | Ended:
    """The first bytes of an answer that may be read on, never empty; else why not."""
    if not 200 <= answer.status < 300:
        return await _refused(answer, reading)
    first = b""
    while (content := content_of(answer.headers, first)) is None and len(first) < limits.ERROR_BODY_BYTES_MAX:
        data = await answer.receive()
        if isinstance(data, BodyEnd):
            return Ended(Reason.TRUNCATED, error=from_body_end(data))
        first += data
    if content is (Content.SSE if stream else Content.JSON):
        return first
    if content is Content.JSON:
        return await _json_instead_of_a_stream(answer, reading, first)
    return Ended(Reason.PROVIDER_ERROR, error=from_body_end(BodyEnd.CLEAN))


async def _refused(answer: Answer, reading: Reading) -> Ended:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    error = reading.rules.read_error(answer.status, headers, await _rest(answer, b""))
    return Ended(Reason.PROVIDER_ERROR, error=reading.tell(error), cause=error)


async def _json_instead_of_a_stream(answer: Answer, reading: Reading, first: bytes) -> Ended:
    """Some providers refuse a streaming request with a 200 and a JSON error."""
    error = reading.whole(await _rest(answer, first)).unary.error or ProviderError(status=502)
    return Ended(Reason.PROVIDER_ERROR, error=reading.tell(error), cause=error)


async def _rest(answer: Answer, body: bytes) -> bytes:
    while len(body) < limits.ERROR_BODY_BYTES_MAX and not isinstance(data := await answer.receive(), BodyEnd):
        body += data
    return body
