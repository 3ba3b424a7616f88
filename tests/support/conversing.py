"""Requests for the tests of conversion: a client's body in, a channel's out, and proof that nothing was changed."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

from hoptrio.protocols.convert import request as convert
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.registry import RULES

if TYPE_CHECKING:
    from hoptrio.protocols.events import Call

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
GEMINI_STREAM = "/v1beta/models/m:streamGenerateContent"


def parsed(client, body, headers=None, path=None) -> Call:
    """A client's call, as its own protocol reads it."""
    named = body if client == "gemini" else {"model": "m"} | body
    if client == "messages":
        named = {"max_tokens": 4000} | named
    return RULES[client].parse(path or PATHS[client], {"alt": "sse"}, headers or {}, json.dumps(named).encode())


def conversation(client, body, **options):
    """The neutral request of a body."""
    call = parsed(client, body)
    before = copy.deepcopy(call.body)
    decoded = convert.decode(call, **options)
    assert call.body == before
    return decoded


def converted(client, channel, body, **options):
    """The channel's body for a client's, which stays as it was."""
    call = parsed(client, body)
    before = copy.deepcopy(call.body)
    out = convert.prepare(call, Protocol(channel), **options).call.body
    assert call.body == before
    assert json.loads(json.dumps(out)) == out
    return out
