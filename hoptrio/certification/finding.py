"""What a probe found wrong, in words, and what that means for a certificate. Pure.

A finding weighs one of three ways. Some prove that streams of the channel cannot be charged (no usage, usage that is no
evidence, a key that is refused): the certificate goes, whoever asked. Some are a doubt (broken off, an error event),
which one bad moment can cause: it goes only if live streams, or an operator, had asked for a decision. And some pass
(a rate limit, a provider that is down): they say nothing of usage, so the certificate stays and the probe is made
again.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from hoptrio.contract import Reason
from hoptrio.metering.evidence import Flag
from hoptrio.protocols.events import ProviderError
from hoptrio.upstream.answer import BodyEnd, Unreached
from hoptrio.upstream.failure import blames_account

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.metering.evidence import Usage
    from hoptrio.stream.outcome import Ended

__all__ = ["Finding", "Seen", "Weight", "judge", "weight_of", "words_for"]


class Finding(StrEnum):
    """The verdict on one probe."""

    CERTIFIED = "certified"
    NO_USAGE = "no_usage"
    INVALID_USAGE = "invalid_usage"
    ZERO_USAGE = "zero_usage"
    NO_TERMINAL = "no_terminal"
    CUT = "cut"
    ERROR_EVENT = "error_event"
    TOO_SLOW = "too_slow"
    TOO_LARGE = "too_large"
    NO_STREAM = "no_stream"
    AUTH_REFUSED = "auth_refused"
    MODEL_UNKNOWN = "model_unknown"
    REFUSED = "refused"
    RATE_LIMITED = "rate_limited"
    PROVIDER_FAILED = "provider_failed"
    NO_HEAD = "no_head"
    UNREACHED = "unreached"
    #: The gateway stopped before the probe was over.
    ABANDONED = "abandoned"
    INTERNAL = "internal"


class Weight(Enum):
    """See the module."""

    PROVES = auto()
    DOUBTS = auto()
    PASSES = auto()


class _Meaning(NamedTuple):
    weight: Weight
    words: str


_MEANINGS: Mapping[Finding, _Meaning] = {
    Finding.CERTIFIED: _Meaning(Weight.PASSES, "the stream ended with its terminal and usage"),
    Finding.NO_USAGE: _Meaning(Weight.PROVES, "the stream ended without usage"),
    Finding.INVALID_USAGE: _Meaning(
        Weight.PROVES, "the usage it reports is no evidence: counts are missing, negative or no whole numbers"
    ),
    Finding.ZERO_USAGE: _Meaning(Weight.PROVES, "it reports no tokens for an answer that has some"),
    Finding.NO_TERMINAL: _Meaning(Weight.DOUBTS, "the stream ended without a whole terminal"),
    Finding.CUT: _Meaning(Weight.DOUBTS, "the connection broke off before the terminal"),
    Finding.ERROR_EVENT: _Meaning(Weight.DOUBTS, "the stream ended with an error event"),
    Finding.TOO_SLOW: _Meaning(Weight.DOUBTS, "the stream stalled, or was not complete in time"),
    Finding.TOO_LARGE: _Meaning(Weight.DOUBTS, "an event was larger than any may be"),
    Finding.NO_STREAM: _Meaning(Weight.DOUBTS, "the answer is no event stream: wrong content type or content"),
    Finding.AUTH_REFUSED: _Meaning(Weight.PROVES, "the provider refused the channel's key or account"),
    Finding.MODEL_UNKNOWN: _Meaning(Weight.PROVES, "the provider knows no such model, or no such path"),
    Finding.REFUSED: _Meaning(Weight.DOUBTS, "the provider refused the request"),
    Finding.RATE_LIMITED: _Meaning(Weight.PASSES, "the provider's rate limit is reached"),
    Finding.PROVIDER_FAILED: _Meaning(Weight.PASSES, "the provider failed"),
    Finding.NO_HEAD: _Meaning(Weight.PASSES, "no response head came in time"),
    Finding.UNREACHED: _Meaning(Weight.PASSES, "the provider could not be reached"),
    Finding.ABANDONED: _Meaning(Weight.PASSES, "the probe was given up before its end"),
    Finding.INTERNAL: _Meaning(Weight.PASSES, "the gateway failed to probe"),
}


def weight_of(finding: Finding) -> Weight:
    """What the finding means for a certificate."""
    return _MEANINGS[finding].weight


def words_for(finding: Finding) -> str:
    """The finding as a clause."""
    return _MEANINGS[finding].words


class Seen(NamedTuple):
    """Everything that one probe saw."""

    #: How it ended; None = the time was over.
    ended: Ended | None = None
    #: Of the response head; None if none came.
    status: int | None = None
    content_type: str = ""
    #: How the body ended, if it was read that far.
    body_end: BodyEnd | None = None
    #: The provider's error came as an event.
    error_event: bool = False
    #: A usage object was there, evidence or not.
    usage_there: bool = False
    usage: Usage | None = None


def judge(seen: Seen) -> tuple[Finding, str]:
    """The finding, and a detail in a few words ("" = there is none). Neither holds an address or a provider's text."""
    ended = seen.ended
    if ended is None:
        return (Finding.NO_HEAD if seen.status is None else Finding.TOO_SLOW), ""
    if isinstance(ended.cause, Unreached):
        return Finding.UNREACHED, _why(ended.cause)
    if seen.status is None or not 200 <= seen.status < 300:
        return _refusal(ended.cause) or Finding.PROVIDER_FAILED, f"HTTP {seen.status}"
    return _stream(seen, ended)


