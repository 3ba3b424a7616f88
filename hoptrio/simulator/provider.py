"""SimulatedProvider: one request to its steps. It keeps what it saw, and nothing else, between requests.

Any key is accepted. Paths are known by their ends, so that any base URL works: ``/chat/completions``, ``/responses``,
``/messages``, ``:streamGenerateContent``, ``/embeddings``, ``/images/generations`` and the calls that count tokens.
``GET /_sim/requests`` tells what was asked, ``DELETE`` forgets it.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from hoptrio.protocols.events import Protocol
from hoptrio.simulator.play import play, refuse
from hoptrio.simulator.prompt import read_prompt
from hoptrio.simulator.script import DirectiveError, Script, find_directive, parse_directive
from hoptrio.simulator.seen import Seen, SeenLog
from hoptrio.simulator.steps import End, Head, Send

if TYPE_CHECKING:
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.steps import Steps

__all__ = ["MODELS", "Library", "Served", "SimulatedProvider"]

#: The models it lists; it answers for any other name too.
MODELS = ("sim-small", "sim-large")

_GENERATE = {
    "/chat/completions": Protocol.CHAT,
    "/embeddings": Protocol.CHAT,
    "/images/generations": Protocol.CHAT,
    "/responses": Protocol.RESPONSES,
    "/messages": Protocol.MESSAGES,
    ":streamGenerateContent": Protocol.GEMINI,
    ":generateContent": Protocol.GEMINI,
}
#: Who counts, under which name, and what stands beside it.
_COUNT: dict[str, tuple[Protocol, str, dict[str, str]]] = {
    "/responses/input_tokens": (Protocol.RESPONSES, "input_tokens", {"object": "response.input_tokens"}),
    "/messages/count_tokens": (Protocol.MESSAGES, "input_tokens", {}),
    ":countTokens": (Protocol.GEMINI, "totalTokens", {}),
}


class Served(Interface):
    """A stream that is not made up of a script."""

    def steps(self, cuts: str) -> Steps:
        """Serve it: `cuts` as in the script's language."""


class Library(Interface):
    """Where the streams are that ``replay=NAME`` asks for: recordings, or any others."""

    def find(self, name: str, protocol: str) -> Served | None:
        """The stream of this name for a request in `protocol`; None if there is none."""


class SimulatedProvider:
    """A provider in four protocols. `default` is the script of requests without a ``sim:`` line."""

    def __init__(self, *, default: Script | None = None, recordings: Library | None = None) -> None:
        self.seen = SeenLog()
        self._default = default or Script()
        self._recordings = recordings
        self._serials = count(1)

    def saw(self, method: str, target: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Seen:
        """Note a request; questions about what was seen are not themselves noted."""
        if target.startswith("/_sim/"):
            return Seen(0, method, target, headers, body)
        return self.seen.add(method, target, headers, body)

    def respond(self, seen: Seen, body: bytes) -> Steps:
        """What to do for one request that `seen` describes. Never raises for what a client sends."""
        url = urlsplit(seen.target)
        path = unquote(url.path)
        if path == "/_sim/requests":
            return self._own(seen)
        if seen.method in ("GET", "HEAD"):
            return _models(path)
        for ending, counting in _COUNT.items():
            if path.endswith(ending):
                return _counted(*counting, path, body)
        for ending, protocol in _GENERATE.items():
            if path.endswith(ending):
                return self._generate(protocol, path, dict(parse_qsl(url.query)), seen, body)
        return refuse(Protocol.CHAT, 404, "no such path")

    def _generate(self, protocol: Protocol, path: str, query: dict[str, str], seen: Seen, body: bytes) -> Steps:
        try:
            prompt = read_prompt(protocol, path, query, body)
            directive = find_directive(prompt.text)
            script = self._default if directive is None else parse_directive(directive)
        except DirectiveError as error:
            return refuse(protocol, 400, f"sim: {error}")
        except ValueError as error:
            return refuse(protocol, 400, str(error))
        return self._replayed(prompt, script, seen) or play(prompt, script, next(self._serials))

    def _replayed(self, prompt: Prompt, script: Script, seen: Seen) -> Steps | None:
        """The recording that the script, a header or the model's name asks for."""
        if self._recordings is None:
            return refuse(prompt.protocol, 404, "no recordings are served here") if script.replay else None
        name = script.replay or seen.header("x-sim-replay")
        recording = self._recordings.find(name or prompt.model, prompt.protocol)
        if recording is not None:
            return recording.steps(script.cuts)
        return refuse(prompt.protocol, 404, "no such recording") if name else None

    def _own(self, seen: Seen) -> Steps:
        if seen.method == "DELETE":
            self.seen.clear()
        return _json(self.seen.as_dict())


def _counted(protocol: Protocol, field: str, more: dict[str, str], path: str, body: bytes) -> Steps:
    """Of a script only ``input`` and an HTTP status mean anything here."""
    try:
        prompt = read_prompt(protocol, path, {}, body)
        script = parse_directive(find_directive(prompt.text) or "")
    except ValueError as error:
        return refuse(protocol, 400, str(error))
    if script.fails("status"):
        return refuse(protocol, int(script.fail.arg), "simulated refusal", retry_after_s=script.retry_after)
    return _json(more | {field: prompt.input_tokens if script.input is None else script.input})


def _models(path: str) -> Steps:
    if not path.endswith("/models"):
        return refuse(Protocol.CHAT, 404, "no such path")
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "simulated"} for name in MODELS]
    return _json({"object": "list", "data": models})


def _json(value: Any) -> Steps:
    body = msgspec.json.encode(value)
    yield Head(200, (("content-type", "application/json"),), length=len(body))
    yield Send(body)
    yield End()
