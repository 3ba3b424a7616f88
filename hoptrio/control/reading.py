"""What was asked, as the ledger takes it: amounts, moments, and the ledger's word for a value that is wrong. Pure."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from hoptrio.errors import BadRequest
from hoptrio.ledger.report import iso_ms
from hoptrio.money import parse_nanos

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["amount", "checked", "milliseconds", "to_come"]


def amount(text: str) -> int:
    """A decimal amount in billionths. Raises ValueError for one that is negative or none."""
    nanos = parse_nanos(text)
    if nanos < 0:
        raise ValueError(f"{text} is negative")
    return nanos


def milliseconds(moment: str | None) -> int | None:
    """A moment as RFC 3339 writes it, in milliseconds since 1970. Raises BadRequest for one that there is not."""
    if moment is None:
        return None
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadRequest(f"There is no {moment}.") from None


def to_come(moment_ms: int | None, now_ms: int) -> int | None:
    """A moment at which a key is to end, in milliseconds since 1970. Raises ValueError for one that is over, which is
    a slip: the key would be refused from its first request on."""
    if moment_ms is not None and moment_ms <= now_ms:
        raise ValueError(f"{iso_ms(moment_ms)} is over: a key that expires then could never be used")
    return moment_ms


@contextmanager
def checked() -> Iterator[None]:
    """A ValueError is what the caller asked for: raises BadRequest instead."""
    try:
        yield
    except ValueError as error:
        raise BadRequest(str(error)) from None
