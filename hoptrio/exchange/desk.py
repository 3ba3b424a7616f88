"""The money of one request: what is held, and what the hold becomes. Implements `stream.ports.Desk`.

Everything a charge depends on is pinned here before the dispatch: the price tables, the bounds, the supplier's share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from hoptrio import errors
from hoptrio.contract import ENDS, Money, Reason
from hoptrio.exchange.figures import figures
from hoptrio.exchange.measure import Measured, measure
from hoptrio.ledger.model import Claimed, Hold, HoldRefusal, HoldRefused, Resolution, Terms
from hoptrio.metering.charge import Bounds, charge
from hoptrio.metering.evidence import usage
from hoptrio.metering.price import PriceTables, pin
from hoptrio.metering.report import usage_json
from hoptrio.money import format_nanos
from hoptrio.protocols.events import Operation
from hoptrio.stream.ports import Elsewhere
from hoptrio.stream.verdict import verdict
from hoptrio.telemetry.tally import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hoptrio.admission.gate import Admitted, Candidate
    from hoptrio.contract import Contract
    from hoptrio.errors import HoptrioError
    from hoptrio.exchange.gateway import Gateway
    from hoptrio.ledger.model import ApiKey, Claim, RequestRecord
    from hoptrio.metering.charge import Charge
    from hoptrio.metering.evidence import Usage
    from hoptrio.protocols.events import Call
    from hoptrio.stream.outcome import Outcome
    from hoptrio.telemetry.tally import Meter

__all__ = ["Desk"]

log = structlog.get_logger("hoptrio.exchange")


class Desk:
    """Places and resolves the hold of `record`'s request."""

    def __init__(
        self,
        gateway: Gateway,
        key: ApiKey,
        record: RequestRecord,
        call: Call,
        contract: Contract,
        admitted: Admitted,
        meter: Meter,
        *,
        show: Callable[[Sequence[tuple[bytes, bytes]]], None],
        claim: Claim | None = None,
    ) -> None:
        """`show` is given the headers that tell what was held and what is left. Of the requests with one `claim` one is
        made."""
        self._gateway = gateway
        self._ledger = gateway.ledger
        self._key = key
        self._record = record
        self._call = call
        self._contract = contract
        self._admitted = admitted
        self._meter = meter
        self._show = show
        self._claim = claim
        #: The request that stands for this one, once `place` has said so.
        self.claimed: Claimed | None = None
        #: The record of the settlement and whether it was durable in time, once there is one.
        self.settlement: tuple[RequestRecord, bool] | None = None
        self._hold_id = "hold_" + record.id.removeprefix("req_")

    @property
    def spoken(self) -> str:
        """The protocol in which the channel of the settlement was asked."""
        channel = None if self.settlement is None else self.settlement[0].channel
        return self._candidate(channel).call.protocol if channel else self._call.protocol

    async def place(self) -> HoptrioError | Elsewhere | None:
        """Freeze the quote."""
        amount_nanos = self._admitted.quote.hold_nanos
        channel = self._admitted.candidates[0].channel
        self._record = msgspec.structs.replace(
            self._record, state="running", hold_nanos=amount_nanos, channel=channel.name
        )
        hold = Hold(
            id=self._hold_id,
            request=self._record,
            amount_nanos=amount_nanos,
            prices=pin(self._admitted.model.prices, self._admitted.model.tiers),
            owner=self._ledger.owner or "",
            supplier=channel.supplier,
            revenue_share_nanos=channel.revenue_share_nanos,
            claim=self._claim,
        )
        asked_at_s = trio.current_time()
        try:
            placed = await self._ledger.place(hold)
        except errors.LedgerUnavailable as error:
            self._meter.tally.refused(self._call.protocol, error.code)
            return error
        self._meter.tally.holds.observe(trio.current_time() - asked_at_s)
        if isinstance(placed, Claimed):
            self.claimed = placed
            return Elsewhere.JOINED
        if not isinstance(placed, HoldRefused):
            self._show(figures(self._call.protocol, self._key, amount_nanos, placed))
            return None
        refusal = self._refusal(placed, amount_nanos)
        self._meter.tally.refused(self._call.protocol, refusal.code)
        self._gateway.refusals.keep(self._record, refusal)
        return refusal

    async def settle(self, outcome: Outcome) -> bool:
        """Capture by the evidence, or by what was produced, or release."""
        try:
            resolution = self._resolution(outcome, await self._produced(outcome))
        except Exception as error:
            # A bug in the reckoning must not leave the hold open: nothing proven, nothing charged.
            log.error("settlement failed", request=self._record.id, error=type(error).__name__, exc_info=error)
            resolution = self._released(self._record, Reason.INTERNAL)
        asked_at_s = trio.current_time()
        settled = await self._ledger.settle(resolution) is not None
        self._meter.tally.settlements.observe(trio.current_time() - asked_at_s)
        record = resolution.request
        self.settlement = record, settled
        self._meter.settled(
            record.reason or COMPLETE, resolution.capture_nanos, record.flags, answered=outcome.answered
        )
        self._gateway.suspicion.saw(resolution.request, self._candidate(outcome.channel).call.protocol)
        if outcome.answered:
            channel, captured = resolution.request.channel or "", resolution.capture_nanos is not None
            self._gateway.released.ended(self._key.id, self._call.model, channel, outcome.reason, captured=captured)
        return settled

    async def _produced(self, outcome: Outcome) -> Measured | None:
        """What an answer that did not end well is charged by, where the contract charges it; None = nothing."""
        produced = ENDS[outcome.reason].money(self._contract.interrupted) is Money.PRODUCED
        if not produced or not outcome.answered:
            return None
        asked = self._candidate(outcome.channel)
        return await measure(outcome.reported, outcome.produced, asked.call.body, len(asked.body))

    def _resolution(self, outcome: Outcome, measured: Measured | None) -> Resolution:
        counts, estimated = (outcome.counts, False) if measured is None else measured
        counted = None
        if counts is not None:
            # Evidence is read in the channel's own protocol, whatever the client's is. Output that was only measured as
            # zero (an image, hidden reasoning) casts no doubt on the provider, nor does that of embeddings.
            spoken = self._candidate(outcome.channel).call.protocol
            said = outcome.answered and not estimated and self._call.operation != Operation.EMBEDDINGS
            counted = usage(counts, spoken, answered=said)
        judged = verdict(
            self._contract,
            outcome.reason,
            counted=counted is not None,
            answered=outcome.answered,
            estimated=estimated,
            stream=self._call.stream,
        )
        record = msgspec.structs.replace(
            self._record,
            reason=outcome.reason,
            evidence=judged.evidence,
            raw_usage="" if counts is None else counts.raw.decode("utf-8", "replace"),
            attempts=outcome.attempts,
            timeline=_milliseconds(outcome.timeline),
            provider_ids=outcome.provider_ids,
            channel=outcome.channel,
        )
        if not judged.capture or counted is None:
            return self._released(record, outcome.reason)
        due = self._charge(counted)
        captured = msgspec.structs.replace(
            record,
            state="captured",
            charge_nanos=due.amount_nanos,
            usage=usage_json(counted),
            flags=due.flags,
        )
        return Resolution(
            hold_id=self._hold_id,
            capture_nanos=due.amount_nanos,
            request=captured,
            terms=self._terms(outcome.channel),
        )

    def _terms(self, name: str) -> Terms:
        """The supplier is the one of the channel that produced the evidence, which an attempt may have changed."""
        channel = self._candidate(name).channel
        return Terms(channel.supplier, channel.revenue_share_nanos)

    def _candidate(self, name: str) -> Candidate:
        return next(each for each in self._admitted.candidates if each.channel.name == name)

    def _released(self, record: RequestRecord, reason: Reason | None) -> Resolution:
        released = msgspec.structs.replace(record, state="released", reason=reason, charge_nanos=0)
        return Resolution(hold_id=self._hold_id, capture_nanos=None, request=released)

    def _charge(self, counted: Usage) -> Charge:
        model, quote = self._admitted.model, self._admitted.quote
        bounds = Bounds(
            input_tokens=quote.input_bound,
            output_tokens=quote.output_bound,
            hold_nanos=quote.hold_nanos,
            tool_calls=quote.tool_bounds,
            images=quote.image_bound,
        )
        return charge(counted, PriceTables(model.prices, model.tiers), bounds)

    def _refusal(self, refused: HoldRefused, amount_nanos: int) -> HoptrioError:
        why = refused.why
        if why in (HoldRefusal.KEY_REVOKED, HoldRefusal.KEY_EXPIRED, HoldRefusal.ACCOUNT_DISABLED):
            return errors.InvalidKey("This API key is no longer valid.")
        if why is HoldRefusal.MAX_STREAMS:
            return errors.LimitExceeded("This key runs as many streams at once as it may.", retry_after_s=1)
        if why is HoldRefusal.RATE:
            return self._gateway.rates.full(self._key, self._call.protocol, refused.wait_ms)
        what = "the key's budget" if why is HoldRefusal.BUDGET else "the balance"
        needed, there = format_nanos(amount_nanos), format_nanos(refused.available_nanos)
        currency = self._gateway.currency
        return errors.InsufficientBalance(
            f"This request needs a hold of {needed} {currency}, and {there} {currency} of {what} is there."
        )


def _milliseconds(timeline: Sequence[tuple[float, str]]) -> tuple[tuple[int, str], ...]:
    return tuple((int(at_s * 1000), event) for at_s, event in timeline)
