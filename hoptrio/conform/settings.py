"""Settings: the intervals that the tested gateway is set to, and the times that follow from them. Pure."""

from __future__ import annotations

import msgspec

__all__ = ["Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    #: A stream in which nothing is written for so long gets a keep-alive.
    keepalive_s: float = 10.0
    #: No progress of the model for so long is a stall.
    stall_s: float = 120.0
    #: The longest that a stream may take.
    deadline_s: float = 600.0

    @property
    def idle_s(self) -> float:
        """A silence in which one keep-alive is due."""
        return self.keepalive_s * 1.4

    @property
    def kept_s(self) -> float:
        """The longest that a stream in which keep-alives are written is without a byte."""
        return self.keepalive_s * 1.25

    @property
    def long_idle_s(self) -> float:
        """A silence in which two are."""
        return self.keepalive_s * 2.5

    @property
    def stalled_s(self) -> float:
        """A stalled stream is over by then."""
        return self.stall_s * 1.25
