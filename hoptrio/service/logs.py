"""Logs: structured lines to stderr, plain text for a terminal, JSON otherwise. No prompt, output or secret, ever."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["set_up_logs"]


def set_up_logs() -> None:
    """Configure structlog for this process."""
    terminal = sys.stderr.isatty()
    render: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # A traceback names code, not data: messages of exceptions may quote what was parsed, so they stay out.
            _frames_only,
            render,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _frames_only(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace an exception by the places it passed through."""
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        frames = []
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            frames.append(f"{code.co_qualname}:{trace.tb_lineno}")
            trace = trace.tb_next
        event["trace"] = frames[-8:]
    return event
