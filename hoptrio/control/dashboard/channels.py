"""Channels: where they lead, how they stand, what they are certified for; to pause, to resume and to probe them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hoptrio import errors
from hoptrio.control import shapes
from hoptrio.control.answers import page
from hoptrio.control.dashboard.forms import note
from hoptrio.control.dashboard.live import follow
from hoptrio.control.operations.channels import certify, list_channels, pause_channel, resume_channel

if TYPE_CHECKING:
    from starlette.requests import Request

    from hoptrio.control.office import Office

__all__ = ["ROUTES"]


async def show(request: Request) -> Response:
    """All channels."""
    return page(request, "channels.html", **await _values(request))


async def live(request: Request) -> Response:
    """The same as it changes."""

    async def values() -> dict[str, Any]:
        return await _values(request)

    return await follow(request, "channels_now.html", values)


async def _values(request: Request) -> dict[str, Any]:
    found = await list_channels.run(_office(request), shapes.Nothing())
    return {"channels": [(each, _addresses(each)) for each in sorted(found, key=lambda channel: channel.name)]}


def _addresses(channel: shapes.Channel) -> list[tuple[str, str]]:
    """(protocols, address) for each address; those that share one stand together."""
    by_url: dict[str, list[str]] = {}
    for protocol, url in channel.addresses.items():
        by_url.setdefault(url, []).append(protocol)
    return [(", ".join(protocols), url) for url, protocols in by_url.items()]


async def pause(request: Request) -> Response:
    """No new streams for the channel."""
    try:
        why = note(request.state.form, "why")
    except ValueError as error:
        raise errors.BadRequest(str(error)) from None
    asked = shapes.ChannelPause(channel=request.path_params["name"], why=why)
    await pause_channel.run(_office(request), asked)
    return RedirectResponse("/channels", status_code=303)


async def resume(request: Request) -> Response:
    """New streams again."""
    await resume_channel.run(_office(request), shapes.ChannelName(channel=request.path_params["name"]))
    return RedirectResponse("/channels", status_code=303)


async def probe(request: Request) -> Response:
    """Probe every model of the channel; the page says what was found."""
    found = await certify.run(_office(request), shapes.CertificationOrder(channel=request.path_params["name"]))
    return page(request, "channels.html", found=found, **await _values(request))


def _office(request: Request) -> Office:
    office: Office = request.app.state.office
    return office


ROUTES = (
    Route("/channels", show, methods=["GET"]),
    Route("/channels/live", live, methods=["GET"]),
    Route("/channels/{name:path}/pause", pause, methods=["POST"]),
    Route("/channels/{name:path}/resume", resume, methods=["POST"]),
    Route("/channels/{name:path}/probe", probe, methods=["POST"]),
)
