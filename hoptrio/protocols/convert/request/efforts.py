"""Reasoning effort in words against a thinking budget in tokens (protocols page 9.2 and 9.3). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.convert.request.conversation import ADAPTIVE

if TYPE_CHECKING:
    from hoptrio.protocols.convert.request.conversation import Thinking

__all__ = ["budget_of", "effort_of"]

#: As Google's own OpenAI-compatible endpoint reads them; the last is the most that every Gemini model takes.
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
_BUDGET_MAX = max(_BUDGETS.values())
_LOW_MAX = 4096
_MEDIUM_MAX = 16384


def effort_of(thinking: Thinking) -> str:
    """The effort that OpenAI's protocols know; "" = the model's default."""
    if thinking.effort or thinking.budget_tokens in (None, ADAPTIVE):
        return thinking.effort
    if thinking.budget_tokens <= 0:
        return "none"
    if thinking.budget_tokens <= _LOW_MAX:
        return "low"
    return "medium" if thinking.budget_tokens <= _MEDIUM_MAX else "high"


def budget_of(thinking: Thinking) -> int | None:
    """Gemini's ``thinkingBudget``; None = the model's default."""
    if thinking.budget_tokens is not None and not thinking.effort:
        return min(thinking.budget_tokens, _BUDGET_MAX)
    return _BUDGETS.get(thinking.effort)
