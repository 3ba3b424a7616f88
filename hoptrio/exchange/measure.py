"""What an interrupted answer has cost so far: the provider's own numbers, and measured text for those it did not send.

Contract, "Charge produced". A reported number always stands; output said after the last report is added to it. Text of
some size is measured in a thread, and for a bounded time: what cannot be measured by then is not charged.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio
from msgspec.structs import replace

from hoptrio import limits
from hoptrio.metering.tokens import count_tokens
from hoptrio.protocols.events import Counts
from hoptrio.protocols.texts import asked, token_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Measured", "measure"]


class Measured(NamedTuple):
    """Counts with an input and an output, and whether any of them is an estimate."""

    counts: Counts
    estimated: bool


async def measure(
    reported: Counts | None, produced: Sequence[str], request: Mapping[str, Any], request_bytes: int
) -> Measured | None:
    """Complete what was `reported` by the text `produced` since, and by that of the `request`, whose size bounds the
    work. None if the input is not known and cannot be measured in time."""
    known = reported or Counts()
    size = sum(map(len, produced)) + (request_bytes if known.input is None else 0)
    work = partial(_complete, known, produced, request)
    if size <= limits.MEASURE_INLINE_BYTES_MAX:
        return work()
    with trio.move_on_after(limits.MEASURE_S):
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    return None if known.input is None else Measured(replace(known, output=known.output or 0), estimated=False)


def _complete(known: Counts, produced: Sequence[str], request: Mapping[str, Any]) -> Measured:
    said = count_tokens(produced) if produced else 0
    read = count_tokens(list(_bounded(asked(request)))) + token_ids(request) if known.input is None else 0
    output = (known.output or 0) + said
    completed = replace(
        known,
        input=read if known.input is None else known.input,
        output=output,
        total=None if known.total is None or known.input is None else known.total + said,
    )
    return Measured(completed, estimated=bool(produced) or known.input is None or known.output is None)


def _bounded(texts: Iterable[str]) -> Iterator[str]:
    room = limits.ASKED_BYTES_MAX
    for text in texts:
        if room <= 0:
            return
        yield text[:room]
        room -= len(text)
