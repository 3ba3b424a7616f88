"""Draw: everything that a seed decides about one world, as values: its config, its keys, and what each client asks for.

A provider's part travels in the request (the simulator's ``sim:`` line), so a `Plan` is the whole script of one request
on both sides. Nothing here knows of the gateway or of time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

KINDS = ("chat", "responses", "messages", "gemini", "gemini_array")
MODELS = ("m", "n")
INPUT_TOKENS_MAX = 100_000
OUTPUT_TOKENS_MAX = 200
#: What each account begins with: a hold takes one to five millions, so that all but the first are refused now and then.
ACCOUNTS = {"large": 1000 * 10**9, "middle": 10**8, "small": 2 * 10**7, "tight": 6 * 10**6}
#: The last midnight of a month, UTC: budgets by day and by month begin anew in the middle of a world.
_MIDNIGHT_MS = 1_796_083_200_000
#: How a client behaves; the patient one has the fullest set of expectations.
FATES = {
    "patient": 50,
    "slow": 10,
    "stuck": 4,
    "leaver": 12,
    "resetter": 7,
    "half_closer": 4,
    "pipeliner": 5,
    "expecter": 3,
    "dawdler": 3,
    "bad": 4,
}
_BEFORE_HEAD = ("no-head", "close", "not-http", "html", "json-error", "empty")
_IN_STREAM = ("cut", "reset", "inside", "end", "silence", "comments", "pings", "no-terminal", "no-finish")
_ERRORS = {
    "chat": ("error",),
    "responses": ("error", "failed", "failed-usage"),
    "messages": ("error",),
    "gemini": ("error", "stray-error"),
}
_STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529, 302)
_USAGES = ("none", "finish", "running", "twice", "late", "start")
_WRONG_USAGES = ("zero", "negative", "huge", "string", "float", "null", "empty", "mismatch")
_FORMS = ("crlf", "cr", "bom", "unnamed", "ids", "nospace", "unterminated", "done", "split", "close", "gzip")


@dataclass(frozen=True)
class Plan:
    """One request and how its client behaves."""

    number: int
    kind: str
    stream: bool
    #: Index into the world's keys; -1 is a key that nobody has.
    key: int
    fate: str
    path: str
    body: bytes
    #: The simulator's directive, "" for what never gets there.
    directive: str
    usage_asked: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    #: Seconds: between reads of a slow client, before a leaver leaves.
    patience_s: float = 0.0

    @property
    def protocol(self) -> str:
        return self.kind.removesuffix("_array")


def config(rng: Random) -> dict[str, Any]:
    """A config: models, channels and contracts mixed field by field."""
    return {
        "models": {name: _model(rng) for name in MODELS},
        "channels": {
            "one": _channel("a", include_usage="ask", supplier="sup", revenue_share="0.7345671", weight=2),
            "two": _channel("b", include_usage=rng.choice(("ask", "never")), max_streams=rng.choice((5, 40))),
            "own": _channel("c", route="dedicated", accounts=["large"], priority=rng.choice((0, 1))),
        },
        "contracts": {f"mixed{i}": _contract(rng) for i in range(6)},
    }


@dataclass(frozen=True)
class Site:
    """One node."""

    name: str
    workers: int
    #: How far its clock is off.
    skew_ms: int
    #: Settlements go through a journal on its own disk.
    journal: bool


def sites(rng: Random) -> list[Site]:
    """One to three nodes of one to three workers."""
    return [
        Site(
            name=f"node{i}",
            workers=rng.randint(1, 3),
            skew_ms=rng.choice((0, 0, rng.randint(-2000, 2000), rng.randint(-6 * 3_600_000, 6 * 3_600_000))),
            journal=rng.random() < 0.5,
        )
        for i in range(rng.randint(1, 3))
    ]


def epoch_ms(rng: Random, length_s: float) -> int:
    """The wall clock at the world's start: midnight comes while it lives."""
    return _MIDNIGHT_MS - int(rng.uniform(0.2, 0.8) * length_s * 1000)


