"""What people type into a form, as values. Pure; raises ValueError with words for the person who typed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hoptrio import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["at_ms", "count", "names", "note", "text"]

#: The largest whole number that a limit may be.
_COUNT_MAX = 2**31 - 1


def text(form: Mapping[str, str] | None, name: str) -> str:
    """A field without the white space around it, "" if it is not there."""
    return "" if form is None else form.get(name, "").strip()


def note(form: Mapping[str, str], name: str) -> str:
    """Words that are kept with a change."""
    given = text(form, name)
    if len(given) > limits.CONTROL_WHY_CHARS_MAX:
        raise ValueError(f"a note has at most {limits.CONTROL_WHY_CHARS_MAX} characters")
    return given


def count(form: Mapping[str, str], name: str, words: str) -> int | None:
    """A whole number of at least 1, None if the field is empty. `words` name the field."""
    given = text(form, name)
    if not given:
        return None
    if not (given.isascii() and given.isdecimal()) or not 1 <= int(given[:20]) <= _COUNT_MAX:
        raise ValueError(f"{words}: a whole number of at least 1 is needed")
    return int(given)


def names(form: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(each.strip() for each in text(form, name).split(",") if each.strip())


def at_ms(form: Mapping[str, str], name: str, words: str) -> int | None:
    """A moment in UTC, as a browser's field for one has it (``2026-11-30T10:00``); None if the field is empty."""
    given = text(form, name)
    if not given:
        return None
    try:
        at = datetime.fromisoformat(given)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(f"{words}: a date and a time such as 2026-11-30T10:00 are needed") from None
