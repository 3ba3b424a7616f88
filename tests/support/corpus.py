"""The recorded streams, and what must become of each: an oracle that shares no code with the product.

It reads a body as a whole, line by line, as WHATWG HTML 9.2.6 says, and never sees a cut. What the contract lets differ
between the recording and the client stands in `relayed`, one rule a line; the arithmetic of money in `owed`.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

CORPUS = Path(os.environ.get("HOPTRIO_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
PROTOCOLS = ("chat", "responses", "messages", "gemini")

#: Billionths a token, all different, so that no two kinds of token can be mixed up unseen.
INPUT, CACHED, WRITTEN, WRITTEN_1H, OUTPUT = 1000, 100, 1250, 2000, 5000
PRICES = {"input": "1", "cached_input": "0.1", "cache_write": "1.25", "cache_write_1h": "2", "output": "5"}
#: Hosted tools cost nothing here: recordings are about tokens.
HOSTED = [
    "web_search",
    "web_fetch",
    "file_search",
    "code_interpreter",
    "code_execution",
    "image_generation",
    "mcp",
    "advisor",
    "tool_search",
    "shell",
    "google_search",
    "google_maps",
    "url_context",
    "x_search",
    "computer",
    "text_editor",
    "memory",
    "bash",
    "openrouter:web_search",
]


class Event(NamedTuple):
    """One event of a recording. `stray`: a JSON object outside ``data:``."""

    name: str
    data: bytes
    stray: bool = False

    @property
    def json(self) -> Any:
        """The data as JSON; an empty object for what is none."""
        try:
            value = json.loads(self.data)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def done(self) -> bool:
        """Chat's terminal."""
        return self.data.strip() == b"[DONE]"


def parse(raw: bytes) -> list[Event]:
    """All events of a body, the last one too if only its blank line is missing."""
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[Event] = []
    for block in text.split(b"\n\n"):
        lines = [line.partition(b":") for line in block.split(b"\n")]
        data = [value.removeprefix(b" ") for field, _, value in lines if field == b"data"]
        names = [value.removeprefix(b" ").decode() for field, _, value in lines if field == b"event"]
        if data:
            events.append(Event(names[-1] if names else "", b"\n".join(data)))
        events += _strays(block)
    return events


def _strays(block: bytes) -> list[Event]:
    """A JSON object printed raw, perhaps over several lines, or behind ``error:``; on the wire it is one line."""
    at = re.search(rb"^(error: *)?(?=\{)", block, re.MULTILINE)
    if at is None:
        return []
    text = block[at.end() :].decode()
    value, length = json.JSONDecoder().raw_decode(text)
    if "\n" in text[:length]:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return [Event("", text[:length].encode(), stray=True)]


@dataclass(frozen=True)
class Recording:
    """One recorded answer."""

    folder: Path

    def __str__(self) -> str:
        return f"{self.protocol}-{self.folder.name}"

    @property
    def protocol(self) -> str:
        """Whose protocol it speaks."""
        return self.folder.parent.name

    @cached_property
    def raw(self) -> bytes:
        """The body as it came."""
        return (self.folder / "response.sse").read_bytes()

    @cached_property
    def expect(self) -> dict[str, Any]:
        """What it holds, by a parser that is not ours; a body's last event counts even without its blank line."""
        found = json.loads((self.folder / "expect.json").read_bytes())
        return found | (found.get("lenient_eof") or {})

    @cached_property
    def chunk_sizes(self) -> list[int]:
        """The network chunks it came in; one where that is not known."""
        return json.loads((self.folder / "meta.json").read_bytes()).get("chunk_sizes") or [len(self.raw)]

    @cached_property
    def request(self) -> dict[str, Any]:
        """The recorded request, for our model and without what the contract refuses to relay; else a minimal one whose
        prompt is as long as the prompt that was charged."""
        path = self.folder / "request.json"
        return _ours(self.protocol, json.loads(path.read_bytes())) if path.is_file() else self._minimal()

    def _minimal(self) -> dict[str, Any]:
        text = "x" * (2_000_000 if self.expect["usage"] is None else 2 * _biggest(self.expect))
        if self.protocol == "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        if self.protocol == "responses":
            return {"model": "m", "stream": True, "input": text}
        body: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
        return body | ({"max_tokens": 64_000} if self.protocol == "messages" else {})


