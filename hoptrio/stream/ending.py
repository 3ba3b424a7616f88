"""What the client is told at the end: its terminal, a status, an error event, an abort. Pure.

The rows are `contract.ENDS`, refined by the contract's `failure`: `event` ends cleanly after an error event,
`event_abort` aborts after it so that every SDK raises, `truncate` aborts and says nothing. The JSON array form can
only be aborted, since its error is an element like any other (contract page, "Error events").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hoptrio import errors
from hoptrio.contract import ENDS, Contract, Failure, Reason, Told
from hoptrio.protocols.events import Framing

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ending", "ending", "error_for"]


class Ending(NamedTuple):
    """The steps that are left. With `status` the client gets a real HTTP status and nothing else applies."""

    status: bool
    #: Write what was held back.
    tail: bool
    #: Write our own error event.
    event: bool
    #: End the body as its framing does; else abort.
    clean: bool


STATUS = Ending(status=True, tail=False, event=False, clean=True)
TERMINAL = Ending(status=False, tail=True, event=False, clean=True)
CUT = Ending(status=False, tail=False, event=False, clean=False)


def ending(
    contract: Contract, reason: Reason | None, *, settled: bool, head_written: bool, framing: Framing, tail: bool
) -> Ending:
    """Decide the end of a stream.

    `settled`: the resolution is durable; without that no terminal is ever shown. `tail`: something is held back.
    """
    told = ENDS[reason].told if settled else Told.FAILURE
    truncate = contract.failure == "truncate"
    if told is Told.TERMINAL or (told is Told.TERMINAL_UNLESS_TRUNCATE and not truncate):
        return TERMINAL
    if not head_written:
        return STATUS
    if truncate or told is Told.BROKEN:
        return CUT
    provider_event = told is Told.PROVIDER_EVENT and tail
    return Ending(status=False, tail=provider_event, event=not provider_event, clean=_clean(contract.failure, framing))


def _clean(failure: Failure, framing: Framing) -> bool:
    return failure == "event" and framing is not Framing.JSON_ARRAY


_ERRORS: dict[Reason, Callable[[], errors.HoptrioError]] = {
    Reason.NO_EVIDENCE: lambda: errors.UpstreamFailed("The provider's answer carried no usage, so it cannot be sold."),
    Reason.NOT_DISPATCHED: lambda: errors.UpstreamFailed("Nothing was sent: the client had closed its side."),
    Reason.PROVIDER_ERROR: lambda: errors.UpstreamFailed("The provider failed."),
    Reason.HEADER_TIMEOUT: lambda: errors.UpstreamTimeout("The provider did not begin to answer in time."),
    Reason.TRUNCATED: lambda: errors.UpstreamFailed("The provider's answer broke off before its end."),
    Reason.STALLED: lambda: errors.UpstreamTimeout("The model made no progress for too long."),
    Reason.DEADLINE: lambda: errors.UpstreamTimeout("The answer was not complete by the deadline."),
    Reason.INTERNAL: lambda: errors.Internal("The gateway failed."),
    Reason.EVENT_TOO_LARGE: lambda: errors.UpstreamFailed("The provider sent an event beyond the size limit."),
    Reason.UNCONVERTIBLE: lambda: errors.UpstreamFailed("The provider's answer cannot be expressed in this protocol."),
    Reason.SHUTDOWN: lambda: errors.Draining("The gateway is shutting down."),
    Reason.ORPHANED: lambda: errors.Internal("The gateway stopped."),
}


def error_for(reason: Reason | None) -> errors.HoptrioError:
    """The error that an end becomes for a client; None (complete, but not settled) is the ledger's."""
    if reason is None:
        return errors.LedgerUnavailable("The answer could not be settled.")
    return _ERRORS[reason]()
