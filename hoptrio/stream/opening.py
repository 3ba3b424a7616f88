"""From a response head to something a pump may read, or to the reason why not.

A provider's refusal keeps its meaning (protocols page 8.3, 9.10) and nothing else of it: only a message about the
request itself is passed on. A 200 that is not what was asked for is a failure, and its body is never relayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio import limits
from hoptrio.contract import Reason
from hoptrio.errors import UpstreamFailed
from hoptrio.stream.outcome import Ended
from hoptrio.upstream.answer import BodyEnd, Unreached
from hoptrio.upstream.failure import client_error, content_kind, unreached_error

if TYPE_CHECKING:
    from hoptrio.protocols.rules import Rules
    from hoptrio.upstream.answer import Answer

__all__ = ["refused", "unreached"]


def unreached(failure: Unreached) -> Ended:
    """No head came: broken off after the dispatch, or never reached at all."""
    reason = Reason.TRUNCATED if failure.dispatched else Reason.PROVIDER_ERROR
    return Ended(reason, error=unreached_error(failure))


async def refused(answer: Answer, rules: Rules, *, stream: bool) -> Ended | None:
    """None if the answer may be read on; else why not, its body read as far as it explains that."""
    if not 200 <= answer.status < 300:
        return await _error_answer(answer, rules)
    kind = content_kind(answer.headers)
    if kind == "other" or (stream and kind == "json"):
        return await _wrong_content(answer, rules, kind)
    return None


async def _error_answer(answer: Answer, rules: Rules) -> Ended:
    body = await _read(answer)
    error = rules.read_error(answer.status, _names(answer), body)
    return Ended(Reason.PROVIDER_ERROR, error=client_error(error))


async def _wrong_content(answer: Answer, rules: Rules, kind: str) -> Ended:
    if kind == "json":
        # Some providers answer a streaming request with 200 and a JSON error.
        error = rules.read_error(502, _names(answer), await _read(answer))
        return Ended(Reason.PROVIDER_ERROR, error=client_error(error))
    return Ended(Reason.PROVIDER_ERROR, error=UpstreamFailed("The provider's answer is not what was asked for."))


def _names(answer: Answer) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}


async def _read(answer: Answer) -> bytes:
    body = b""
    while len(body) < limits.ERROR_BODY_BYTES_MAX and not isinstance(data := await answer.receive(), BodyEnd):
        body += data
    return body
