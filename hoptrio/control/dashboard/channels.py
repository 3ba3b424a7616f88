"""Channels: where they lead, how they stand, what they are certified for; to pause, to resume and to probe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hoptrio import errors
from hoptrio.admission.health import FAULTS, Standing
from hoptrio.control.answers import page
from hoptrio.control.dashboard.forms import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from hoptrio.admission.catalogue import Channel
    from hoptrio.control.office import Office
    from hoptrio.ledger.model import PauseRow, ProbeRow

__all__ = ["ROUTES"]

_STANDINGS = {
    Standing.GOOD: "good",
    Standing.DOUBTED: "doubted",
    Standing.DUE: "due",
    Standing.TRIED: "tried",
    Standing.COOLING: "cooling",
}


class Certificate(NamedTuple):
    """What is known of one protocol of a channel's model; `state` is certified, expired, uncertified or not needed."""

    protocol: str
    state: str
    expires_at_ms: int
    probe: ProbeRow | None


class Offered(NamedTuple):
    """A model on a channel. `why` is empty while its health is good."""

    name: str
    upstream: str
    health: str
    why: str
    wait_s: float
    certificates: list[Certificate]


class Shown(NamedTuple):
    """A channel as its panel has it."""

    channel: Channel
    addresses: list[tuple[str, str]]
    pause: PauseRow | None
    models: list[Offered]


async def show(request: Request) -> Response:
    """All channels."""
    office: Office = request.app.state.office
    pauses = {row.channel: row for row in await office.ledger.pauses()}
    probes = {(row.probed.channel, row.probed.model, row.probed.protocol): row for row in await office.ledger.probes()}
    channels = [
        Shown(channel, _addresses(channel), pauses.get(name), _models(office, channel, probes))
        for name, channel in sorted(office.config.catalogue.channels.items())
    ]
    return page(request, "channels.html", channels=channels, now_ms=office.ledger.now_ms())


def _addresses(channel: Channel) -> list[tuple[str, str]]:
    """(protocols, address) for each address; those that share one stand together."""
    by_url: dict[str, list[str]] = {}
    for protocol, url in channel.base_urls.items():
        by_url.setdefault(url, []).append(str(protocol))
    return [(", ".join(protocols), url) for url, protocols in by_url.items()]


def _models(office: Office, channel: Channel, probes: Mapping[tuple[str, str, str], ProbeRow]) -> list[Offered]:
    offered = []
    for name, upstream in sorted(channel.models.items()):
        condition = office.breakers.condition(channel.name, name)
        why = "" if condition.fault is None else f"it {FAULTS[condition.fault].words}"
        certificates = [
            _certificate(office, channel, name, protocol, probes.get((channel.name, name, str(protocol))))
            for protocol in channel.base_urls
        ]
        health = _STANDINGS[condition.standing]
        offered.append(Offered(name, upstream, health, why, condition.wait_s, certificates))
    return offered


def _certificate(office: Office, channel: Channel, model: str, protocol: object, probe: ProbeRow | None) -> Certificate:
    expires_at_ms = office.certificates.expires_at_ms(channel, model, protocol)  # type: ignore[arg-type]
    if expires_at_ms > office.ledger.now_ms():
        state = "certified"
    elif expires_at_ms:
        state = "expired"
    else:
        state = "uncertified" if channel.route == "shared" else "not needed"
    return Certificate(str(protocol), state, expires_at_ms, probe)


async def pause(request: Request) -> Response:
    """No new streams for the channel."""
    return await _set_paused(request, paused=True)


async def resume(request: Request) -> Response:
    """New streams again."""
    return await _set_paused(request, paused=False)


async def _set_paused(request: Request, *, paused: bool) -> Response:
    office: Office = request.app.state.office
    channel = _channel(request)
    await office.ledger.set_paused(channel.name, paused=paused, why=text(request.state.form, "why"))
    return RedirectResponse("/channels", status_code=303)


def _channel(request: Request) -> Channel:
    office: Office = request.app.state.office
    channel = office.config.catalogue.channels.get(request.path_params["name"])
    if channel is None:
        raise errors.NotFound("There is no such channel.")
    return channel


ROUTES = (
    Route("/channels", show, methods=["GET"]),
    Route("/channels/{name:path}/pause", pause, methods=["POST"]),
    Route("/channels/{name:path}/resume", resume, methods=["POST"]),
)
