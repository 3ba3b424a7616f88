"""Declared: what the simulated provider's script says about usage, worked out here without the gateway's metering.

The rules are the contract page's ("Evidence per protocol"), applied to the script and not to the bytes: so an amount
that the gateway read from the wire can be compared with one that never was on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.answer import answer_to

if TYPE_CHECKING:
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script

_INVALID = frozenset({"negative", "huge", "string", "float", "null", "empty", "none"})
_ERRORS = frozenset({"error", "failed", "failed-usage", "stray-error"})
_ENDINGS = frozenset({"cut", "reset", "inside", "end", "silence", "comments", "pings"})
_MILLION = 10**6


class Usage(NamedTuple):
    """Disjoint counts of tokens."""

    input: int
    cached: int
    written: int
    output: int

    def cost(self, prices: dict[str, Any]) -> int:
        """In billionths; `prices` as a hold keeps them."""
        millionths = (
            self.input * prices["input"]
            + self.cached * prices["cached_input"]
            + self.written * prices["cache_write"]
            + self.output * prices["output"]
        )
        return -(-millionths // _MILLION)


def completes(prompt: Prompt, script: Script, *, said: bool = True) -> bool:
    """Whether what the provider sends makes its answer complete; `said` = it was not interrupted."""
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
    clean = kind == "end" or ("close" in script.wire and kind in ("cut", "reset", "inside"))
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
