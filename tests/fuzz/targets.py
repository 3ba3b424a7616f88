"""What is fuzzed, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz import answers, calls, edge, splitter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CORPUS", "TARGETS", "Target"]

CORPUS = Path(__file__).parent / "corpus"


class Target(NamedTuple):
    """`one` raises where `invariant` does not hold for its bytes."""

    one: Callable[[bytes], None]
    invariant: str
    seeds: Sequence[bytes]


TARGETS = {
    name: Target(module.one, module.INVARIANT, module.SEEDS)
    for name, module in {"splitter": splitter, "calls": calls, "answers": answers, "edge": edge}.items()
}
