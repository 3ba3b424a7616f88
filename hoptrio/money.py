"""Amounts: integers in billionths of the currency unit ("nanos"), and their decimal text. Pure; no float anywhere.

The rounding rule of the contract: a charge is rounded up to a billionth once per request (`ceil_div`), a supplier's
share is rounded down (`share_nanos`), so parts never add up to more than the whole.
"""

from __future__ import annotations

import re

__all__ = ["BALANCE_NANOS_MAX", "NANOS", "NANOS_MAX", "ceil_div", "format_nanos", "parse_nanos", "share_nanos"]

NANOS = 10**9
#: Amounts fit a signed 64-bit integer in both databases, with room to add up a thousand of the largest.
NANOS_MAX = 2**63 // 1024
#: What deposits and corrections may bring a balance to; a supplier's shares may still come on top of it.
BALANCE_NANOS_MAX = 1000 * NANOS_MAX

_DECIMAL = re.compile(r"(-?)([0-9]{1,15})(?:\.([0-9]{1,9}))?", re.ASCII)


def parse_nanos(text: str) -> int:
    """Read a decimal string such as ``"0.128"`` into billionths.

    Raises ValueError for an exponent, more than nine decimals, white space, or an amount beyond `NANOS_MAX`.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a decimal amount with at most nine decimals")
    sign, whole, decimals = match.groups()
    nanos = int(whole) * NANOS + int((decimals or "").ljust(9, "0"))
    if nanos > NANOS_MAX:
        raise ValueError(f"{text!r} is too large")
    return -nanos if sign else nanos


def format_nanos(nanos: int) -> str:
    """Write billionths as a decimal string without exponent or trailing zeros: ``128000000`` -> ``"0.128"``."""
    whole, decimals = divmod(abs(nanos), NANOS)
    text = f"{whole}.{decimals:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if nanos < 0 else text


def ceil_div(numerator: int, denominator: int) -> int:
    """The smallest integer at or above numerator / denominator (denominator > 0)."""
    return -(-numerator // denominator)


def share_nanos(amount_nanos: int, share_nanos: int) -> int:
    """A supplier's part of an amount, rounded down; `share_nanos` is the share in billionths (0.80 = 800000000)."""
    return amount_nanos * share_nanos // NANOS
