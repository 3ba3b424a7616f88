"""A whole JSON answer, read: the implementation of `rules.Unary`."""

from __future__ import annotations

import msgspec

from hoptrio.protocols.events import Counts, ProviderError  # noqa: TC001 - msgspec resolves annotations at run time

__all__ = ["UnaryAnswer"]


class UnaryAnswer(msgspec.Struct, kw_only=True):
    """What one 2xx body that did not stream proves. Nothing changes it once it is made."""

    counts: Counts | None = None
    reported: Counts | None = None
    error: ProviderError | None = None
    provider_ids: tuple[str, ...] = ()
