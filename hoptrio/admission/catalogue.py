"""What is sold and who provides it: models with their prices, channels with their addresses. Frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from hoptrio.metering.price import Prices  # noqa: TC001 - msgspec resolves annotations at run time
from hoptrio.protocols.events import Protocol  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Catalogue", "Channel", "Model"]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model as callers name it. Limits are None for embeddings and image models."""

    name: str
    prices: Prices
    #: Further price tables by the name a request or an answer selects them with, e.g. "priority".
    tiers: dict[str, Prices] = {}
    max_input_tokens: int
    max_output_tokens: int | None
    stall_s: float
    makes: Literal["text", "images"] = "text"

    @property
    def generates(self) -> bool:
        """It can be asked for text, and streams it. Embeddings have no output, and images are no text."""
        return self.makes == "text" and self.max_output_tokens is not None


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One provider account. Secrets are here in the clear and never leave `upstream`."""

    name: str
    #: Base URL per protocol it speaks.
    base_urls: dict[Protocol, str]
    api_key: str
    #: Model name -> the provider's own name for it.
    models: dict[str, str]
    route: Literal["shared", "dedicated"] = "shared"
    #: With a dedicated route: who may use it; both empty = everyone.
    accounts: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    priority: int = 0
    weight: int = 1
    max_streams: int = 500
    include_usage: Literal["ask", "never"] = "ask"
    unknown_fields: Literal["pass", "drop"] = "pass"
    #: Chat: where a converted request's output limit stands.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    #: None = the protocol's own way.
    auth: Literal["bearer", "x-api-key", "x-goog-api-key", "api-key"] | None = None
    proxy: str = ""
    #: Trusted instead of the usual ones, in PEM; "" = the usual ones.
    authorities: str = ""
    #: The supplier's account name and share in billionths; "" = none.
    supplier: str = ""
    revenue_share_nanos: int = 0

    def __repr__(self) -> str:
        """A key, a header, a query and a proxy may hold secrets, so only the name is told."""
        return f"Channel(name={self.name!r})"


class Catalogue(msgspec.Struct, frozen=True):
    """Everything a request may ask for."""

    models: Mapping[str, Model]
    channels: Mapping[str, Channel]
