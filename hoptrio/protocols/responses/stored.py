"""What a client may ask of a Responses answer afterwards: its id, and the response object. Pure, over our own bytes."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from hoptrio.protocols.members import ABSENT, UNREADABLE, loads

__all__ = ["LatestResponse", "broken_off", "name_of"]


class _Id(msgspec.Struct, gc=False):
    id: str = ""


class _Told(msgspec.Struct, gc=False):
    """A whole body, or an event's data."""

    id: str = ""
    response: _Id | None = None


class _Holding(msgspec.Struct, gc=False):
    type: str = ""
    response: msgspec.Raw = ABSENT


_TOLD = msgspec.json.Decoder(_Told)
_HOLDING = msgspec.json.Decoder(_Holding)


def name_of(told: bytes) -> str:
    """The response's id, from the first event or a whole body; "" if it does not say."""
    try:
        found = _TOLD.decode(told if told.startswith(b"{") else _data(told.partition(b"\n\n")[0]))
    except UNREADABLE:
        return ""
    return found.id if found.response is None else found.response.id


class LatestResponse:
    """The response object of a stream as it stands: `tell` is for `numbering.Replay`, and tells nothing; `body` is that
    of the newest event that has one, b"" before. It is final in ``response.completed`` and its like."""

    def __init__(self) -> None:
        self.body = b""

    def tell(self, _number: int, block: bytes) -> bytes:
        """One event, without its blank line."""
        data = _data(block)
        if b'"response"' in data:
            with suppress(*UNREADABLE):
                found = _HOLDING.decode(data)
                if found.response is not ABSENT and found.type.startswith("response."):
                    self.body = bytes(found.response)
        return b""


def broken_off(body: bytes) -> bytes:
    """A response object whose stream ended without saying how: it has failed, where it says that it goes on."""
    members = loads(body)
    if not isinstance(members, dict) or members.get("status") not in ("in_progress", "queued"):
        return body
    error = {"code": "server_error", "message": "The answer broke off before its end."}
    return msgspec.json.encode(members | {"status": "failed", "error": error})


def _data(block: bytes) -> bytes:
    return b"\n".join(line[6:] for line in block.split(b"\n") if line.startswith(b"data: "))
