"""Everything the control plane can do, one file for each thing that it is done to; `OPERATIONS` has them all."""

from __future__ import annotations

from typing import Any

from hoptrio.control.operation import Operation
from hoptrio.control.operations import accounts, channels, keys, ledger, now, requests, setup

__all__ = ["OPERATIONS"]

#: In the order of the reference page.
OPERATIONS: tuple[Operation[Any, Any], ...] = tuple(
    each
    for module in (now, accounts, keys, requests, ledger, channels, setup)
    for each in vars(module).values()
    if isinstance(each, Operation)
)
