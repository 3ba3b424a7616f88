"""Usage: what the provider reported is charged, wherever it stood, and a client gets the chunks it asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.conform.case import FREE, Case, Charge, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, always, single
from hoptrio.conform.checks import additions, endings, failures, provider, relaying
from hoptrio.conform.request import Ask
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["USAGE"]

_WHOLE = (endings.complete, relaying.relayed)


def _charge(**usage: int) -> Charge:
    return Charge(usage=usage)


def _terminals(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    failed = (failures.forwarded_failure, endings.broken)
    return (
        Play(script=PLAIN, checks=_WHOLE, money=PAID, label="completed"),
        Play(script=f"{PLAIN} finish=length", checks=_WHOLE, money=PAID, label="incomplete"),
        Play(script=f"{PLAIN} fail=failed-usage@2", checks=failed, money=FREE, label="failed, with usage"),
        Play(script=f"{PLAIN} fail=failed@2", checks=failed, money=FREE, label="failed"),
    )


def _twice(protocol: Protocol, settings: Settings) -> Play:
    return Play(script=f"{PLAIN} usage=twice", checks=_WHOLE, money=PAID)


def _wrong(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    return tuple(
        Play(script=f"{PLAIN} usage={kind}", checks=(endings.no_server_error,), money=FREE, label=kind)
        for kind in ("negative", "huge", "string")
    )


USAGE = (
    Case(
        number=52,
        name="usage that comes twice",
        fault="Usage in the stream and again at its end is charged twice.",
        right="It is charged once.",
        protocols=(Protocol.CHAT, Protocol.MESSAGES, Protocol.GEMINI),
        plays=single(_twice),
    ),
    Case(
        number=54,
        name="a placeholder charged",
        fault="The output count of message_start, a placeholder, is charged when the stream breaks.",
        right="Output is charged by message_delta alone.",
        protocols=(Protocol.MESSAGES,),
        plays=always(Play(script=f"{PLAIN} input=25 fail=cut@3", checks=(endings.broken,), money=FREE)),
    ),
    Case(
        number=55,
        name="the other terminals of Responses",
        fault="The usage of response.incomplete and response.failed is passed over.",
        right="An incomplete response is charged by its usage; a failed one fails, whatever it reports.",
        protocols=(Protocol.RESPONSES,),
        plays=_terminals,
    ),
    Case(
        number=57,
        name="cache tokens added up",
        fault="The numbers of message_start and message_delta are added.",
        right="The later ones take the place of the earlier.",
        protocols=(Protocol.MESSAGES,),
        plays=always(
            Play(
                script=f"{PLAIN} input=10 cached=1",
                checks=_WHOLE,
                money=_charge(input_tokens=9, cached_input_tokens=1, output_tokens=7),
            )
        ),
    ),
    Case(
        number=58,
        name="cached tokens beside the input",
        fault="Cached input that the provider counts beside the prompt is subtracted from it, below zero.",
        right="The total says where it is counted; nothing is negative, and the stream ends as ever.",
        protocols=(Protocol.CHAT,),
        plays=always(
            Play(
                script="events=3 pace=20ms input=479 cached=13312 output=373 total=14164",
                ask=Ask(padding=16_000),
                checks=_WHOLE,
                money=_charge(input_tokens=479, cached_input_tokens=13312, output_tokens=373),
            )
        ),
    ),
    Case(
        number=60,
        name="usage on the finish chunk",
        fault="Usage on a chunk that has choices is dropped.",
        right="It counts wherever it stands.",
        protocols=(Protocol.CHAT,),
        plays=always(Play(script=f"{PLAIN} usage=finish", checks=_WHOLE, money=PAID)),
    ),
    Case(
        number=61,
        name="a usage chunk with choices",
        fault="The usage chunk of a converted stream has choices, which clients do not expect there.",
        right="Its choices are empty.",
        protocols=(Protocol.CHAT,),
        plays=always(
            Play(
                script=PLAIN,
                ask=Ask(channel=Protocol.MESSAGES),
                checks=(endings.complete, additions.usage_chunk_is_bare),
                money=PAID,
            )
        ),
    ),
    Case(
        number=64,
        name="thoughts that nobody pays",
        fault="The count of thoughts, beside that of the candidates, is not charged.",
        right="Both are output.",
        protocols=(Protocol.GEMINI,),
        plays=always(
            Play(
                script="events=2 reasoning=9 pace=0 input=41 output=12",
                checks=_WHOLE,
                money=_charge(input_tokens=41, output_tokens=12),
            )
        ),
    ),
    Case(
        number=65,
        name="a usage chunk that nobody asked for",
        fault="The gateway asks for usage in the client's place, and the chunk reaches the client.",
        right="It is withheld and charged, or the request is refused with a 400.",
        protocols=(Protocol.CHAT,),
        plays=always(Play(script=PLAIN, ask=Ask(usage=False), checks=(additions.usage_withheld,), money=PAID)),
    ),
    Case(
        number=67,
        name="counts that are none",
        fault="A negative or an overflowing count raises the balance.",
        right="It is no evidence: nothing is charged by it, and nothing credited.",
        protocols=(Protocol.CHAT,),
        plays=_wrong,
    ),
    Case(
        number=70,
        name="a hold as large as a wish",
        fault="A client's enormous output limit freezes the whole budget, or passes through.",
        right="The limit is lowered to the model's own, or the request is refused clearly.",
        plays=always(Play(script=PLAIN, ask=Ask(output_limit=provider.FANTASY), checks=(provider.limit_lowered,))),
    ),
)
