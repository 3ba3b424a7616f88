"""Chains: answers of one connection that a later turn may continue, kept as the input that would bring them about.

``previous_response_id`` is answered from here, also where nothing is stored anywhere (``store: false``): the turn goes
upstream with the whole conversation as its input, to whatever channel. A link holds what its own turn added and points
to the one before, so a conversation is kept once, however many of its answers could be continued. All is bytes as they
came. What is dropped for want of room is missed only as `previous_response_not_found`, upon which clients send the
conversation again. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hoptrio import limits
from hoptrio.errors import BadRequest, BodyTooLarge
from hoptrio.protocols.members import UNREADABLE, is_filled, split_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Budget", "Chains", "Link", "body_with", "items_of", "output_of"]

_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class _Share:
    """One account's part of a budget."""

    __slots__ = ("bytes", "used")

    def __init__(self) -> None:
        self.bytes = 0
        #: Its answers on all connections, the one used longest ago first; a dictionary for the order.
        self.used: dict[tuple[Chains, str], None] = {}


class Budget:
    """What all chains of a process weigh. Beyond the bound the account that has most loses what it used longest ago, so
    that none can take the room of the others."""

    def __init__(self, bytes_max: int = limits.CHAINS_TOTAL_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        #: By account, those that have any answer.
        self._shares: dict[str, _Share] = {}

    def used(self, account_id: str, chains: Chains, response_id: str) -> None:
        """An answer was kept, or is continued."""
        used = self._shares.setdefault(account_id, _Share()).used
        used.pop((chains, response_id), None)
        used[chains, response_id] = None

    def weigh(self, account_id: str, size: int) -> None:
        """So much was kept, or dropped if it is negative, of an account that has an answer."""
        self._shares[account_id].bytes += size
        self.bytes += size

    def forgot(self, account_id: str, chains: Chains, response_id: str) -> None:
        """An answer was dropped, and its weight told."""
        share = self._shares[account_id]
        del share.used[chains, response_id]
        if not share.used:
            del self._shares[account_id]

    def relieve(self) -> None:
        """Drop what is too much."""
        while self.bytes > self.bytes_max:
            heaviest = max(self._shares.values(), key=lambda share: share.bytes)
            chains, response_id = next(iter(heaviest.used))
            chains.evict(response_id)


class Link:
    """One turn's own items: its input and, behind it, its output, joined by commas."""

    __slots__ = ("base", "items", "lane", "parent", "uses")

    def __init__(self, parent: Link | None, lane: str, items: bytes, base: str) -> None:
        """`base`: the answer at a provider that the first link continues, "" if there is none."""
        self.parent = parent
        self.lane = lane
        self.items = items
        self.base: str = parent.base if parent is not None else base
        #: Ids and links that point here.
        self.uses = 0

    def pieces(self) -> list[bytes]:
        """The items of the whole chain, oldest first."""
        found: list[bytes] = []
        link: Link | None = self
        while link is not None:
            found.append(link.items)
            link = link.parent
        return [piece for piece in reversed(found) if piece]


class Chains:
    """The links of one connection, by the ids of their answers; those used longest ago are dropped first."""

    def __init__(self, budget: Budget, account_id: str) -> None:
        self._budget = budget
        self._account_id = account_id
        self._links: dict[str, Link] = {}
        #: What all links weigh that an id leads to.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._links)

    def find(self, response_id: str) -> Link | None:
        """The link of an answer, which is then the one used last."""
        link = self._links.pop(response_id, None)
        if link is not None:
            self._links[response_id] = link
            self._budget.used(self._account_id, self, response_id)
        return link

    def keep(self, response_id: str, link: Link) -> None:
        """An answer has come to its end."""
        self.evict(response_id)
        self._links[response_id] = link
        self._budget.used(self._account_id, self, response_id)
        self._use(link)
        while self._links and self._is_over():
            self.evict(next(iter(self._links)))
        self._budget.relieve()

    def evict(self, response_id: str) -> None:
        """Forget an answer; what others continue of it stays."""
        link = self._links.pop(response_id, None)
        if link is not None:
            self._unuse(link)
            self._budget.forgot(self._account_id, self, response_id)

    def close(self) -> None:
        """The connection is over."""
        for response_id in list(self._links):
            self.evict(response_id)

    def _is_over(self) -> bool:
        return len(self._links) > limits.CHAINS_MAX or self.bytes > limits.CHAINS_BYTES_MAX

    def _use(self, link: Link | None) -> None:
        while link is not None:
            link.uses += 1
            if link.uses > 1:
                return
            self._weigh(len(link.items))
            link = link.parent

    def _unuse(self, link: Link | None) -> None:
        while link is not None:
            link.uses -= 1
            if link.uses:
                return
            self._weigh(-len(link.items))
            link = link.parent

    def _weigh(self, size: int) -> None:
        self.bytes += size
        self._budget.weigh(self._account_id, size)


def body_with(body: Mapping[str, msgspec.Raw], link: Link | None) -> tuple[bytes, bytes]:
    """The body of a POST for a turn that continues `link`, and the items that the turn itself adds to it.

    Raises BadRequest for an input that is neither a text nor a list, BodyTooLarge beyond a POST's bound.
    """
    own = _own_items(body.get("input", msgspec.Raw(b"null")))
    members = dict(body)
    if link is not None:
        pieces = link.pieces()
        members["input"] = msgspec.Raw(b"[" + b",".join([*pieces, own] if own else pieces) + b"]")
        del members["previous_response_id"]
        if link.base:
            members["previous_response_id"] = msgspec.Raw(msgspec.json.encode(link.base))
    whole = msgspec.json.encode(members)
    if len(whole) > limits.BODY_BYTES_MAX:
        raise BodyTooLarge(f"The turn and what it continues have more than {limits.BODY_BYTES_MAX} bytes.")
    return whole, own


def _own_items(value: msgspec.Raw) -> bytes:
    text = bytes(value).strip()
    if text.startswith(b'"'):
        return b'{"type":"message","role":"user","content":' + text + b"}"
    if text.startswith(b"["):
        return text[1:-1].strip()
    if text != b"null":
        raise BadRequest("'input' must be a string or an array.", param="input", code="invalid_type")
    return b""


def items_of(output: Iterable[msgspec.Raw]) -> bytes:
    """Items of an answer as input of the next turn.

    Reasoning that has neither text nor state could only be looked up at its provider, and was not if nothing is stored;
    it is left out, and the ids of what it led to with it, since a provider misses the one beside the other.
    """
    items = [split_members(item) for item in output]
    kept = [item for item in items if not _is_hollow(item)]
    if len(kept) < len(items):
        for item in kept:
            item.pop("id", None)
    return b",".join(msgspec.json.encode(item) for item in kept if item)


def _is_hollow(item: Mapping[str, msgspec.Raw]) -> bool:
    if item.get("type") != msgspec.Raw(b'"reasoning"'):
        return False
    return not any(is_filled(item.get(name, msgspec.Raw(b""))) for name in ("encrypted_content", "content"))


def output_of(response: msgspec.Raw) -> tuple[str, list[msgspec.Raw]]:
    """The id and the output of a response object as received; "" and nothing if it cannot be read."""
    members = split_members(response)
    try:
        return msgspec.json.decode(members.get("id", b'""'), type=str), _ITEMS.decode(members.get("output", b"[]"))
    except UNREADABLE:
        return "", []
