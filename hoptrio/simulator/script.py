"""Script: what one request asks the simulated provider to do, and the language it is asked in. Pure, frozen.

The script travels in the prompt, because the prompt is the one thing that every SDK can set in every protocol and that
every gateway relays: the last user text of the request may contain a line that begins with ``sim:``. Behind it come
``key=value`` pairs in shell quoting, or one JSON object with the same keys::

    sim: events=5 pace=20ms fail=cut@3
    sim: {"events": 5, "pace": "20ms", "fail": "cut@3"}

Without such a line the answer is ten pieces about the prompt, 30 ms apart. A line that cannot be read is a 400 that
says why: a script is never guessed.

The answer is made of *pieces*: text, reasoning and tool-argument deltas, counted from 1 in the order they are sent.
Token counts are exact functions of request and script, so that a test can compute every charge:

* input tokens = the UTF-8 bytes of all text in the request's messages (system text included), divided by four and
  rounded up, at least 1; with ``input=N`` it is N. It includes ``cached`` and ``cache_write`` tokens.
* output tokens = pieces of reasoning and text, and two for every tool call, times the choices asked for; with
  ``output=N`` it is N. Reasoning tokens are part of it.

A request's own output limit is kept: the answer then has so many pieces and the finish is ``length``.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

import msgspec

__all__ = [
    "ENDINGS",
    "ERRORS",
    "LANGUAGE",
    "TRANSPORTS",
    "DirectiveError",
    "Failure",
    "Script",
    "find_directive",
    "parse_directive",
]

#: The language, for ``hoptrio simulate --help``; `parse_directive` reads it.
LANGUAGE = """\
The last user text of a request may contain a line `sim: key=value ...` (or `sim: {json}`):

  events=10        pieces of text in the answer
  pace=30ms        between pieces (ms, s, or a bare number of seconds)
  head_delay=0     before the response head
  delay=0          between the head and the first event
  text=T           the answer's text, cut into `events` pieces
  size=0           pad every piece of text to so many bytes
  reasoning=0      pieces of reasoning before the text
  tools=0          tool calls of the tools offered in turn, unless the request ends with a tool result, which is quoted
  tool=A,B         call the first of these that is offered (as namespace__name if it has one), or none; tools=1 then
  args=JSON        their arguments (default: made from the tool's schema); a custom tool gets the member `input`
  finish=stop      stop | length | filter | block (Gemini: the prompt is blocked)
  input=N output=N total=N cached=0 cache_write=0   token counts
  usage=normal     none | finish (chat: on the finish chunk) | running (on every event) | twice | late (Gemini: after
                   the finishReason) | start (Messages: only in message_start)
                   or numbers that are wrong: zero | negative | huge | string | float | null | empty | mismatch
  between=none     comment | blank | ping, after every piece
  batch=1          events in one write
  wire=a,b         crlf | cr | bom | unnamed (no `event:`) | ids | nospace | unterminated (no last blank line) |
                   split (each write cut in two, inside a character if there is one) | close (no chunked framing) |
                   done (`[DONE]` in every protocol) | gzip | gzip-unlabelled
  trickle=0        bytes in one write, `pace` apart
  fail=KIND[:ARG][@WHEN]   WHEN: 0 (before any event), open (after the opening events), N (after N pieces; 1 is the
                   default), end (after the usage, before the terminal), done (after the terminal)
    before the head: status:CODE (with retry_after=S) | no-head | close | not-http
    instead of a stream: html | json-error | empty
    in the stream: error[:CODE] | failed[:CODE] (Responses: response.failed) | failed-usage | stray-error (Gemini: no
      `data:`) | cut (FIN, no final chunk) | reset (RST) | inside (cut inside the next event) | end (a clean end) |
      silence | comments | pings (for ever, every `every`)
    by omission: no-terminal | no-finish (no finish reason, but the terminal)
  after=end        what follows an error event: end | cut | reset | silence | done ([DONE]) | failed (Responses)
  every=1s         between the comments or pings of a failure
  replay=NAME      a recording, with cuts=recorded | whole | bytes | random:SEED (see --replay)
  Embeddings and images have a line in their input or prompt: `input`, `output`, `total`, `usage`, `size` (bytes of a
  picture), `events` (output tokens of a picture) and what may fail before or in a whole answer. Calls that count
  tokens heed `input` and `fail=status:CODE`.
"""

_PREFIX = "sim:"
_EVENTS_MAX = 1_000_000
_SIZE_BYTES_MAX = 64 * 1024 * 1024
_PAUSE_S_MAX = 3600.0

_BEFORE_HEAD = frozenset({"status", "no-head", "close", "not-http"})
_INSTEAD = frozenset({"html", "json-error", "empty"})
_OMISSIONS = frozenset({"no-terminal", "no-finish"})
ERRORS = frozenset({"error", "failed", "failed-usage", "stray-error"})
ENDINGS = frozenset({"cut", "reset", "inside", "end", "silence", "comments", "pings"})
_FAILURES = _BEFORE_HEAD | _INSTEAD | _OMISSIONS | ERRORS | ENDINGS | {"none"}

_RIGHT_USAGES = frozenset({"normal", "none", "finish", "running", "twice", "late", "start"})
_WRONG_USAGES = frozenset({"zero", "negative", "huge", "string", "float", "null", "empty", "mismatch"})
_FORMS = frozenset({"crlf", "cr", "bom", "unnamed", "ids", "nospace", "unterminated", "done"})
TRANSPORTS = frozenset({"split", "close", "gzip", "gzip-unlabelled"})
_WIRES = _FORMS | TRANSPORTS
_CHOICES = {
    "finish": frozenset({"stop", "length", "filter", "block"}),
    "usage": _RIGHT_USAGES | _WRONG_USAGES,
    "between": frozenset({"none", "comment", "blank", "ping"}),
    "after": frozenset({"end", "cut", "reset", "silence", "done", "failed"}),
}
_DURATIONS = ("pace", "head_delay", "delay", "every")
_NUMBERS = {
    "events": _EVENTS_MAX,
    "size": _SIZE_BYTES_MAX,
    "reasoning": _EVENTS_MAX,
    "tools": 128,
    "input": 10**9,
    "output": 10**9,
    "total": 10**9,
    "cached": 10**9,
    "cache_write": 10**9,
    "batch": 10_000,
    "trickle": _SIZE_BYTES_MAX,
    "retry_after": 86_400,
}


class DirectiveError(ValueError):
    """The ``sim:`` line cannot be read; the message says which part of it."""


class Failure(msgspec.Struct, frozen=True):
    """One way to fail: `kind` as in `LANGUAGE`, its argument, and when: pieces sent, or "open", "end", "done"."""

    kind: str
    arg: str = ""
    when: int | str = 1


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What to do for one request. Every field is a key of `LANGUAGE`; durations are in seconds."""

    events: int = 10
    pace_s: float = 0.03
    head_delay_s: float = 0.0
    delay_s: float = 0.0
    every_s: float = 1.0
    text: str = ""
    size: int = 0
    reasoning: int = 0
    tools: int = 0
    tool: tuple[str, ...] = ()
    args: str = ""
    finish: str = "stop"
    input: int | None = None
    output: int | None = None
    total: int | None = None
    cached: int = 0
    cache_write: int = 0
    usage: str = "normal"
    between: str = "none"
    batch: int = 1
    wire: frozenset[str] = frozenset()
    trickle: int = 0
    fail: Failure = Failure("none")
    after: str = "end"
    retry_after: int | None = None
    replay: str = ""
    cuts: str = "recorded"

    def fails(self, *kinds: str) -> bool:
        """Is the failure one of `kinds`?"""
        return self.fail.kind in kinds


def find_directive(text: str) -> str | None:
    """What stands behind ``sim:`` on the first line that begins so; None if no line does."""
    if _PREFIX not in text:
        return None
    for line in text.splitlines():
        if line.lstrip().startswith(_PREFIX):
            return line.lstrip()[len(_PREFIX) :].strip()
    return None


def parse_directive(directive: str) -> Script:
    """Read ``key=value ...`` or a JSON object. Raises DirectiveError."""
    fields: dict[str, Any] = {}
    for key, value in _pairs(directive):
        name, read = _read(key, value)
        fields[name] = read
    return Script(**fields)


def _pairs(directive: str) -> list[tuple[str, str]]:
    if directive.startswith("{"):
        try:
            parsed = msgspec.json.decode(directive.encode(), type=dict[str, Any])
        except msgspec.DecodeError:
            raise DirectiveError("the sim line is not a JSON object") from None
        return [(key, _text(value)) for key, value in parsed.items()]
    try:
        words = shlex.split(directive)
    except ValueError:
        raise DirectiveError("the sim line has an open quote") from None
    pairs = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise DirectiveError(f"{word[:40]!r} is not key=value")
        pairs.append((key, value))
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return msgspec.json.encode(value).decode()


def _read(key: str, value: str) -> tuple[str, Any]:
    """The `Script` field that `key` sets, and its value."""
    if key in _NUMBERS:
        return key, _number(key, value, _NUMBERS[key])
    if key in _DURATIONS:
        return key + "_s", _seconds(key, value)
    if key in _CHOICES:
        return key, _one_of(key, value, _CHOICES[key])
    if key == "wire":
        return key, frozenset(_one_of(key, each, _WIRES) for each in value.split(",") if each)
    if key == "fail":
        return key, _failure(value)
    if key == "tool":
        return key, tuple(each for each in value.split(",") if each)
    if key == "args":
        return key, _json_object(value)
    if key == "cuts":
        return key, _cuts(value)
    if key in ("text", "replay"):
        return key, value
    raise DirectiveError(f"{key[:40]!r} is not a key of the sim line")


def _number(key: str, value: str, largest: int) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", value) or int(value) > largest:
        raise DirectiveError(f"{key} must be an integer from 0 to {largest}")
    if key == "batch" and int(value) == 0:
        raise DirectiveError("batch must be at least 1")
    return int(value)


def _seconds(key: str, value: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|)", value)
    if match is None:
        raise DirectiveError(f"{key} must be a duration such as 20ms or 1.5s")
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1)
    if seconds > _PAUSE_S_MAX:
        raise DirectiveError(f"{key} must be at most an hour")
    return seconds


