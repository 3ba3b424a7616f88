"""A control plane over a ledger in memory, asked through ASGI, and a person who has logged in."""

from __future__ import annotations

import re
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from hoptrio.admission.breaker import Breakers
from hoptrio.admission.certificates import Certificates
from hoptrio.admission.pauses import Pauses
from hoptrio.config import build
from hoptrio.control.access import Access
from hoptrio.control.app import make_app
from hoptrio.control.figures import Figures
from hoptrio.control.office import Office
from hoptrio.control.sessions import Sessions
from hoptrio.ledger.ledger import memory_ledger
from hoptrio.telemetry.board import FiguresBoard
from tests.support.deployment import config_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hoptrio.control.shapes import Certification
    from hoptrio.ledger.memory import MemoryStore

__all__ = ["BASE", "TOKEN", "Control", "Person", "controlling"]

TOKEN = "a-control-token"
BASE = "http://control.test"


class _Transport(httpx.ASGITransport):
    """One that also ends the body which the app did not read to its end."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async with aclosing(aiter(request.stream)) as pieces:  # type: ignore[type-var]
            request.stream = _Body(pieces)
            return await super().handle_async_request(request)


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


class Control:
    """The app, its office, and how it is asked."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.app = make_app(office, Access(lambda: office.config.control.token, Sessions(FiguresBoard().aside)))

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A caller without anything."""
        transport = _Transport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=BASE, **options)

    def program(self) -> httpx.AsyncClient:
        """A caller with the token."""
        return self.client(headers={"authorization": f"Bearer {TOKEN}"})

    @asynccontextmanager
    async def person(self) -> AsyncIterator[Person]:
        """Somebody who has logged in with a browser."""
        headers = {"accept": "text/html", "sec-fetch-site": "same-origin"}
        async with self.client(headers=headers) as client:
            answer = await client.post("/login", data={"token": TOKEN, "next": "/"})
            assert answer.status_code == 303
            page = (await client.get("/")).text
            found = re.search(r'name="csrf_token" value="([^"]+)"', page)
            assert found is not None
            yield Person(client, found[1])


class Person:
    """A browser with a session, and the CSRF token that its pages have."""

    def __init__(self, client: httpx.AsyncClient, csrf_token: str) -> None:
        self.client = client
        self.csrf_token = csrf_token


async def nothing_certified(_channel: str | None, _model: str | None) -> list[Certification]:
    """Where there is no provider."""
    return []


@asynccontextmanager
async def controlling(
    *, certify: Any = nothing_certified, store: MemoryStore | None = None, **tables: Any
) -> AsyncIterator[Control]:
    """A control plane; `tables` replace those of the config."""
    raw = config_for("http://127.0.0.1:9") | {"control": {"listen": "127.0.0.1:0", "token": TOKEN}} | tables
    async with memory_ledger(store) as ledger:
        breakers = Breakers()
        office = Office(
            ledger=ledger,
            config=build(raw),
            breakers=breakers,
            certificates=Certificates(ledger),
            pauses=Pauses(ledger, breakers.board),
            figures=Figures(FiguresBoard()),
            certify=certify,
        )
        yield Control(office)
