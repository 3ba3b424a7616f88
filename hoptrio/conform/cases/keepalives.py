"""Keep-alives: a silent stream lives, and nobody takes for the model's what keeps it alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import Case, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, single
from hoptrio.conform.checks import additions, endings, relaying
from hoptrio.conform.request import Ask
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["KEEPALIVES"]

_SSE = (Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES)
#: The rest of the stream.
_MORE_S = 0.9


def _behind_an_id(protocol: Protocol, settings: Settings) -> Play:
    script = f"{PLAIN} events=2 wire=ids between=comment pace={settings.idle_s}s"
    return Play(
        script=script,
        checks=(relaying.nothing_empty, endings.complete, relaying.relayed),
        money=PAID,
        seconds=settings.idle_s + _MORE_S,
    )


def _quiet(settings: Settings, *, ask: Ask, label: str) -> Play:
    return Play(
        script=f"{PLAIN} events=2 pace={settings.idle_s}s",
        ask=ask,
        checks=(relaying.array_is_json if ask.array else additions.no_forged_events, endings.clean),
        money=PAID,
        label=label,
        seconds=settings.idle_s + _MORE_S,
    )


def _gemini(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    return _quiet(settings, ask=Ask(), label="SSE"), _quiet(settings, ask=Ask(array=True), label="array")


def _no_model_event(protocol: Protocol, settings: Settings) -> Play:
    return _quiet(settings, ask=Ask(), label="")


def _late_head(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} head_delay={settings.idle_s}s",
        checks=(additions.kept_alive(settings.idle_s), endings.complete),
        money=PAID,
        seconds=settings.idle_s + _MORE_S,
    )


def _interim(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} head_delay={settings.idle_s}s",
        checks=(additions.no_interim, endings.complete),
        seconds=settings.idle_s + _MORE_S,
    )


def _long_silence(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} events=2 pace={settings.long_idle_s}s",
        checks=(additions.kept_alive(settings.long_idle_s), endings.complete, relaying.relayed),
        money=PAID,
        seconds=settings.long_idle_s + _MORE_S,
    )


def _comments(protocol: Protocol, settings: Settings) -> Play:
    return Play(
        script=f"{PLAIN} between=comment", checks=(additions.no_noise, endings.complete, relaying.relayed), money=PAID
    )


KEEPALIVES = (
    Case(
        number=1,
        name="comments behind an id",
        fault="Once an event had an id, a comment makes the OpenAI SDK for Python dispatch an event without data.",
        right="No id reaches the client where comments do.",
        protocols=_SSE,
        plays=single(_behind_an_id),
    ),
    Case(
        number=2,
        name="keep-alives that Google's SDKs fail on",
        fault="A heartbeat comment swallows the next event of a Gemini stream, or is an error.",
        right="A silent Gemini stream gets blank lines or nothing, in the array form white space.",
        protocols=(Protocol.GEMINI,),
        plays=_gemini,
    ),
    Case(
        number=4,
        name="forged model events",
        fault="Events in the model's name keep the stream alive, and hide from the client that the model hangs.",
        right="A keep-alive is a comment.",
        protocols=_SSE,
        plays=single(_no_model_event),
    ),
    Case(
        number=7,
        name="a late response head",
        fault="Nothing is written until the provider's head is there, and a proxy in between gives up.",
        right="The head and the first keep-alive are there within one interval.",
        plays=single(_late_head),
    ),
    Case(
        number=8,
        name="interim responses for life",
        fault="1xx responses are sent to keep the connection alive, which proxies do not count.",
        right="Keep-alives are bytes of the body.",
        plays=single(_interim),
    ),
    Case(
        number=10,
        name="the provider's comments",
        fault="A comment of the provider comes to the client, as data even.",
        right="Comments of the provider end at the gateway.",
        plays=single(_comments),
    ),
    Case(
        number=11,
        name="keep-alives on every route",
        fault="Some routes, or the long silence before an answer, have no keep-alives.",
        right="Every protocol has one an interval.",
        plays=single(_long_silence),
    ),
)
