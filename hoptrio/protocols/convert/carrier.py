"""A provider's opaque reasoning token inside another protocol's opaque slot (protocols page 9.8). Pure.

Anthropic's ``signature``, OpenAI's ``encrypted_content`` and Gemini's ``thoughtSignature`` only mean something to the
family that made them, and the client returns whatever stands in its own slot unread. So a foreign token travels there
in a box that names its family, and is taken out only for a channel of that family; anything else is dropped. The box
is base64, because Gemini's SDKs decode that slot to bytes and encode it again, in either of the two alphabets.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from hoptrio.protocols.events import Protocol  # noqa: TC001 -- msgspec reads the annotation

__all__ = ["BOXED", "Carried", "pack", "unpack"]

#: The version stands inside, so that a later form can be told apart.
_MARK = b"hoptrio1:"
#: What every box begins with: the mark has nine bytes, a multiple of three, so its base64 stands alone.
BOXED = base64.b64encode(_MARK).decode()
_FROM_URLSAFE = str.maketrans("-_", "+/")


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """One token. `text` is what it was made for, where the client's slot does not hold that text verbatim."""

    family: Protocol
    token: str
    text: str | None = None
    #: Messages: it is the ``data`` of a ``redacted_thinking`` block.
    redacted: bool = False


_decoder = msgspec.json.Decoder(Carried)


def pack(carried: Carried) -> str:
    """The box, fit for any of the slots."""
    return base64.b64encode(_MARK + msgspec.json.encode(carried)).decode("ascii")


def unpack(value: object) -> Carried | None:
    """What is in the box; None for anything that is none of ours."""
    if type(value) is not str or not value.startswith(BOXED):
        return None
    padded = value.translate(_FROM_URLSAFE).rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
    try:
        return _decoder.decode(base64.b64decode(padded, validate=True)[len(_MARK) :])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return None
