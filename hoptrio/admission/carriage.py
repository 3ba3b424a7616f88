"""One call in the protocols of the channels it may go to: as it came, or converted, each way at most once. Pure.

Conversion costs as much as encoding, so it is made only when a channel of that protocol is considered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert import Prepared, prepare
from hoptrio.protocols.events import Operation

if TYPE_CHECKING:
    from hoptrio.admission.catalogue import Model
    from hoptrio.protocols.events import Call, Protocol

__all__ = ["Carriage"]


class Carriage:
    """`dropped_tools` are the hosted tools that no channel is told of (`quote.refuse_unpriced`)."""

    def __init__(self, call: Call, model: Model, dropped_tools: frozenset[str]) -> None:
        self._call = call
        self._model = model
        self._dropped_tools = dropped_tools
        self._made: dict[Protocol, Prepared | BadRequest] = {}

    def carries(self, protocol: Protocol) -> bool:
        """Can a channel of this protocol be told all that the call says?"""
        return isinstance(self._make(protocol), Prepared)

    def refusal(self, protocol: Protocol) -> BadRequest | None:
        """Why not: it names the parameter."""
        made = self._make(protocol)
        return made if isinstance(made, BadRequest) else None

    def prepared(self, protocol: Protocol) -> Prepared:
        """The call for a channel of this protocol. Raises BadRequest, naming the parameter that stands against it."""
        made = self._make(protocol)
        if isinstance(made, BadRequest):
            raise made
        return made

    def dropped(self, protocol: Protocol) -> frozenset[str]:
        """The hosted tools that such a channel is not told of: on a converted one there are none at all."""
        native = protocol is self._call.protocol
        return self._dropped_tools if native else frozenset(self._call.hosted_tools)

    def _make(self, protocol: Protocol) -> Prepared | BadRequest:
        if protocol not in self._made:
            self._made[protocol] = self._convert(protocol)
        return self._made[protocol]

    def _convert(self, protocol: Protocol) -> Prepared | BadRequest:
        if protocol is self._call.protocol:
            return Prepared(self._call, {})
        if self._call.operation != Operation.GENERATE:
            return BadRequest(f"No channel of this model serves {self._call.operation}.", param="model")
        try:
            return prepare(
                self._call, protocol, drop_tools=self._dropped_tools, output_max=self._model.max_output_tokens
            )
        except BadRequest as refusal:
            return refusal
