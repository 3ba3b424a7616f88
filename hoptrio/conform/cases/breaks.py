"""Breaks: providers that die, and errors inside a 200: what is broken never looks complete, nor the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import FREE, Case, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, always, exact, pieces, single
from hoptrio.conform.checks import additions, endings, failures, provider, relaying
from hoptrio.protocols.events import Protocol
from hoptrio.simulator.steps import Cut

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["BREAKS"]

_CUTS = 8
#: The blank line of a last event, without which it may still count.
_TAIL_BYTES = 4
_OPENED = (Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES)
_DIES = f"{PLAIN} fail=cut@2"


def _cut_anywhere(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    whole = b"".join(pieces(protocol, PLAIN))
    ends = [(len(whole) - _TAIL_BYTES) * part // _CUTS for part in range(1, _CUTS + 1)]
    return tuple(
        Play(exact=exact([whole[:end], Cut()]), checks=(endings.broken,), money=FREE, label=f"behind {end} bytes")
        for end in ends
    )


def _no_done(protocol: Protocol, settings: Settings) -> Play:
    script = f"{PLAIN} fail=no-terminal" if protocol is Protocol.CHAT else PLAIN
    passes = endings.clean if protocol is Protocol.CHAT else endings.complete
    return Play(script=script, checks=(passes, endings.no_error, relaying.relayed), money=PAID)


BREAKS = (
    Case(
        number=20,
        name="a second request for one answer",
        fault="After output was sent, a provider that dies is asked a second time, and both are billed.",
        right="Once output was seen the provider is asked no more.",
        plays=always(Play(script=_DIES, checks=(provider.asked_once,))),
    ),
    Case(
        number=21,
        name="a truncated body that looks whole",
        fault="The gateway's server ends a broken answer with a proper last chunk.",
        right="The connection breaks, or an error event stands before its end.",
        plays=always(Play(script=_DIES, checks=(endings.broken,), money=FREE)),
    ),
    Case(
        number=22,
        name="a dead provider as an empty answer",
        fault="A provider that dies before it said anything becomes an empty chunk and [DONE].",
        right="Nothing is invented.",
        protocols=_OPENED,
        plays=always(
            Play(
                script=f"{PLAIN} fail=cut@open",
                checks=(endings.broken, additions.nothing_invented),
                money=FREE,
            )
        ),
    ),
    Case(
        number=24,
        name="a complete stream taken for broken",
        fault="A complete answer without [DONE] is reported as an error.",
        right="response.completed is an end, and so is a finish reason with a clean end of the body.",
        protocols=(Protocol.CHAT, Protocol.RESPONSES),
        plays=single(_no_done),
    ),
    Case(
        number=25,
        name="an end that proves nothing",
        fault="The close of a body without length or chunks passes for its end.",
        right="Only the protocol's own terminal proves that it is complete.",
        plays=always(Play(script=f"{PLAIN} wire=close fail=end@2", checks=(endings.broken,), money=FREE)),
    ),
    Case(
        number=27,
        name="partial output thrown away",
        fault="What came before a failure is lost, or [DONE] follows the error.",
        right="What came before it is delivered as it was, and no terminal follows.",
        plays=always(Play(script=_DIES, checks=(relaying.relayed_so_far, endings.no_terminal), money=FREE)),
    ),
    Case(
        number=28,
        name="an error that clients can read",
        fault="A failure in the midst of a stream is told in no shape that the SDKs know.",
        right="The error is one whole event of the client's protocol.",
        plays=always(Play(script=_DIES, checks=(failures.error_is_whole, endings.broken), money=FREE)),
    ),
    Case(
        number=30,
        name="a failed response that is no response",
        fault="Responses clients are sent an event named error, which they pass over.",
        right="response.failed with the response's own id, the next sequence number and a code that clients know.",
        protocols=(Protocol.RESPONSES,),
        plays=always(Play(script=_DIES, checks=(failures.failed_response_goes_on,), money=FREE)),
    ),
    Case(
        number=31,
        name="the provider's own failure lost",
        fault="response.failed of the provider, with its reason, is replaced or dropped.",
        right="It is forwarded unchanged.",
        protocols=(Protocol.RESPONSES,),
        plays=always(
            Play(
                script=f"{PLAIN} fail=failed:content_filter@2",
                checks=(failures.forwarded_failure, endings.broken),
                money=FREE,
            )
        ),
    ),
    Case(
        number=32,
        name="an error inside a 200",
        fault="An error event of the provider passes for a success.",
        right="It is forwarded once, the request has failed, and no terminal follows.",
        plays=always(
            Play(script=f"{PLAIN} fail=error@2", checks=(failures.forwarded_failure, endings.broken), money=FREE)
        ),
    ),
    Case(
        number=34,
        name="a page of HTML with 200",
        fault="A page of some proxy is relayed as if it were the answer.",
        right="502, and none of the page.",
        plays=always(Play(script=f"{PLAIN} fail=html", checks=(failures.refused_page,), money=FREE)),
    ),
    Case(
        number=35,
        name="an error without its name",
        fault="An error of Anthropic's without its event line is not recognised.",
        right="It is a failure, and the client gets it with its name.",
        protocols=(Protocol.MESSAGES,),
        plays=always(
            Play(
                script=f"{PLAIN} wire=unnamed fail=error@2",
                checks=(failures.forwarded_failure, endings.broken),
                money=FREE,
            )
        ),
    ),
    Case(
        number=37,
        name="an answer that begins twice",
        fault="Another attempt behind a failure replays the beginning to the client.",
        right="The client sees one beginning.",
        plays=always(Play(script=f"{PLAIN} fail=cut@open", checks=(relaying.one_opening, endings.broken), money=FREE)),
    ),
    Case(
        number=38,
        name="a reset in the midst",
        fault="A connection that the provider resets becomes a clean end.",
        right="It is a failure like any other.",
        plays=always(Play(script=f"{PLAIN} fail=reset@2", checks=(endings.broken,), money=FREE)),
    ),
    Case(
        number=42,
        name="a stream cut anywhere",
        fault="Somewhere a cut goes unnoticed.",
        right="Wherever it is cut, an answer is complete only with its terminal.",
        plays=_cut_anywhere,
    ),
)
