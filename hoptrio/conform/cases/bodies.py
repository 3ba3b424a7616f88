"""Bodies: tool calls, large events, foreign shapes, and what a proxy must not do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hoptrio.conform.case import FREE, Case, Play
from hoptrio.conform.cases.scripts import PAID, PLAIN, always, exact, pieces, single
from hoptrio.conform.checks import additions, endings, provider, relaying
from hoptrio.conform.request import Ask
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["BODIES"]

_WHOLE = (endings.complete, relaying.relayed)
_ARGS = """args='{"cmd":"rm -r /tmp/é"}'"""
_CALLING = (Protocol.CHAT, Protocol.RESPONSES, Protocol.MESSAGES)
_MIB = 1024 * 1024
#: Where the events of a plain Chat stream end their answer: a finish, the usage, [DONE].
_CLOSING = 3


def _chunk(choices: list[Any], **more: Any) -> bytes:
    head = {"id": "chatcmpl-sim-1", "object": "chat.completion.chunk", "created": 1, "model": "conform"}
    return b"data: %s\n\n" % msgspec.json.encode({**head, "choices": choices, **more})


def _call(index: int | None, **function: Any) -> bytes:
    call: dict[str, Any] = ({} if index is None else {"index": index}) | function
    return _chunk([{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}])


def _tool_arguments(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    script = f"{PLAIN} events=1 tools=1 {_ARGS}"
    return (
        Play(script=f"{script} wire=nospace,split", checks=_WHOLE, money=PAID, label="whole"),
        Play(script=f"{script} fail=inside@2", checks=(endings.broken,), money=FREE, label="the last piece cut"),
    )


def _azure(protocol: Protocol, settings: Settings) -> Play:
    first = _chunk([], id="", model="", prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}])
    return Play(exact=exact([first, *pieces(protocol, PLAIN)]), checks=_WHOLE, money=PAID)


def _interleaved(*, ids: bool) -> list[bytes]:
    """Two calls by turns; without `ids` one piece has neither id nor index."""
    plain = pieces(Protocol.CHAT, "events=1 tools=1 input=5 output=7")
    begun = [
        _call(0, id="call_a", type="function", function={"name": "f", "arguments": '{"x":'}),
        _call(1, id="call_b", type="function", function={"name": "g", "arguments": '{"y":'}),
    ]
    rest = [_call(0 if ids else None, function={"arguments": "1}"}), _call(1, function={"arguments": "2}"})]
    return [plain[0], *begun, *rest, *plain[-_CLOSING:]]


def _parallel(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    if protocol is Protocol.CHAT:
        return (
            Play(exact=exact(_interleaved(ids=True)), checks=_WHOLE, money=PAID, label="by turns"),
            Play(exact=exact(_interleaved(ids=False)), checks=_WHOLE, money=PAID, label="without index"),
        )
    return (
        Play(
            exact=exact(_interleaved(ids=True)),
            ask=Ask(channel=Protocol.CHAT),
            checks=(endings.complete, relaying.blocks_in_order),
            money=PAID,
            label="converted",
        ),
    )


def _forged(protocol: Protocol, settings: Settings) -> Play:
    events = pieces(protocol, PLAIN)
    forged = b'data: {"type":"x\\ndata: {}\\n\\nevent: forged"}\n\n'
    return Play(exact=exact([*events[:2], forged, *events[2:]]), checks=(additions.no_smuggled_event,))


def _large(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
    return (
        Play(script=f"{PLAIN} events=1 size={6 * _MIB}", checks=_WHOLE, money=PAID, label="6 MiB"),
        Play(script=f"{PLAIN} events=1 size={20 * _MIB}", checks=(relaying.whole_or_broken,), label="20 MiB"),
    )


BODIES = (
    Case(
        number=40,
        name="tool arguments that are cut",
        fault="A piece of a call's arguments is lost or changed, and what is left is valid and wrong.",
        right="They arrive byte for byte, or the stream fails.",
        protocols=_CALLING,
        plays=_tool_arguments,
    ),
    Case(
        number=41,
        name="a text that is wiped",
        fault="The text that is done comes empty, and takes the place of what was streamed.",
        right="It is the sum of its deltas.",
        protocols=(Protocol.RESPONSES,),
        plays=always(
            Play(script=PLAIN, checks=(endings.complete, relaying.text_is_whole), money=PAID, label="native"),
            Play(
                script=PLAIN,
                ask=Ask(channel=Protocol.CHAT),
                checks=(endings.complete, relaying.text_is_whole),
                money=PAID,
                label="converted",
            ),
        ),
    ),
    Case(
        number=74,
        name="turns that are settled as one",
        fault="All turns on a WebSocket have one key and the first one's model.",
        right="Each turn has its own model, its own answer and its own charge.",
        protocols=(Protocol.RESPONSES,),
        plays=always(
            Play(
                script=PLAIN,
                turns=(Protocol.RESPONSES, Protocol.CHAT, Protocol.RESPONSES),
                checks=(endings.complete, provider.asked_once, provider.asked_its_channel),
                money=PAID,
            )
        ),
    ),
    Case(
        number=75,
        name="a response of somebody else",
        fault="An id of another account's response continues that account's conversation.",
        right="An id that is not the caller's own is refused, and the provider is not asked.",
        protocols=(Protocol.RESPONSES,),
        plays=always(
            Play(
                script=PLAIN,
                ask=Ask(extra={"previous_response_id": "resp_0123456789abcdef0123456789abcdef"}),
                checks=(provider.stranger_refused,),
            )
        ),
    ),
    Case(
        number=87,
        name="Gemini without alt=sse",
        fault="A client that asked for a JSON array gets server-sent events.",
        right="One JSON array, or a clear 400.",
        protocols=(Protocol.GEMINI,),
        plays=always(Play(script=PLAIN, ask=Ask(array=True), checks=(relaying.array_is_json,))),
    ),
    Case(
        number=88,
        name="events of megabytes",
        fault="A line longer than some buffer breaks the stream, or memory grows without end.",
        right="An image of 6 MiB passes; what is too large fails visibly.",
        protocols=(Protocol.CHAT, Protocol.GEMINI),
        plays=_large,
    ),
    Case(
        number=90,
        name="Azure's first chunk",
        fault="A first chunk without choices is taken for an end, or breaks the parser.",
        right="It passes, and means nothing.",
        protocols=(Protocol.CHAT,),
        plays=single(_azure),
    ),
    Case(
        number=91,
        name="parallel tool calls",
        fault="Pieces of two calls are mixed up, or one without id or index is lost.",
        right="They are relayed as they came; converted, each stays with its own block.",
        protocols=(Protocol.CHAT, Protocol.MESSAGES),
        plays=_parallel,
    ),
    Case(
        number=92,
        name="a type that forges an event",
        fault="A line end in a string of the provider begins a line of the gateway's stream.",
        right="No string of the provider ends a line.",
        protocols=(Protocol.RESPONSES, Protocol.MESSAGES),
        plays=single(_forged),
    ),
    Case(
        number=95,
        name="places that do not come back",
        fault="A stream that failed keeps its place, until there is none left.",
        right="After all other cases a plain stream passes as ever.",
        last=True,
        plays=always(Play(script=PLAIN, checks=(endings.complete,), money=PAID)),
    ),
    Case(
        number=97,
        name="a stream that is buffered",
        fault="A proxy in front collects the stream, since nothing tells it not to.",
        right="X-Accel-Buffering: no, Cache-Control: no-cache, no-transform, and events come when they are sent.",
        plays=always(Play(script=f"{PLAIN} events=5 pace=300ms", checks=(relaying.unbuffered, endings.complete))),
    ),
)
