"""What happened to a stream, as values: how reading it ended (`Ended`) and all the ledger needs to know (`Outcome`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.events import Counts, ProviderError
    from hoptrio.upstream.answer import Answer, Unreached

__all__ = ["Ended", "Outcome"]


class Ended(NamedTuple):
    """How the provider's side ended."""

    #: None: complete, with valid evidence.
    reason: Reason | None
    #: Held back until the hold is resolved: a stream's terminal or the provider's error events, or a whole body.
    tail: bytes = b""
    #: What to tell a client whose status is not out; None = the reason's own error (`stream.ending`).
    error: HoptrioError | None = None
    #: What the provider said or did, where it was more than the reason says; for whoever judges the channel by it.
    cause: ProviderError | Unreached | None = None


class Outcome(NamedTuple):
    """What a hold is resolved by."""

    reason: Reason | None
    #: Usage as the provider reported it, whether or not the reason lets it count.
    counts: Counts | None
    #: The provider's numbers so far, evidence or not.
    reported: Counts | None
    #: What the answer said since it last reported its output; gathered only where the contract charges it.
    produced: tuple[str, ...]
    #: Some part of the model's answer was read.
    answered: bool
    #: Ids in the answer that this account may refer to later.
    provider_ids: tuple[str, ...]
    #: ((seconds since the request came, event), ...)
    timeline: tuple[tuple[float, str], ...]
    #: Requests that left for a provider.
    attempts: int
    #: The channel that was asked last, and so produced whatever evidence there is.
    channel: str
    answer: Answer | None = None
