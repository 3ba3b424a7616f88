"""What the simulator cannot say: a refusal that hides behind another status, and findings without an answer."""

from __future__ import annotations

import pytest

from hoptrio.certification.finding import Finding, Seen, judge, words_for
from hoptrio.contract import Reason
from hoptrio.protocols.events import ProviderError
from hoptrio.stream.opening import unreached as not_reached
from hoptrio.stream.outcome import Ended
from hoptrio.upstream.answer import BodyEnd, Unreached, UnreachedKind


def refused(status, **error):
    return Seen(status=status, ended=Ended(Reason.PROVIDER_ERROR, cause=ProviderError(status=status, **error)))


@pytest.mark.parametrize(
    ("seen", "finding"),
    [
        (refused(429, code="insufficient_quota"), Finding.AUTH_REFUSED),
        (refused(400, code="API_KEY_INVALID"), Finding.AUTH_REFUSED),
        (refused(402), Finding.AUTH_REFUSED),
        (refused(400, code="model_not_found"), Finding.MODEL_UNKNOWN),
        (refused(400, code="invalid_value"), Finding.REFUSED),
        (refused(405), Finding.REFUSED),
        (refused(409), Finding.PROVIDER_FAILED),
        (refused(529), Finding.PROVIDER_FAILED),
    ],
)
def test_a_refusal_is_judged_by_what_it_says(seen, finding):
    assert judge(seen) == (finding, f"HTTP {seen.status}")


@pytest.mark.parametrize(
    ("unreached", "detail"),
    [
        (Unreached(UnreachedKind.DNS, False, "gaierror"), "dns: gaierror"),
        (Unreached(UnreachedKind.TLS, False, "SSLCertVerificationError"), "tls: SSLCertVerificationError"),
        (Unreached(UnreachedKind.CLOSED, True, "closed before the head"), "closed before the head"),
    ],
)
def test_why_a_provider_was_not_reached_is_said(unreached, detail):
    assert judge(Seen(ended=not_reached(unreached))) == (Finding.UNREACHED, detail)


@pytest.mark.parametrize(
    ("reason", "end", "finding"),
    [
        (Reason.EVENT_TOO_LARGE, None, Finding.TOO_LARGE),
        (Reason.TRUNCATED, BodyEnd.RESET, Finding.CUT),
        (Reason.TRUNCATED, BodyEnd.CLOSED, Finding.NO_TERMINAL),
        (Reason.PROVIDER_ERROR, BodyEnd.UNDECODABLE, Finding.NO_STREAM),
    ],
)
def test_a_stream_that_does_not_end_as_it_should(reason, end, finding):
    assert judge(Seen(status=200, ended=Ended(reason), body_end=end))[0] is finding


def test_every_finding_has_words_of_its_own():
    assert len({words_for(finding) for finding in Finding}) == len(Finding)
