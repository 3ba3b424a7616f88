"""What the rooms below know, as the API's structs. Pure, but for the clock of `channel`'s health."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hoptrio.admission.health import FAULTS
from hoptrio.control import shapes
from hoptrio.ledger.model import Probed
from hoptrio.ledger.report import entry_report, iso_ms, operator_report
from hoptrio.money import format_nanos

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.admission.catalogue import Catalogue, Channel, Model
    from hoptrio.contract import Contract
    from hoptrio.control.office import Office
    from hoptrio.ledger.audit import AuditReport
    from hoptrio.ledger.model import Account, ApiKey, Entry, HoldRow, ProbeRow, RequestRecord
    from hoptrio.protocols.events import Protocol

__all__ = ["account", "audit", "channel", "contract", "entry", "hold", "key", "model", "request"]


def account(found: Account) -> shapes.Account:
    """An account as it stands."""
    return shapes.Account(
        id=found.id,
        name=found.name,
        balance=format_nanos(found.balance_nanos),
        held=format_nanos(found.held_nanos),
        available=format_nanos(found.available_nanos),
        disabled=found.disabled,
        created_at=iso_ms(found.created_at_ms),
    )


def entry(found: Entry, names: Mapping[str, str]) -> shapes.EntryItem:
    """An entry; `names` of accounts by id."""
    return shapes.EntryItem(**entry_report(found), account=names.get(found.account_id, found.account_id))


def key(found: ApiKey) -> shapes.Key:
    """A key."""
    return shapes.Key(
        id=found.id,
        account=found.account.name,
        contract=found.contract,
        max_streams=found.max_streams,
        rpm=found.rpm,
        budget=None if found.budget_nanos is None else format_nanos(found.budget_nanos),
        per=found.budget_per,  # type: ignore[arg-type]
        expires_at=None if found.expires_at_ms is None else iso_ms(found.expires_at_ms),
        models=list(found.models),
        revoked=found.revoked,
        created_at=iso_ms(found.created_at_ms),
    )


def request(found: RequestRecord, currency: str, names: Mapping[str, str]) -> shapes.RequestItem:
    """A request; `names` of accounts by id."""
    report = operator_report(found, currency, names.get(found.account_id, found.account_id))
    return msgspec.convert(report, shapes.RequestItem)


def hold(found: HoldRow, names: Mapping[str, str], now_ms: int) -> shapes.HoldItem:
    """An open hold; `names` of accounts by id."""
    return shapes.HoldItem(
        id=found.id,
        request=found.request_id,
        account=names.get(found.account_id, found.account_id),
        key=found.key_id,
        amount=format_nanos(found.amount_nanos),
        created_at=iso_ms(found.created_at_ms),
        age_seconds=max(0, now_ms - found.created_at_ms) // 100 / 10,
        owner=found.owner,
    )


def audit(found: AuditReport) -> shapes.Audit:
    """What the audit found."""
    return shapes.Audit(
        ok=found.ok,
        violations=list(found.violations),
        accounts=found.accounts,
        entries=found.entries,
        open_holds=found.open_holds,
        captured=found.captured,
        released=found.released,
        captured_amount=format_nanos(found.captured_nanos),
        supplier_amount=format_nanos(found.supplier_nanos),
        platform_amount=format_nanos(found.platform_nanos),
        uncollected_amount=format_nanos(found.uncollected_nanos),
        balances=format_nanos(found.balance_nanos),
        held=format_nanos(found.held_nanos),
    )


def channel(office: Office, found: Channel, probes: Mapping[Probed, ProbeRow]) -> shapes.Channel:
    """A channel with what is known of it now."""
    pause = office.pauses.rows.get(found.name)
    return shapes.Channel(
        name=found.name,
        protocols=[str(each) for each in found.base_urls],
        addresses={str(protocol): url for protocol, url in found.base_urls.items()},
        route=found.route,
        accounts=sorted(found.accounts),
        keys=sorted(found.keys),
        priority=found.priority,
        weight=found.weight,
        max_streams=found.max_streams,
        supplier=found.supplier or None,
        paused=None if pause is None else shapes.Pause(since=iso_ms(pause.since_ms), why=pause.why),
        models=[_channel_model(office, found, name, probes) for name in found.models],
    )


def _channel_model(office: Office, found: Channel, name: str, probes: Mapping[Probed, ProbeRow]) -> shapes.ChannelModel:
    condition = office.breakers.condition(found.name, name)
    return shapes.ChannelModel(
        name=name,
        upstream=found.models[name],
        health=condition.standing.name.lower() if office.health_known else "unknown",
        fault=None if condition.fault is None else FAULTS[condition.fault].words,
        wait_seconds=round(condition.wait_s, 1),
        certificates=[_certificate(office, found, name, each, probes) for each in found.base_urls],
    )


def _certificate(
    office: Office, found: Channel, name: str, protocol: Protocol, probes: Mapping[Probed, ProbeRow]
) -> shapes.CertificateState:
    expires_at_ms = office.certificates.expires_at_ms(found, name, protocol)
    row = probes.get(Probed(found.name, name, protocol))
    return shapes.CertificateState(
        protocol=protocol,
        certified=office.certificates.certified(found, name, protocol),
        valid_until=iso_ms(expires_at_ms) if expires_at_ms else None,
        probe=None if row is None else _probe(row),
    )


def _probe(row: ProbeRow) -> shapes.Probe:
    return shapes.Probe(
        began_at=iso_ms(row.began_at_ms),
        ended_at=None if row.ended_at_ms is None else iso_ms(row.ended_at_ms),
        finding=row.finding,
        detail=row.detail,
    )


def contract(found: Contract, *, default: bool) -> shapes.Contract:
    """A contract; `default`: it is the server's."""
    return shapes.Contract(
        name=found.name,
        default=default,
        protocols=list(found.protocols),
        keepalive=found.keepalive,
        keepalive_seconds=found.keepalive_seconds,
        usage=found.usage,
        failure=found.failure,
        interrupted=found.interrupted,
        attempts=found.attempts,
        stall=found.stall,
        deadline_seconds=found.deadline_seconds,
        certified_only=found.certified_only,
        reattach=found.reattach,
    )


def model(found: Model, catalogue: Catalogue) -> shapes.Model:
    """A model, its standard prices, and who serves it."""
    prices = found.prices
    return shapes.Model(
        name=found.name,
        input=format_nanos(prices.input),
        cached_input=format_nanos(prices.cached_input),
        cache_write=format_nanos(prices.cache_write),
        cache_write_1h=format_nanos(prices.cache_write_1h),
        output=format_nanos(prices.output),
        tools={name: format_nanos(price) for name, price in prices.tools.items()},
        image=None if prices.image is None else format_nanos(prices.image),
        tiers=sorted(found.tiers),
        max_input_tokens=found.max_input_tokens,
        max_output_tokens=found.max_output_tokens,
        stall_seconds=found.stall_s,
        channels=[each.name for each in catalogue.channels.values() if found.name in each.models],
    )