def recordings(*protocols: str) -> list[Recording]:
    """All of them, in a stable order."""
    return [
        Recording(path.parent)
        for protocol in protocols or PROTOCOLS
        for path in sorted(CORPUS.glob(f"{protocol}/*/response.sse"))
    ]


def _biggest(value: Any) -> int:
    if isinstance(value, dict):
        return max((_biggest(each) for each in value.values()), default=0)
    return value if isinstance(value, int) else 0


def _ours(protocol: str, body: dict[str, Any]) -> dict[str, Any]:
    """Audio and background are not sold, ids of another gateway's answers are not ours."""
    refused = {"audio", "modalities", "background", "previous_response_id", "service_tier", "serviceTier"}
    body = {name: value for name, value in body.items() if name not in refused}
    return body if protocol == "gemini" else {**body, "model": "m", "stream": True}


# -- what reaches the client ------------------------------------------------------------------------------------------


class Relayed(NamedTuple):
    """What a client must see. `payloads` without events of our own, of which `ours` tells the number."""

    #: None: captured.
    reason: str | None
    payloads: list[bytes]
    clean: bool
    ours: int = 0

    @property
    def refused(self) -> bool:
        """Nothing came before the provider's error, so it is told by an HTTP status."""
        return self.reason == "provider_error" and len(self.payloads) <= 1


def relayed(recording: Recording, *, usage: bool = True, truncate: bool = False) -> Relayed:
    """`usage`: a Chat client asked for it. `truncate`: the contract's `failure`; else it is ``event_abort``."""
    protocol = recording.protocol
    events = [event for event in parse(recording.raw) if not event.stray or event.json.get("error")]
    if protocol != "chat":
        events = [event for event in events if not event.done]  # (c): [DONE] belongs to Chat alone
    events, failed, complete = _until_end(protocol, events)
    if failed:
        shown = [event for event in events if not _fails(protocol, event)] if truncate else events
        missing = protocol == "responses" and events[-1].json.get("type") == "error"
        return Relayed("provider_error", _payloads(shown, usage), False, int(missing and not truncate))
    if not complete:
        return Relayed("truncated", _payloads(events, usage), False, int(not truncate))
    reason = None if _has_evidence(recording) else "no_evidence"
    if reason and truncate:
        return Relayed(reason, _payloads(events[: _terminal_at(protocol, events)], usage), False)
    payloads = _payloads(events, usage)
    if protocol == "chat" and not events[-1].done:
        payloads.append(b"[DONE]")  # (c): supplied where a complete Chat stream lacks it
    return Relayed(reason, payloads, True)


def _until_end(protocol: str, events: list[Event]) -> tuple[list[Event], bool, bool]:
    """The events up to the end, whether that is the provider's error, and whether it is complete. Nothing follows a
    terminal or an error, except the `response.failed` that an `error` announces."""
    stopped = False
    finished: dict[int, bool] = {}
    blocked = False
    for at, event in enumerate(events):
        kind = event.json.get("type")
        if kind == "message_start":
            stopped = bool(event.json["message"].get("stop_reason"))
        if _fails(protocol, event):
            rest = [each for each in events[at + 1 :] if each.json.get("type") == "response.failed"][:1]
            return events[: at + 1] + (rest if protocol == "responses" and kind == "error" else []), True, False
        if protocol == "messages" and kind == "message_delta":
            stopped = stopped or bool((event.json.get("delta") or {}).get("stop_reason"))
        if protocol in ("chat", "gemini"):
            choices = event.json.get("choices") or event.json.get("candidates") or []
            for choice in choices:
                index = choice.get("index") or 0
                reason = choice.get("finish_reason") or choice.get("finishReason")
                finished[index] = finished.get(index, False) or bool(reason)
        blocked = blocked or bool((event.json.get("promptFeedback") or {}).get("blockReason"))
        if event.done or kind in ("response.completed", "response.incomplete"):
            return events[: at + 1], False, True
        if protocol == "messages" and kind == "message_stop":
            return events[: at + 1], False, stopped
    return events, False, blocked or (bool(finished) and all(finished.values()))


def _fails(protocol: str, event: Event) -> bool:
    if protocol == "responses":
        return event.json.get("type") in ("error", "response.failed", "response.cancelled")
    return bool(event.json.get("error")) or event.name == "error"


def _terminal_at(protocol: str, events: list[Event]) -> int:
    """Where the bytes begin that are held back until the settlement."""
    return len(events) if protocol == "chat" and not events[-1].done else len(events) - 1


