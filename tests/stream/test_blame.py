"""What an end says of a channel, and whether another attempt may mend it: one row a case."""

from __future__ import annotations

import pytest

from hoptrio.admission.health import Fault
from hoptrio.contract import Reason
from hoptrio.protocols.events import ProviderError
from hoptrio.stream.blame import Blame, blame
from hoptrio.stream.outcome import Ended
from hoptrio.upstream.answer import Unreached, UnreachedKind

NOTHING = Blame(None, False)


def error(status, **more):
    return Ended(Reason.PROVIDER_ERROR, cause=ProviderError(status=status, **more))


def judged(ended, *, answered=False, stream=True):
    return blame(ended, answered=answered, stream=stream)


@pytest.mark.parametrize("reason", [None, Reason.NO_EVIDENCE])
@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_that_came_to_its_end_is_a_success(reason, answered):
    assert judged(Ended(reason), answered=answered) == Blame(None, False, complete=True)


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (Ended(Reason.TRUNCATED), Blame(Fault.CUT, True)),
        (Ended(Reason.TRUNCATED, cause=Unreached(UnreachedKind.CLOSED, True, "")), Blame(Fault.CUT, True)),
        (Ended(Reason.STALLED), Blame(Fault.STALLED, True)),
        (Ended(Reason.HEADER_TIMEOUT), Blame(Fault.SILENT, True)),
        (Ended(Reason.DEADLINE), Blame(Fault.SILENT, False)),
        (Ended(Reason.PROVIDER_ERROR), Blame(Fault.FAILED, True)),
        (error(500), Blame(Fault.FAILED, True)),
        (error(503, retry_after_s=9), Blame(Fault.FAILED, True, 9)),
        (error(529), Blame(Fault.FAILED, True)),
        (error(408), Blame(Fault.FAILED, True)),
        (error(429), Blame(Fault.RATE_LIMITED, True)),
        (error(429, retry_after_s=30), Blame(Fault.RATE_LIMITED, True, 30)),
        (error(429, code="insufficient_quota"), Blame(Fault.CREDENTIALS, True)),
        (error(401), Blame(Fault.CREDENTIALS, True)),
        (error(402), Blame(Fault.CREDENTIALS, True)),
        (error(400, message="API key not valid. Please pass a valid API key."), Blame(Fault.CREDENTIALS, True)),
        (error(403, type="permission_error"), Blame(Fault.CREDENTIALS, True)),
        (error(403), Blame(Fault.FORBIDDEN, True)),
        (error(409), Blame(None, True)),
    ],
)
def test_before_any_output(ended, expected):
    assert judged(ended) == expected
    assert judged(ended, answered=True).mendable is False


@pytest.mark.parametrize("kind", [UnreachedKind.DNS, UnreachedKind.CONNECT, UnreachedKind.TLS, UnreachedKind.PROXY])
def test_a_provider_that_cannot_be_reached(kind):
    assert judged(Ended(Reason.PROVIDER_ERROR, cause=Unreached(kind, False, ""))) == Blame(Fault.UNREACHABLE, True)


@pytest.mark.parametrize("status", [301, 400, 404, 405, 413, 415, 422])
def test_what_speaks_of_the_request_is_nobodys_fault_and_not_mended(status):
    assert judged(error(status)) == NOTHING


@pytest.mark.parametrize(
    "reason",
    [Reason.NOT_DISPATCHED, Reason.INTERNAL, Reason.EVENT_TOO_LARGE, Reason.UNCONVERTIBLE, Reason.SHUTDOWN],
)
def test_our_own_failures_and_the_clients_are_not_the_channels(reason):
    assert judged(Ended(reason)) == NOTHING


@pytest.mark.parametrize("reason", [each for each in Reason if each not in (Reason.STALLED, Reason.NO_EVIDENCE)])
def test_behind_output_only_a_stall_counts(reason):
    assert judged(Ended(reason), answered=True) == NOTHING
    assert judged(Ended(Reason.STALLED), answered=True) == Blame(Fault.STALLED, False)


@pytest.mark.parametrize("reason", [Reason.HEADER_TIMEOUT, Reason.DEADLINE])
def test_a_plain_call_may_take_all_its_time(reason):
    assert judged(Ended(reason), stream=False) == NOTHING


def test_nothing_of_a_whole_answer_with_an_error_has_reached_the_client():
    assert judged(error(500), answered=True, stream=False) == Blame(Fault.FAILED, True)
    assert judged(error(500), answered=True) == NOTHING
