"""Keep-alive and the list of models: the same surface as Chat's."""

from __future__ import annotations

from hoptrio.protocols.chat.wire import keepalive, models_body

__all__ = ["keepalive", "models_body"]
