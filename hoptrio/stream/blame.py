"""What the end of an attempt says: is the channel to blame, and may another attempt mend it? Pure.

Nothing that speaks of the request is a channel's fault, and no other channel mends it: it is refused in the same way.
Once the model's answer has begun only a stall is held against a channel, and nothing is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio.admission.health import Fault
from hoptrio.contract import Reason
from hoptrio.upstream.answer import Unreached
from hoptrio.upstream.failure import blames_account

if TYPE_CHECKING:
    from hoptrio.protocols.events import ProviderError
    from hoptrio.stream.outcome import Ended

__all__ = ["Blame", "blame"]


class Blame(NamedTuple):
    """`fault` is what the channel did (None = nothing that counts), `mendable` whether a further attempt may help."""

    fault: Fault | None
    mendable: bool
    #: The provider's own word for how long to leave it alone.
    retry_after_s: float = 0.0
    #: The answer came to its end.
    complete: bool = False


NOTHING = Blame(None, False)
COMPLETE = Blame(None, False, complete=True)

_UNANSWERED = {
    Reason.TRUNCATED: Blame(Fault.CUT, True),
    Reason.STALLED: Blame(Fault.STALLED, True),
    Reason.HEADER_TIMEOUT: Blame(Fault.SILENT, True),
    # Without output by then it was silent, and there is no time for another.
    Reason.DEADLINE: Blame(Fault.SILENT, False),
}


def blame(ended: Ended, *, answered: bool, stream: bool) -> Blame:
    """Judge an end; `answered` = some of the model's answer was read.

    A call that does not stream says nothing until its answer is whole, so its silence proves nothing, and nothing of an
    answer that came with an error has reached the client.
    """
    if ended.reason in (None, Reason.NO_EVIDENCE):
        return COMPLETE
    if answered and stream:
        return Blame(Fault.STALLED, False) if ended.reason is Reason.STALLED else NOTHING
    if ended.reason is Reason.PROVIDER_ERROR:
        return _error(ended.cause)
    if ended.reason in (Reason.HEADER_TIMEOUT, Reason.DEADLINE) and not stream:
        return NOTHING
    return _UNANSWERED.get(ended.reason, NOTHING)


def _error(cause: ProviderError | Unreached | None) -> Blame:
    """A provider's refusal, or why there was no answer. No cause is a 200 that is not what was asked for."""
    if cause is None:
        return Blame(Fault.FAILED, True)
    if isinstance(cause, Unreached):
        return Blame(Fault.UNREACHABLE, True)
    if blames_account(cause):
        return Blame(Fault.CREDENTIALS, True, cause.retry_after_s or 0.0)
    if cause.status == 403:
        return Blame(Fault.FORBIDDEN, True)
    if cause.status == 429:
        return Blame(Fault.RATE_LIMITED, True, cause.retry_after_s or 0.0)
    if cause.status >= 500 or cause.status == 408:
        return Blame(Fault.FAILED, True, cause.retry_after_s or 0.0)
    return Blame(None, cause.status == 409)
