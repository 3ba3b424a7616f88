"""Channels: their health and certificates, who would be asked, probing them now, and taking them out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.control import reports, shapes
from hoptrio.control.operation import operation
from hoptrio.control.routing import routing_of
from hoptrio.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoptrio.admission.catalogue import Channel
    from hoptrio.control.office import Office

__all__ = ["certify", "get_channel", "list_channels", "pause_channel", "resume_channel", "route"]


@operation("GET", "/api/channels", shapes.Nothing, list[shapes.Channel])
async def list_channels(office: Office, asked: shapes.Nothing) -> list[shapes.Channel]:
    """List channels with their health and certificates."""
    return await _reports(office, office.config.catalogue.channels.values())


@operation("GET", "/api/channels/{channel}", shapes.ChannelName, shapes.Channel, refuses=(NotFound,))
async def get_channel(office: Office, asked: shapes.ChannelName) -> shapes.Channel:
    """Show a channel."""
    return (await _reports(office, [_channel(office, asked.channel)]))[0]


@operation("POST", "/api/channels/{channel}/pause", shapes.ChannelPause, shapes.Channel, refuses=(NotFound,))
async def pause_channel(office: Office, asked: shapes.ChannelPause) -> shapes.Channel:
    """Give a channel no new streams, on any worker and over restarts; running ones go on."""
    channel = _channel(office, asked.channel)
    await office.pauses.pause(channel.name, asked.why)
    return (await _reports(office, [channel]))[0]


@operation("POST", "/api/channels/{channel}/resume", shapes.ChannelName, shapes.Channel, refuses=(NotFound,))
async def resume_channel(office: Office, asked: shapes.ChannelName) -> shapes.Channel:
    """Put a channel back into service."""
    channel = _channel(office, asked.channel)
    await office.pauses.resume(channel.name)
    return (await _reports(office, [channel]))[0]


@operation("POST", "/api/certifications", shapes.CertificationOrder, list[shapes.Certification])
async def certify(office: Office, asked: shapes.CertificationOrder) -> list[shapes.Certification]:
    """Probe channels now with a small real stream each, at the provider's price; charged to nobody."""
    for kind, name, names in (
        ("channel", asked.channel, office.config.catalogue.channels),
        ("model", asked.model, office.config.catalogue.models),
    ):
        if name is not None and name not in names:
            raise BadRequest(f"no {kind} {name}; there are {', '.join(sorted(names)) or 'none'}")
    rows = await office.certify(asked.channel, asked.model)
    await office.certificates.refresh()
    return rows


@operation("GET", "/api/routes", shapes.RouteQuestion, shapes.Routing, refuses=(NotFound,))
async def route(office: Office, asked: shapes.RouteQuestion) -> shapes.Routing:
    """Who would be asked for a model, in which order, and why the others would not."""
    models, contracts = office.config.catalogue.models, office.config.contracts
    if asked.model not in models:
        raise NotFound(f"no model {asked.model}; there are {', '.join(sorted(models))}")
    if asked.contract is not None and asked.contract not in contracts:
        raise BadRequest(f"no contract {asked.contract}; there are {', '.join(sorted(contracts))}")
    key = None
    if asked.key is not None:
        key = next((each for each in await office.ledger.keys() if each.id == asked.key), None)
        if key is None:
            raise NotFound(f"no key {asked.key}")
    await office.refresh()
    return routing_of(office, asked, key)


def _channel(office: Office, name: str) -> Channel:
    channel = office.config.catalogue.channels.get(name)
    if channel is None:
        raise NotFound(f"no channel {name}")
    return channel


async def _reports(office: Office, channels: Iterable[Channel]) -> list[shapes.Channel]:
    await office.refresh()
    probes = {row.probed: row for row in await office.ledger.probes()}
    return [reports.channel(office, each, probes) for each in channels]
