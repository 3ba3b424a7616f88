"""Again: requests that were made a second time under their Idempotency-Key, in the accounts of a run. Pure.

A retry joins its original and is no request of its own. Where the original was released, as when its process was
killed, the retry is a new one, and what the client saw in the end is that one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.books import Line
    from bench.provider import Served

__all__ = ["Told", "with_second_requests"]


class Told(NamedTuple):
    """One line and one dispatch for each stream, and what there is too much of."""

    lines: tuple[Line, ...]
    served: tuple[Served, ...]
    wrong: tuple[str, ...]


def with_second_requests(lines: Iterable[Line], again: Iterable[Line], served: Iterable[Served]) -> Told:
    """A second request that came to something stands for its stream, if the first came to nothing."""
    known = {line.number: line for line in lines}
    dispatched = list(served)
    wrong = []
    for line in again:
        if line.state == "refused":
            continue
        first = known.get(line.number)
        if first is None or first.state != "released":
            wrong.append(f"stream {line.number}: asked for again while the first was {first and first.state}")
        these = [each for each in dispatched if each.number == line.number]
        if len(these) > 1:
            dispatched.remove(these[0])
        known[line.number] = line
    return Told(tuple(known.values()), tuple(dispatched), tuple(wrong))