def _payloads(events: list[Event], usage: bool) -> list[bytes]:
    if usage:
        return [event.data for event in events]
    return [data for event in events if (data := _without_usage(event)) is not None]


def _without_usage(event: Event) -> bytes | None:
    """(d): a chunk of usage alone is not written, and the member is cut from every other; by its text, since all other
    bytes stay."""
    value = event.json
    if "usage" not in value:
        return event.data
    if not value.get("choices") and value["usage"] and not value.get("error"):
        return None
    text = event.data.decode()
    decoder = json.JSONDecoder()
    for match in re.finditer(r'"usage"\s*:\s*', text):
        _, end = decoder.raw_decode(text, match.end())
        for start, stop in _cuts(text, match.start(), end):
            try:
                same = json.loads(text[:start] + text[stop:])
            except ValueError:
                continue
            if same == {name: member for name, member in value.items() if name != "usage"}:
                return (text[:start] + text[stop:]).encode()
    raise AssertionError("a usage member that cannot be found")


def _cuts(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The member with the comma before it, or behind it where it is the first."""
    before = len(text[:start].rstrip())
    behind = end + len(text[end:]) - len(text[end:].lstrip())
    cuts = [(before - 1, end)] if text[:start].rstrip().endswith(",") else []
    return [*cuts, (start, behind + 1 + len(text[behind + 1 :]) - len(text[behind + 1 :].lstrip()))]


# -- what it costs ----------------------------------------------------------------------------------------------------


def _has_evidence(recording: Recording) -> bool:
    usage = recording.expect["usage"]
    if not usage:
        return False
    names = {
        "chat": ("prompt_tokens", "completion_tokens"),
        "responses": ("input_tokens", "output_tokens"),
        "messages": ("output_tokens",),
        "gemini": ("promptTokenCount",),
    }
    return all(isinstance(usage.get(name), int) and usage[name] >= 0 for name in names[recording.protocol])


def tokens(recording: Recording) -> dict[str, int]:
    """How many tokens of each kind the recorded usage says."""
    usage = recording.expect["usage"]
    if recording.protocol == "messages":
        return _messages_tokens(recording.expect["usage_merged"])
    if recording.protocol == "gemini":
        given = usage["promptTokenCount"] + usage.get("toolUsePromptTokenCount", 0)
        made = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        cached = usage.get("cachedContentTokenCount", 0)
        return {"input": given - cached, "cached": cached, "written": 0, "written_1h": 0, "output": made}
    return _openai_tokens(recording.protocol, usage)


def _messages_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Cached tokens stand beside the input."""
    written = usage.get("cache_creation_input_tokens") or 0
    long = (usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    found = {
        "input": usage["input_tokens"],
        "cached": usage.get("cache_read_input_tokens") or 0,
        "written": written - long,
        "written_1h": long,
        "output": usage["output_tokens"],
    }
    for step in usage.get("iterations") or ():
        if step["type"] == "compaction":
            found["input"] += step["input_tokens"]
            found["output"] += step["output_tokens"]
    return found


def _openai_tokens(protocol: str, usage: dict[str, Any]) -> dict[str, int]:
    """Cached tokens are part of the input, unless the total says that they stand beside it; so is it with reasoning."""
    given, made = ("prompt", "completion") if protocol == "chat" else ("input", "output")
    inputs, outputs = usage[f"{given}_tokens"], usage[f"{made}_tokens"]
    details = usage.get(f"{given}_tokens_details") or {}
    vendors = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    cached = max([details.get("cached_tokens") or 0, *(usage.get(name) or 0 for name in vendors)])
    written = max(details.get("cache_write_tokens") or 0, usage.get("cache_creation_input_tokens") or 0)
    reasoning = (usage.get(f"{made}_tokens_details") or {}).get("reasoning_tokens") or usage.get("reasoning_tokens")
    gap = (usage.get("total_tokens") or inputs + outputs) - inputs - outputs
    if gap and gap == reasoning:
        outputs += gap
    elif gap and gap == cached + written:
        inputs += gap
    return {
        "input": inputs - cached - written,
        "cached": cached,
        "written": written,
        "written_1h": 0,
        "output": outputs,
    }


def owed(recording: Recording) -> int:
    """The charge in billionths at `PRICES`."""
    count = tokens(recording)
    return (
        count["input"] * INPUT
        + count["cached"] * CACHED
        + count["written"] * WRITTEN
        + count["written_1h"] * WRITTEN_1H
        + count["output"] * OUTPUT
    )
