"""What a load is, and what came of it: the values that travel between the harness and its client process, as JSON."""

from __future__ import annotations

import msgspec

__all__ = ["INTERRUPTED", "Job", "Mark", "Outcome", "Sample", "Seen", "Shape", "Spread"]

#: Of `Outcome.stopped`.
INTERRUPTED = "interrupted"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of one load. `pace_s` 0 is as fast as they come."""

    streams: int
    #: Open at a time; 0 = all.
    at_once: int = 0
    #: Streams begin over so long.
    spread_s: float = 0.0
    events: int
    pace_s: float = 0.0
    #: Bytes of text in an event.
    size: int = 40
    #: After their first events the streams are silent until all are open, and so long after that; 0: they are not.
    silent_s: float = 0.0
    #: The share of the clients that leave at a random event, and of the streams that the provider fails.
    leaving: float = 0.0
    failing: float = 0.0
    #: Bytes that a client takes in a second; 0 = all it gets.
    reading_bytes_s: int = 0
    #: Different token counts among the streams.
    variants: int = 8
    #: Chat: the client asks for usage.
    usage_asked: bool = True

    @property
    def lasts_s(self) -> float:
        """About how long the provider takes, if nothing slows it down."""
        turns = -(-self.streams // (self.at_once or self.streams))
        reading_s = self.events * self.size / self.reading_bytes_s if self.reading_bytes_s else 0.0
        return self.spread_s + self.silent_s + turns * max(self.pace_s * self.events, reading_s)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A load against one address. `pids` are the processes whose cost is read at the marks."""

    run: int
    shape: Shape
    host: str
    port: int
    tls: bool = False
    #: Path before ``/v1/...``.
    base: str = ""
    key: str
    model: str
    protocol: str = "chat"
    #: Responses: each stream is a turn on a WebSocket of its own.
    websocket: bool = False
    pids: tuple[int, ...] = ()
    seed: int = 0
    #: Streams that are still open then are given up.
    limit_s: float
    #: No stream begins after this; None = all of them do.
    until_s: float | None = None
    #: The provider's, on this machine: where it is told that silent streams may go on.
    go_port: int = 0
    #: The prompt of a provider that is not the harness's own: events then carry no time.
    prompt: str | None = None


class Spread(msgspec.Struct, frozen=True):
    """The quantiles of many values: 0, 1, ... 99 %, 99.9 % and the largest. Empty if there were none."""

    count: int
    points: tuple[float, ...]

    @property
    def p50(self) -> float:
        return self.points[50] if self.points else 0.0

    @property
    def p99(self) -> float:
        return self.points[99] if self.points else 0.0

    @property
    def max(self) -> float:
        return self.points[-1] if self.points else 0.0


class Sample(msgspec.Struct, frozen=True):
    """What processes have cost: CPU in ns since they began, resident memory in bytes now."""

    cpu_ns: int
    rss_bytes: int


class Mark(msgspec.Struct, frozen=True):
    """A moment of a load: ``begin``, ``open`` (every stream has an event), ``going`` (silent ones may go on),
    ``closing`` (the first is at its end), and ``end``."""

    name: str
    at_ns: int
    events: int
    sample: Sample


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one client saw. `number` is in the prompt, and in X-Client-Request-Id behind `run`."""

    number: int
    request_id: str = ""
    status: int = 0
    events: int = 0
    complete: bool = False
    left: bool = False
    #: Tokens that the answer reported to it; None = it saw no usage.
    input: int | None = None
    output: int | None = None
    error: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All of one load. Delays in ns, from the provider's send to the client's receive (or, without times in the events,
    between events); `first` from the client's connect."""

    run: int
    wall_ns: int
    events: int
    bytes: int
    marks: tuple[Mark, ...]
    first: Spread
    delay: Spread
    #: Mean |difference| of the delays of two events that follow each other in a stream.
    jitter_ns: float
    streams: tuple[Seen, ...]
    #: `INTERRUPTED` by hand, "out of time" by its limit, or "".
    stopped: str = ""

    def mark(self, name: str) -> Mark | None:
        """The moment of that name, if it came."""
        return next((each for each in self.marks if each.name == name), None)
