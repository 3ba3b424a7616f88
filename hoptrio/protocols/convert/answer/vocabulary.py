"""The neutral vocabulary: what any answer says, as calls from a decoder to an encoder. Pure; nothing here raises for
what a provider sends.

Every call returns the client's bytes, perhaps none, since a call may have to wait for its place in the client's
protocol. Texts are clean: no lone surrogates. A decoder calls `Encoder.start` first, then whatever comes on a track,
`Track.finish` when the provider gives its reason, and the reader calls `Encoder.end` at the terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.convert.answer.ends import End
    from hoptrio.protocols.convert.carrier import Carried
    from hoptrio.protocols.convert.naming import ToolName
    from hoptrio.protocols.events import Counts, Protocol, SseEvent

__all__ = ["Citation", "Decoder", "Encoder", "Origin", "Track", "Weigh", "Weighed"]


class Origin(NamedTuple):
    """What every event of one answer has in common."""

    #: As the client asked for it.
    model: str
    created_s: int
    #: Unique to the answer; all ids are made of it, so that they are stable in a stream and the provider's stay hidden.
    token: str
    #: A tool's name on the channel -> the client's own, where they differ.
    names: Mapping[str, ToolName]


class Citation(NamedTuple):
    """A source of the text, as OpenAI's protocols have it."""

    url: str
    title: str
    start: int
    end: int


class Weighed(Interface):
    """Usage in disjoint components: `metering.evidence.Usage`, which this package cannot import."""

    @property
    def input(self) -> int:
        """Neither read from nor written to a cache."""

    @property
    def cached_input(self) -> int:
        """Read from a cache."""

    @property
    def cache_write(self) -> int:
        """Written to a cache, without those of `cache_write_1h`."""

    @property
    def cache_write_1h(self) -> int:
        """Written for long."""

    @property
    def all_input(self) -> int:
        """The sum of these four."""

    @property
    def output(self) -> int:
        """With reasoning."""

    @property
    def reasoning(self) -> int:
        """The part of `output` that was reasoning."""

    @property
    def tool_calls(self) -> Mapping[str, int]:
        """Hosted tool calls."""


class Weigh(Interface):
    """What the counts of a protocol mean: `metering.evidence.usage`."""

    def __call__(self, counts: Counts, protocol: Protocol, *, answered: bool) -> Weighed | None:
        """None if they are not enough to say. `answered`: output was seen."""


class Track(Interface):
    """One choice of an answer, in the order the model made it."""

    def text(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        """More of the visible text; `logprobs` as OpenAI lists them."""

    def refusal(self, text: str) -> bytes:
        """More of a refusal in words."""

    def reasoning(self, text: str) -> bytes:
        """More of the reasoning that is shown."""

    def state(self, carried: Carried) -> bytes:
        """The opaque token of the reasoning just given, or of reasoning that is not shown."""

    def close(self) -> bytes:
        """The text, refusal or reasoning ends here, even if more of its kind follows."""

    def tool_open(self, key: Hashable, call_id: str, name: str, *, custom: bool = False) -> bytes:
        """A tool call begins; `key` names it within this track. `call_id` may be empty: one is made."""

    def tool_args(self, key: Hashable, text: str) -> bytes:
        """More of a call's arguments, in any interleaving of the calls that were opened."""

    def tool_close(self, key: Hashable) -> bytes:
        """A call's arguments are all there."""

    def citation(self, citation: Citation) -> bytes:
        """A source of the text."""

    def image(self, media_type: str, data: str) -> bytes:
        """A whole image, in base64."""

    def finish(self, end: End, stop_sequence: str | None = None) -> None:
        """The provider's reason to stop; said again, the last counts."""


class Encoder(Interface):
    """Writes one answer in the client's protocol."""

    #: Why the answer cannot be expressed in it; "" = it can so far.
    unconvertible: str

    def start(self) -> bytes:
        """The opening."""

    def track(self, choice: int) -> Track:
        """The track of a choice, from 0."""

    def refuse(self, why: str) -> None:
        """The answer cannot be expressed; the first reason is kept."""

    def end(self, usage: Weighed | None) -> bytes:
        """All that is still open, and the terminal; for a whole body, the body."""

    def mark(self) -> None:
        """Everything given out until here is sent; what follows is held back and may never be."""

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our error event, fit to follow what was sent."""


class Decoder(Interface):
    """Reads one answer in the channel's protocol."""

    def feed(self, event: SseEvent) -> bytes:
        """One event; the encoder's bytes for it."""

    def whole(self, data: bytes) -> bytes:
        """One whole body, in place of events."""
