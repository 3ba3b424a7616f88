"""Frames: what a client's message asks for, and the messages that are no event of a stream (protocols page 5.2, 5.3).

A message is looked at only as far as its turn needs; the body it holds stays raw until its turn has come, and is then
parsed like that of a POST. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hoptrio.errors import BadRequest
from hoptrio.protocols.members import UNREADABLE, loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoptrio.stream.ports import Rendered

__all__ = ["Cancel", "Create", "Ignored", "Steer", "error_frame", "lane_of", "read_frame", "steer_failed", "to_lane"]

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}", re.ASCII)
#: Headers of a refusal that its frame repeats: the request's id, and what SDKs go by when they try again.
_TOLD = (b"x-request-id", b"retry-after", b"x-should-retry")


class Create(NamedTuple):
    """``response.create``: one turn."""

    #: ``stream_id``; "" is the lane of those that name none.
    lane: str
    #: Members of the body, those of the frame taken out.
    body: dict[str, msgspec.Raw]
    #: ``generate: false``: the state is kept, nothing is generated.
    prewarm: bool
    size: int


class Cancel(NamedTuple):
    """``response.cancel``: the client leaves a turn, named by its response or else by its lane."""

    lane: str
    response_id: str


class Steer(NamedTuple):
    """``response.steer``: input for a turn that runs."""

    response_id: str
    input: msgspec.Raw


class Ignored(NamedTuple):
    """An acknowledgement that asks for nothing."""


def read_frame(message: str) -> Create | Cancel | Steer | Ignored:
    """Read one message. Raises BadRequest; `lane_of` tells whose it then was."""
    members = _members(message)
    kind = _text(members, "type")
    match kind:
        case "response.create":
            return _create(members, len(message))
        case "response.cancel":
            return Cancel(_lane(members), _text(members, "response_id") or "")
        case "response.steer":
            return Steer(_text(members, "previous_response_id") or "", members.get("input", msgspec.Raw(b"null")))
        case "response.processed":
            return Ignored()
    raise BadRequest("The type of the event is unknown; 'response.create' begins a turn.", param="type")


def lane_of(message: str) -> str:
    """The lane of a message that was refused, if it names one."""
    try:
        return _lane(_members(message))
    except BadRequest:
        return ""


def _members(message: str) -> dict[str, msgspec.Raw]:
    try:
        return _MEMBERS.decode(message)
    except UNREADABLE:
        raise BadRequest("The message is not a JSON object.", code="invalid_json") from None


def _create(members: dict[str, msgspec.Raw], size: int) -> Create:
    lane = _lane(members)
    stream, generate = loads(members.get("stream", b"null")), loads(members.get("generate", b"null"))
    if stream not in (None, True):
        raise BadRequest("Answers on a WebSocket are always streams: 'stream' is true or absent.", param="stream")
    if generate not in (None, True, False):
        raise BadRequest("'generate' must be a boolean.", param="generate")
    body = {name: value for name, value in members.items() if name not in ("type", "stream_id", "generate")}
    return Create(lane, body | {"stream": msgspec.Raw(b"true")}, generate is False, size)


def _lane(members: Mapping[str, msgspec.Raw]) -> str:
    value = loads(members.get("stream_id", b"null"))
    if value is None:
        return ""
    if type(value) is not str or not _LANE.fullmatch(value):
        raise BadRequest(
            "'stream_id' must have 1 to 256 characters out of letters, digits, '_', '-' and '.'.",
            param="stream_id",
            code="invalid_stream_id",
        )
    return value


def _text(members: Mapping[str, msgspec.Raw], name: str) -> str | None:
    value = loads(members.get(name, b"null"))
    return value if type(value) is str else None


def error_frame(refusal: Rendered, lane: str) -> bytes:
    """A refusal as its frame. Codex goes by `status` alone."""
    value: dict[str, Any] = {
        "type": "error",
        "status": refusal.status,
        "error": msgspec.json.decode(refusal.body)["error"],
        "headers": _told(refusal.headers),
    }
    return to_lane(msgspec.json.encode(value), lane)


def _told(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode(): value.decode("latin-1") for name, value in headers if name in _TOLD}


def steer_failed(steer: Steer, *, known: bool, lane: str) -> bytes:
    """Channels answer one request at a time, so no input can join a turn that runs: it is given back."""
    code = "steering_not_supported" if known else "response_not_found"
    message = "A running turn takes no further input here." if known else "There is no such response here."
    value = {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "steer": {"previous_response_id": steer.response_id, "input": steer.input},
        "error": {"type": "invalid_request_error", "code": code, "message": message},
    }
    return to_lane(msgspec.json.encode(value), lane)


def to_lane(frame: bytes, lane: str, *, kind: str = "") -> bytes:
    """A JSON object with the name of its lane, and with its `type` if it has none, in front of its own bytes."""
    added = {"type": kind} if kind else {}
    if lane:
        added["stream_id"] = lane
    if not added:
        return frame
    rest = frame.lstrip()[1:].lstrip()
    return msgspec.json.encode(added)[:-1] + (rest if rest.startswith(b"}") else b"," + rest)