def _one_of(key: str, value: str, allowed: frozenset[str]) -> str:
    if value not in allowed:
        raise DirectiveError(f"{key} must be one of {', '.join(sorted(allowed))}")
    return value


def _failure(value: str) -> Failure:
    match = re.fullmatch(r"([a-z-]+)(?::([A-Za-z0-9_.-]*))?(?:@([a-z0-9]+))?", value)
    if match is None or match[1] not in _FAILURES:
        raise DirectiveError(f"fail must be one of {', '.join(sorted(_FAILURES))}")
    kind, arg, when = match[1], match[2] or "", match[3] or "1"
    if kind == "status" and not re.fullmatch(r"[3-5][0-9]{2}", arg):
        raise DirectiveError("fail=status needs a status, such as status:503")
    if when.isdecimal():
        return Failure(kind, arg, int(when))
    return Failure(kind, arg, _one_of("the moment of fail", when, frozenset({"open", "end", "done"})))


def _json_object(value: str) -> str:
    try:
        msgspec.json.decode(value.encode(), type=dict[str, Any])
    except msgspec.DecodeError:
        raise DirectiveError("args must be a JSON object") from None
    return value


def _cuts(value: str) -> str:
    if not re.fullmatch(r"recorded|whole|bytes|random:[0-9]{1,9}", value):
        raise DirectiveError("cuts must be recorded, whole, bytes or random:SEED")
    return value