def terms(rng: Random) -> dict[str, Any]:
    """The limits of a key."""
    limits: dict[str, Any] = {}
    if rng.random() < 0.4:
        limits["max_streams"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        limits["budget_nanos"] = rng.choice((4, 10, 40)) * 10**6
        limits["budget_per"] = rng.choice(("day", "month"))
    return limits


def repriced(rng: Random, before: dict[str, Any]) -> dict[str, Any]:
    """The same config with other prices, and now and then without a channel."""
    channels = dict(before["channels"])
    if rng.random() < 0.3:
        del channels["two"]
    stalls = {name: table["stall_seconds"] for name, table in before["models"].items()}
    models = {name: _model(rng) | {"stall_seconds": stalls[name]} for name in MODELS}
    return before | {"models": models, "channels": channels}


def _model(rng: Random) -> dict[str, Any]:
    return {
        "input": str(rng.choice((1, 2, 3))),
        "cached_input": rng.choice(("0.1", "0.5")),
        "cache_write": rng.choice(("1.25", "4")),
        "output": rng.choice(("2", "8.5")),
        "max_input_tokens": INPUT_TOKENS_MAX,
        "max_output_tokens": OUTPUT_TOKENS_MAX,
        "stall_seconds": rng.choice((10, 30, 120)),
    }


def _channel(host: str, **members: Any) -> dict[str, Any]:
    return {
        "protocols": ["chat", "responses", "messages", "gemini"],
        "base_url": f"http://{host}.test/v1",
        "api_key": "sk-provider",
        "models": list(MODELS),
        **members,
    }


def _contract(rng: Random) -> dict[str, Any]:
    return {
        "preset": rng.choice(("hopbase", "anypath", "hoptrio")),
        "protocols": ["chat", "responses", "messages", "gemini"],
        "keepalive": rng.choice(("off", "interval", "idle")),
        "keepalive_seconds": rng.choice((0.5, 2, 10)),
        "usage": rng.choice(("optional", "required")),
        "failure": rng.choice(("event", "truncate", "event_abort")),
        "interrupted": rng.choice(("charge", "release")),
        "attempts": 1,
        "stall": rng.random() < 0.7,
        "deadline_seconds": rng.choice((20, 120, 600)),
        "certified_only": rng.random() < 0.5,
    }


def plan(rng: Random, number: int, keys: int) -> Plan:
    """One request."""
    kind = rng.choice(KINDS)
    stream = kind == "gemini_array" or rng.random() < 0.85
    fate = rng.choices(list(FATES), weights=list(FATES.values()))[0]
    directive = _directive(rng, kind.removesuffix("_array"))
    usage_asked = rng.random() < 0.7
    model = rng.choice(MODELS)
    body = _body(rng, kind, stream, model, f"world {number}\nsim: {directive}", usage_asked)
    made = Plan(
        number=number,
        kind=kind,
        stream=stream,
        key=rng.randrange(keys),
        fate=fate,
        path=_path(kind, stream, model),
        body=json.dumps(body).encode(),
        directive=directive,
        usage_asked=usage_asked,
        headers={"user-agent": "google-genai-sdk/1.1 gl-node/22"} if rng.random() < 0.05 else {},
        patience_s=rng.choice((0.0, 0.05, 1.0, 5.0, 31.0, 100.0)) * rng.random(),
    )
    return _spoilt(rng, made) if fate == "bad" else made


def _spoilt(rng: Random, made: Plan) -> Plan:
    """A request that must be refused."""
    wrong = rng.randrange(4)
    changes: dict[str, Any] = {"directive": ""}
    if wrong == 0:
        changes["key"] = -1
    elif wrong == 1:
        changes["body"] = made.body[: len(made.body) // 2]
    elif wrong == 2:
        changes["body"] = b"[" * 50_000
    else:
        changes["path"] = made.path + "/nowhere"
    return Plan(**{**made.__dict__, **changes})


def _path(kind: str, stream: bool, model: str) -> str:
    verb = "streamGenerateContent" if stream else "generateContent"
    return {
        "chat": "/v1/chat/completions",
        "responses": "/v1/responses",
        "messages": "/v1/messages",
        "gemini": f"/v1beta/models/{model}:{verb}" + ("?alt=sse" if stream else ""),
        "gemini_array": f"/v1beta/models/{model}:{verb}",
    }[kind]


def _body(rng: Random, kind: str, stream: bool, model: str, text: str, usage_asked: bool) -> dict[str, Any]:
    limit = rng.choice((None, None, 3, 150, 10_000))
    count = 2 if rng.random() < 0.1 else 1
    messages = [{"role": "user", "content": text}]
    if kind == "chat":
        body: dict[str, Any] = {"model": model, "messages": messages, "stream": stream, "n": count}
        if stream and usage_asked:
            body["stream_options"] = {"include_usage": True}
        return body | ({"max_tokens": limit} if limit else {})
    if kind == "responses":
        return {"model": model, "input": text, "stream": stream} | ({"max_output_tokens": limit} if limit else {})
    if kind == "messages":
        return {"model": model, "messages": messages, "stream": stream, "max_tokens": limit or 100}
    settings: dict[str, Any] = {"candidateCount": count}
    if limit:
        settings["maxOutputTokens"] = limit
    return {"contents": [{"role": "user", "parts": [{"text": text}]}], "generationConfig": settings}


def _directive(rng: Random, protocol: str) -> str:
    pairs: dict[str, Any] = {"events": rng.randint(0, 7), "every": f"{rng.choice((3, 9, 25))}s"}
    pairs["pace"] = rng.choice(("0", "20ms", "20ms", "300ms", "1s", "4s", "12s"))
    for name in ("head_delay", "delay"):
        if rng.random() < 0.15:
            pairs[name] = rng.choice(("50ms", "2s", "11s", "35s", "130s", "700s"))
    _draw_counts(rng, pairs)
    if rng.random() < 0.3:
        pairs["between"] = rng.choice(("comment", "blank", "ping"))
    if rng.random() < 0.15:
        pairs["batch"] = rng.randint(2, 5)
    if rng.random() < 0.3:
        pairs["wire"] = ",".join(rng.sample(_FORMS, rng.randint(1, 2)))
    elif rng.random() < 0.01:
        pairs["wire"] = "gzip-unlabelled"
    if rng.random() < 0.04:
        pairs["trickle"] = rng.choice((40, 300))
    # So much of the same compresses beyond what the gateway takes for honest.
    if rng.random() < 0.008 and "gzip" not in pairs.get("wire", ""):
        pairs["size"] = 700_000
    _draw_failure(rng, pairs, protocol)
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _draw_counts(rng: Random, pairs: dict[str, Any]) -> None:
    if rng.random() < 0.3:
        pairs["reasoning"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        pairs["tools"] = rng.randint(1, 2)
    if rng.random() < 0.1:
        pairs["finish"] = rng.choice(("length", "filter", "block"))
    if rng.random() < 0.3:
        pairs["input"] = rng.randint(20, 60)
        pairs["cached"] = rng.choice((0, 0, 5, 20))
        pairs["cache_write"] = rng.choice((0, 0, 7))
    if rng.random() < 0.2:
        pairs["output"] = rng.choice((1, 30, 90, 5000))
    chance = rng.random()
    if chance < 0.25:
        pairs["usage"] = rng.choice(_USAGES)
    elif chance < 0.4:
        pairs["usage"] = rng.choice(_WRONG_USAGES)
    if pairs.get("usage") == "mismatch":
        # The gap must not happen to be one of the components: then it would be no mismatch.
        for name in ("reasoning", "cached", "cache_write"):
            pairs.pop(name, None)


def _draw_failure(rng: Random, pairs: dict[str, Any], protocol: str) -> None:
    chance = rng.random()
    moment = rng.choice(("0", "open", "1", "2", "4", "end", "done", "done"))
    if chance < 0.06:
        pairs["fail"] = f"status:{rng.choice(_STATUSES)}"
        if rng.random() < 0.3:
            pairs["retry_after"] = rng.choice((1, 90))
    elif chance < 0.15:
        pairs["fail"] = rng.choice(_BEFORE_HEAD)
    elif chance < 0.35:
        pairs["fail"] = f"{rng.choice(_IN_STREAM)}@{moment}"
    elif chance < 0.45:
        pairs["fail"] = f"{rng.choice(_ERRORS[protocol])}@{moment}"
        pairs["after"] = rng.choice(("end", "cut", "reset", "silence", "done", "failed"))
        foreign = protocol != "responses" and pairs["after"] == "failed"
        if foreign or (pairs["fail"].startswith("stray") and pairs["after"] == "silence"):
            pairs["after"] = "end"
