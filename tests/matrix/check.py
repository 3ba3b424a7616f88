"""One recording for one client of another protocol: what must come of it.

The oracle shares no code with the product: what the recording holds is in its ``expect.json``, and what the client gets
is what the official SDK makes of the bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hoptrio.metering.evidence import usage
from hoptrio.protocols.events import Protocol
from tests.support.converting import convert_stream, cut_at, native, payloads
from tests.support.sdks import hear

if TYPE_CHECKING:
    from tests.support.converting import Stream
    from tests.support.corpus import Recording

__all__ = ["check"]

#: A recording's own word for its end -> the word that all share; any other is a stop.
_ENDS = {
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
    "MAX_TOKENS": "length",
    "max_output_tokens": "length",
    "content_filter": "filtered",
    "refusal": "filtered",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}


#: Calls that the provider made itself.
_HOSTED = ("mcp_call", "custom_tool_call")
#: Their image was cut to one letter, which is no base64.
_SCRUBBED = ("openai-gpt-5-2025-08-07-stream-image",)


def check(recording: Recording, client: str) -> str:
    """Convert and compare; why it cannot be converted, or "". Raises AssertionError, or what the SDK raises."""
    if recording.folder.name in _SCRUBBED and client == "gemini":
        return "the recording's image was taken out"
    stream = convert_stream(recording.raw, recording.protocol, client)
    _judged_natively(recording, stream)
    if stream.reader.unconvertible:
        assert not stream.complete
        assert not any(_is_terminal(event) for event in payloads(stream.wire))
        return stream.reader.unconvertible
    events = payloads(stream.wire)
    if stream.complete:
        assert sum(_is_terminal(event) for event in events) == 1
        _said(recording, client, stream)
    else:
        assert not any(_is_terminal(event) for event in events)
        failed = stream.reader.error is not None
        assert [_is_error(event) for event in events] == [False] * (len(events) - failed) + [True] * failed
    return ""


def _judged_natively(recording: Recording, stream: Stream) -> None:
    """Conversion changes nothing of what the provider's bytes prove."""
    reader = native(recording.protocol)
    assert stream.kinds == [reader.feed(event).kind for event in cut_at(recording.raw)]
    complete = reader.finish(clean=True).complete
    assert stream.complete == (complete and not stream.reader.unconvertible)
    ours = stream.reader
    assert (ours.counts, ours.error, ours.answered) == (reader.counts, reader.error, reader.answered)
    assert ours.provider_ids == reader.provider_ids


def _said(recording: Recording, client: str, stream: Stream) -> None:
    """Text, calls, end and usage are the recording's."""
    expect, heard = recording.expect, hear(client, stream.wire)
    refusal = expect.get("refusal_text") or ""
    assert heard.text == expect["text"] + refusal
    made = [each for each in expect["tool_calls"] if each.get("type") not in _HOSTED]
    calls = [(each["name"], _parsed(each["arguments"])) for each in made]
    called = bool(calls)
    if client in ("messages", "gemini"):
        # Half a call, cut by a limit, has no arguments that could be compared.
        calls = [each for each in calls if isinstance(each[1], dict)]
        heard_calls = heard.calls[: len(calls)]
    else:
        heard_calls = heard.calls
    assert heard_calls == calls
    assert heard.finish == _end(expect, client, called=called, refused=bool(refusal))
    counts = stream.reader.counts
    if counts is None:
        assert heard.usage in (None, (0, 0, 0, 0))
        return
    owed = usage(counts, Protocol(recording.protocol), answered=True)
    assert owed is not None
    assert heard.usage == (owed.all_input, owed.cached_input, owed.output, owed.reasoning)


def _end(expect: dict[str, Any], client: str, *, called: bool, refused: bool) -> str:
    end = _ENDS.get(expect.get("incomplete_reason") or expect["finish_reason"], "stop")
    if expect["terminal"]["kind"] == "promptFeedback.blockReason":
        end = "filtered"
    if end != "stop":
        return end
    if called:
        return "tool_calls"
    return "filtered" if refused and client in ("messages", "gemini") else "stop"


def _is_terminal(event: Any) -> bool:
    if event == b"[DONE]" or event.get("type") in ("message_stop", "response.completed", "response.incomplete"):
        return True
    return any(each.get("finishReason") for each in event.get("candidates", []))


def _is_error(event: Any) -> bool:
    return event != b"[DONE]" and (bool(event.get("error")) or event.get("type") in ("error", "response.failed"))


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
