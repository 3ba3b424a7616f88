"""The control plane's operations on the database itself, with or without a running server: the office of a command."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from hoptrio.admission.breaker import Breakers
from hoptrio.admission.certificates import Certificates
from hoptrio.admission.pauses import Pauses
from hoptrio.control.figures import Figures
from hoptrio.control.office import Office
from hoptrio.errors import BadRequest
from hoptrio.service.board import SharedBoard, board_paths
from hoptrio.telemetry.board import FiguresBoard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hoptrio.certification.probe import Result
    from hoptrio.cli.options import Invocation
    from hoptrio.control.operation import Operation
    from hoptrio.control.shapes import Certification
    from hoptrio.ledger.ledger import Ledger
    from hoptrio.ledger.model import Probed

__all__ = ["Near", "near"]

Takes = TypeVar("Takes")
Gives = TypeVar("Gives")


@asynccontextmanager
async def near(invocation: Invocation) -> AsyncIterator[Near]:
    """The office of this command. With a server running here on the same config, the health of channels is its own.

    Raises as `Invocation.open_ledger` does.
    """
    async with invocation.open_ledger() as ledger:
        yield Near(_office(invocation, ledger))


class Near:
    """Calls operations."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def call(self, operation: Operation[Takes, Gives], asked: Takes) -> Gives:
        """Check what is asked as the API does, and do it. Raises HoptrioError."""
        try:
            checked = msgspec.convert(msgspec.to_builtins(asked), operation.takes)
        except msgspec.ValidationError as error:
            raise BadRequest(str(error)) from None
        return await operation.run(self._office, checked)


def _office(invocation: Invocation, ledger: Ledger) -> Office:
    config = invocation.config()
    shared = SharedBoard.of_a_running_server(board_paths(invocation.path, config.ledger))
    breakers = Breakers(shared.board if shared is not None else None)

    async def certify(channel: str | None, model: str | None) -> list[Certification]:
        from hoptrio.certification.certifier import Certifier
        from hoptrio.service.certifying import certify_now
        from hoptrio.upstream.client import Upstream

        async with Upstream() as upstream:
            certifier = Certifier(ledger, upstream, valid_days=config.certification.valid_days)
            return await certify_now(config.catalogue, ledger, certifier, channel, model, tell=tell)

    def tell(probed: Probed, result: Result) -> None:
        invocation.advance(f"{probed.channel} {probed.model} {probed.protocol}: {result.finding}")

    return Office(
        ledger=ledger,
        config=config,
        breakers=breakers,
        certificates=Certificates(ledger),
        pauses=Pauses(ledger, breakers.board),
        # Nobody tells a command: what happens now is asked of a running server.
        figures=Figures(FiguresBoard()),
        certify=certify,
        health_known=shared is not None,
    )
