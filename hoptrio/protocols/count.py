"""Counting the tokens of a request before it is made: what each protocol that has a call for it implements. Sans-IO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

from hoptrio.limits import TOKENS_MAX
from hoptrio.protocols.body import encode_object
from hoptrio.protocols.members import loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.events import Call

__all__ = ["Counting", "counted", "read_count"]


class Counting(Interface):
    """One protocol's call. The official SDKs take the member ``estimated`` of an answer for one they do not know."""

    def parse(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
        """Read a client's request, as `rules.Rules.parse`; `Call.body` is what is to be counted."""

    def encode(self, call: Call, *, model: str, drop_unknown: bool) -> bytes:
        """The upstream body, with the channel's own name for the model."""

    def path(self, call: Call, model: str) -> str:
        """The path behind the channel's base URL."""

    def read(self, body: bytes) -> int | None:
        """The tokens that a provider's 2xx body tells; None if it tells none. Never raises."""

    def answer(self, tokens: int) -> bytes:
        """A body of our own, marked as an estimate."""


def read_count(body: bytes, member: str) -> int | None:
    """The count under `member` of a JSON object, if it is one."""
    value = loads(body)
    count = value.get(member) if isinstance(value, dict) else None
    return count if type(count) is int and 0 <= count <= TOKENS_MAX else None


def counted(members: dict[str, Any]) -> bytes:
    """The body of an estimate."""
    return encode_object({**members, "estimated": True})
