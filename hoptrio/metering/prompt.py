"""How many tokens a request is, where its provider does not say: an estimate, and told as one. Pure.

Words are counted by the tokenizer; what no tokenizer can read has a flat figure. The words beyond
`limits.ASKED_BYTES_MAX` are taken to be like those before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hoptrio.limits import ASKED_BYTES_MAX, ATTACHMENT_TOKENS, TURN_TOKENS
from hoptrio.metering.tokens import count_tokens
from hoptrio.protocols.texts import asked, attachments, turns

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["prompt_tokens"]


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """The tokens of a parsed request in any protocol: instructions, turns and tools, images and documents."""
    texts = list(asked(body))
    size = sum(map(len, texts))
    tokens = count_tokens(list(_first(texts, ASKED_BYTES_MAX)))
    if size > ASKED_BYTES_MAX:
        tokens = -(-tokens * size // ASKED_BYTES_MAX)
    return tokens + TURN_TOKENS * turns(body) + ATTACHMENT_TOKENS * attachments(body)


def _first(texts: list[str], room: int) -> list[str]:
    """The first `room` characters."""
    kept = []
    for text in texts:
        kept.append(text[:room])
        room -= len(kept[-1])
    return kept
