"""The cases: every fault of the collection, tried or named with the reason why it cannot be.

`keepalives`, `stalls`, `breaks` (truncation and error events), `departures` (clients that leave), `usage`, `parsing`,
`bodies` (tool calls, sizes, what a proxy must not do), and `unseen`.
"""

from __future__ import annotations

from hoptrio.conform.cases.bodies import BODIES
from hoptrio.conform.cases.breaks import BREAKS
from hoptrio.conform.cases.departures import DEPARTURES
from hoptrio.conform.cases.keepalives import KEEPALIVES
from hoptrio.conform.cases.parsing import PARSING
from hoptrio.conform.cases.stalls import STALLS
from hoptrio.conform.cases.unseen import UNSEEN
from hoptrio.conform.cases.usage import USAGE

__all__ = ["CASES", "UNSEEN"]

CASES = tuple(
    sorted(
        (*KEEPALIVES, *STALLS, *BREAKS, *DEPARTURES, *USAGE, *PARSING, *BODIES),
        key=lambda case: case.number,
    )
)
