"""How many tokens a text is, by a real tokenizer. Pure; used only where a provider did not say.

OpenAI's ``o200k_base`` stands for every model: vocabularies of other makers are not public, or differ from model to
model. So the figure is an estimate, and a charge by it says so. The vocabulary is inside the library: nothing is
fetched. Its first use takes 0.3 s and 65 MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["count_tokens", "load"]

_ENCODING = "o200k_base"


def load() -> None:
    """Do the first use now: it holds the GIL, so that a loop in another thread would stand for as long."""
    count_tokens([""])


def count_tokens(texts: Sequence[str]) -> int:
    """The tokens of all `texts`, each by itself. Linear in their size: 10 MB/s at worst, and without the GIL."""
    import toktok  # not at the top: most gateways never measure anything, and the vocabulary is large

    return sum(toktok.batch_count(texts, _ENCODING, threads=1))
