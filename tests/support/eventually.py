"""Eventually: what other processes do has no other way to be awaited than to look again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["eventually"]

#: However busy the machine is.
_WITHIN_S = 45.0
_POLL_S = 0.02


def eventually(true: Callable[[], object]) -> None:
    """Until `true()`."""
    deadline = time.monotonic() + _WITHIN_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(_POLL_S)
