"""The playground: one page, whose scripts call the data plane from the browser, as another origin and with a key."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.routing import Route

from hoptrio import errors
from hoptrio.control.answers import page
from hoptrio.control.headers import policy

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from hoptrio.control.office import Office

__all__ = ["ROUTES", "reachable_url"]

PROTOCOLS = (("chat", "Chat Completions"), ("responses", "Responses"), ("messages", "Messages"), ("gemini", "Gemini"))
#: What may stand in the header of the policy.
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


async def show(request: Request) -> Response:
    """The page; it may call the data plane and nothing else."""
    office: Office = request.app.state.office
    url = office.config.control.gateway_url
    if not url:
        if not office.data_urls:
            raise errors.Draining("The gateway does not listen.")
        url = reachable_url(office.data_urls[0], request.url.hostname or "")
    answer = page(
        request,
        "playground.html",
        gateway_url=url,
        protocols=PROTOCOLS,
        models=[name for name, model in office.config.catalogue.models.items() if model.generates],
        simulated="simulated" in office.config.catalogue.channels,
    )
    answer.headers["content-security-policy"] = policy(connect=[url])
    return answer


def reachable_url(data_url: str, host: str) -> str:
    """The data plane as the browser sees it, which knows this page's server as `host`.

    A gateway that listens on every address, or on loopback (behind a tunnel, perhaps), is where this page is.
    """
    parts = urlsplit(data_url)
    name = f"[{host}]" if ":" in host else host
    if not _everywhere(parts.hostname or "") or _HOST.fullmatch(name) is None:
        return data_url
    return f"{parts.scheme}://{name}:{parts.port}"


def _everywhere(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_unspecified or address.is_loopback


ROUTES = (Route("/playground", show),)
