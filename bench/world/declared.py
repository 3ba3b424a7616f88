"""Declared: what the simulated provider's script says about usage, and what it costs, worked out here without the
gateway's metering, quotes and prices.

The rules are the contract page's ("Evidence per protocol"), applied to the script and not to the bytes: so an amount
that the gateway read from the wire can be compared with one that never was on it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from bench.world.draw import INPUT_TOKENS_MAX, OUTPUT_TOKENS_MAX
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.answer import answer_to

if TYPE_CHECKING:
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script

_INVALID = frozenset({"negative", "huge", "string", "float", "null", "empty", "none"})
_ERRORS = frozenset({"error", "failed", "failed-usage", "stray-error"})
_ENDINGS = frozenset({"cut", "reset", "inside", "end", "silence", "comments", "pings"})
_MILLION = 10**6
#: What a chat template adds to a body at most, by the contract page.
_MARGIN_TOKENS = 64


class Usage(NamedTuple):
    """Disjoint counts of tokens."""

    input: int
    cached: int
    written: int
    output: int

    def cost(self, prices: dict[str, int], bounds: Bounds) -> int:
        """In billionths, within `bounds`: of too much input the dearest is charged; `prices` as a hold keeps them."""
        left = bounds.input
        millionths = min(self.output, bounds.output) * prices["output"]
        kinds = ((self.input, "input"), (self.cached, "cached_input"), (self.written, "cache_write"))
        for tokens, price in sorted(((tokens, prices[kind]) for tokens, kind in kinds), key=lambda each: -each[1]):
            charged = min(tokens, left)
            left -= charged
            millionths += charged * price
        return -(-millionths // _MILLION)


class Bounds(NamedTuple):
    """The most tokens that one request may be charged for: what its hold was made of."""

    input: int
    output: int

    def cost(self, prices: dict[str, int]) -> int:
        """The hold: all input at the dearest price, all output."""
        dearest = max(prices["input"], prices["cached_input"], prices["cache_write"])
        return -(-(self.input * dearest + self.output * prices["output"]) // _MILLION)


def bounds(prompt: Prompt, sent: bytes) -> Bounds:
    """By the contract page ("The hold"), from the bytes that the provider was `sent`: plain text throughout."""
    body = json.loads(sent)
    choices, limit = 1, None
    if prompt.protocol is Protocol.GEMINI:
        settings = body.get("generationConfig", {})
        choices, limit = settings.get("candidateCount", 1), settings.get("maxOutputTokens")
    elif prompt.protocol is Protocol.RESPONSES:
        limit = body.get("max_output_tokens")
    else:
        choices, limit = body.get("n", 1), body.get("max_tokens")
    output = OUTPUT_TOKENS_MAX if limit is None else min(limit, OUTPUT_TOKENS_MAX)
    return Bounds(min(INPUT_TOKENS_MAX, len(sent) + _MARGIN_TOKENS), output * choices)


def completes(prompt: Prompt, script: Script, *, said: bool = True, died: bool = False) -> bool:
    """Whether what the provider sends makes its answer complete; `said` = it was not interrupted, `died` = its
    connection may have ended on its own."""
    kind, when = script.fail.kind, _moment(prompt, script)
    if "gzip-unlabelled" in script.wire:
        return False
    if prompt.framing is Framing.JSON:
        return kind in ("none", "no-finish", "no-terminal")
    if kind == "none":
        return True
    if kind == "no-finish":
        blocked = prompt.protocol is Protocol.GEMINI and script.finish == "block"
        return prompt.protocol is Protocol.CHAT or blocked
    if kind == "no-terminal":
        # Chat ends as well by a finish_reason on every choice and a clean end of body.
        return prompt.protocol is Protocol.CHAT
    if kind in _ERRORS:
        # Gemini's last event is only known as such by what follows; a stray line that is cut off is no event.
        unsaid = not said or (kind == "stray-error" and script.after in ("cut", "reset"))
        return when == "done" and (prompt.protocol is not Protocol.GEMINI or unsaid)
    # The end of a body that only the close delimits is clean however it comes (a memory stream knows no reset).
    closing = ("cut", "reset", "inside", "silence", "comments", "pings") if died else ("cut", "reset", "inside")
    clean = kind == "end" or ("close" in script.wire and kind in closing)
    if clean and prompt.protocol is Protocol.CHAT:
        return when in ("end", "done")
    return kind in _ENDINGS and when == "done"


def _moment(prompt: Prompt, script: Script) -> int | str:
    """When the failure comes; an answer with fewer pieces than that fails at its end."""
    when = script.fail.when
    if not isinstance(when, int):
        return when
    answer = answer_to(prompt, script, 0)
    pieces = (answer.reasoning_count + answer.text_count + 2 * len(answer.calls)) * answer.choices
    return "end" if when > pieces or (when and answer.finish == "block") else when


def usage(prompt: Prompt, script: Script) -> Usage | None:
    """The usage that a complete answer declares; None if what it declares is not evidence."""
    kind = script.usage
    streams = prompt.framing is not Framing.JSON
    if kind in _INVALID:
        return None
    if prompt.protocol is Protocol.MESSAGES and kind == "start" and streams:
        return None
    asked = prompt.usage_asked or kind in ("running", "twice", "finish")
    if prompt.protocol is Protocol.CHAT and streams and not asked:
        return None
    if prompt.protocol is Protocol.CHAT and kind == "finish" and script.fail.kind == "no-finish":
        return None if streams else _counted(prompt, script)
    return _counted(prompt, script)


def _counted(prompt: Prompt, script: Script) -> Usage:
    if script.usage == "zero":
        return Usage(0, 0, 0, 0)
    answer = answer_to(prompt, script, 0)
    written = 0 if prompt.protocol is Protocol.GEMINI else script.cache_write
    blocked = prompt.protocol is Protocol.GEMINI and script.finish == "block"
    if blocked:
        return Usage(answer.input_tokens, 0, 0, 0)
    output = answer.output_tokens
    if prompt.protocol is Protocol.GEMINI:
        output = max(output, answer.reasoning_tokens)
    if prompt.protocol is Protocol.MESSAGES:
        rest = max(0, answer.input_tokens - script.cached - written)
        return Usage(rest, script.cached, written, output)
    cached = min(script.cached, answer.input_tokens)
    written = min(written, answer.input_tokens - cached)
    return Usage(answer.input_tokens - cached - written, cached, written, output)
