"""Asked: what a client of the harness asks the harness's provider for.

It travels in the prompt, which every gateway relays: ``bench:run=3;number=17;events=400;...``, without a character that
JSON would escape.
"""

from __future__ import annotations

import re

import msgspec

__all__ = ["Asked", "find", "line"]

_LINE = re.compile(rb"bench:([a-z_]+=[a-z0-9@-]*(?:;[a-z_]+=[a-z0-9@-]*)*)")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. The defaults are those of a request that is not the harness's own, such as a probe."""

    run: int = 0
    number: int = 0
    events: int = 3
    pace_ns: int = 0
    size: int = 40
    input: int = 10
    output: int = 3
    #: 1: no event but the first before ``GET /go/RUN``.
    silent: int = 0
    #: "", or status, cut, reset, error, stall: after `fail_after` events.
    fail: str = ""
    fail_after: int = 0


def line(asked: Asked) -> str:
    """As text of a prompt."""
    return "bench:" + ";".join(f"{name}={getattr(asked, name)}" for name in asked.__struct_fields__)


def find(body: bytes) -> Asked:
    """What the body of a request asks for."""
    match = _LINE.search(body)
    if match is None:
        return Asked()
    pairs = dict(pair.split("=") for pair in match[1].decode().split(";"))
    return msgspec.convert(pairs, Asked, strict=False)