def _why(unreached: Unreached) -> str:
    kind, detail = unreached.kind.value, unreached.detail
    return detail if detail.startswith(kind) else f"{kind}: {detail}"


def _refusal(error: ProviderError | None) -> Finding | None:
    """What the provider's own error says; None where it blames nobody but itself."""
    if error is None:
        return None
    if error.status == 403 or blames_account(error):
        return Finding.AUTH_REFUSED
    if error.status == 429:
        return Finding.RATE_LIMITED
    if not 300 <= error.status < 500 or error.status in (408, 409):
        return None
    return Finding.MODEL_UNKNOWN if error.status == 404 or "model" in error.code.lower() else Finding.REFUSED


def _stream(seen: Seen, ended: Ended) -> tuple[Finding, str]:
    """A 2xx answer."""
    if ended.reason is None:
        return _usage(seen)
    if ended.reason is Reason.NO_EVIDENCE:
        return (Finding.INVALID_USAGE if seen.usage_there else Finding.NO_USAGE), ""
    if ended.reason is Reason.EVENT_TOO_LARGE:
        return Finding.TOO_LARGE, ""
    if ended.reason is Reason.PROVIDER_ERROR:
        said = _refusal(ended.cause) if isinstance(ended.cause, ProviderError) else None
        if said is not None:
            return said, "in the stream" if seen.error_event else "with HTTP 200"
        if seen.error_event:
            return Finding.ERROR_EVENT, ""
        undecodable = seen.body_end is BodyEnd.UNDECODABLE
        return Finding.NO_STREAM, "it cannot be decoded" if undecodable else seen.content_type
    broken = seen.body_end in (BodyEnd.TRUNCATED, BodyEnd.RESET)
    return (Finding.CUT if broken else Finding.NO_TERMINAL), ""


def _usage(seen: Seen) -> tuple[Finding, str]:
    usage = seen.usage
    if usage is None:
        return Finding.INVALID_USAGE, ""
    if Flag.SUSPECT in usage.flags or not usage.all_input:
        return Finding.ZERO_USAGE, ""
    return Finding.CERTIFIED, "the reported total does not add up" if Flag.MISMATCH in usage.flags else ""
