"""The scenarios: their loads, who is asked to carry them, and what of them is compared."""

from __future__ import annotations

import resource
from typing import NamedTuple

import msgspec

from bench.job import Shape

__all__ = ["CONVERSIONS", "Scenario", "quick_scenarios", "scenarios"]

#: (client, channel): every direction there is. A Chat client streaming on a Gemini channel is refused.
CONVERSIONS = tuple(
    (client, channel)
    for channel in ("chat", "responses", "messages", "gemini")
    for client in ("chat", "responses", "messages", "gemini")
    if (client, channel) != ("chat", "gemini")
)
#: Descriptors that a gateway needs beside two for each stream.
_OTHER_DESCRIPTORS = 500
_MOST_IDLE = 20_000


class Scenario(NamedTuple):
    """One load. `per`: what CPU is compared by in it, ``event`` or ``stream``."""

    name: str
    family: str
    title: str
    shape: Shape
    per: str = "event"
    protocol: str = "chat"
    #: The protocol of the channel; another one than the client's is converted.
    channel: str = "chat"
    rounds: int = 3
    #: Contestants that alone can carry it, and those that are left out.
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    workers: int = 1
    #: Responses: each stream is a turn on a WebSocket of its own.
    websocket: bool = False

    @property
    def group(self) -> str:
        """Scenarios of a group are compared with each other, so their rounds are played in turn."""
        if self.family == "converted":
            return f"converted-{self.channel}"
        return self.family if self.family in ("workers", "websocket") else self.name

    @property
    def limit_s(self) -> float:
        """After this the load is given up: ten times what it should take, and a minute."""
        return 60 + 10 * self.shape.lasts_s


def _paced(streams: int, rate: int, events: int) -> Scenario:
    """Opened at 250 a second at most; the pace begins when all are there."""
    spread_s = streams / min(250, 100 + streams / 4)
    silent_s = 0.3 if streams >= 200 else 0.0
    shape = Shape(streams=streams, events=events, pace_s=1 / rate, spread_s=spread_s, silent_s=silent_s)
    return Scenario(f"paced-{streams}", "paced", f"{streams} streams of {events} events, {rate} a second each", shape)


def _idle(streams: int) -> Scenario:
    """Opened at 350 a second, silent until all are open and three seconds more, then five events each, one a second."""
    opened_s = streams / 350
    shape = Shape(streams=streams, events=6, pace_s=1.0, spread_s=opened_s, silent_s=3.0)
    title = f"{streams:,} streams open and silent, then 5 events each, one a second"
    # What direct would add is the same as elsewhere, and these take long.
    return Scenario(f"idle-{streams}", "idle", title, shape, rounds=1, without=("direct",))


def _converted(client: str, channel: str, events: int) -> Scenario:
    shape = Shape(streams=50, events=events, pace_s=0.025, spread_s=0.4)
    title = f"{client} clients on a {channel} channel" + (", native" if client == channel else "")
    name = f"converted-{client}-{channel}"
    return Scenario(name, "converted", title, shape, protocol=client, channel=channel, rounds=2, only=("hoptrio",))


def _workers(count: int, events: int) -> Scenario:
    # As many streams a worker: with fewer, each turn would carry fewer events, which says nothing of a further core.
    streams = 200 * count
    shape = Shape(streams=streams, events=events, pace_s=0.03, spread_s=1.0, silent_s=0.3)
    title = f"{count} worker{'s' if count > 1 else ''}: {streams} streams of {events} events, 33 a second each"
    return Scenario(f"workers-{count}", "workers", title, shape, only=("hoptrio",), workers=count)


def _websocket(events: int) -> list[Scenario]:
    """Responses over a WebSocket, a connection each, and the same over SSE."""
    shape = Shape(streams=100, events=events, pace_s=0.03, spread_s=1.0, silent_s=0.3)
    common = f"{shape.streams} Responses streams of {events} events, 33 a second each"
    base = Scenario("responses-sse", "websocket", f"{common}, over SSE", shape, "event", "responses", "responses")
    base = base._replace(only=("hoptrio",))
    return [base, base._replace(name="responses-websocket", title=f"{common}, over WebSocket", websocket=True)]


def _idle_sizes() -> list[int]:
    """1,000, 5,000, 9,000, and 20,000 where the limit of open files is not in the way."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    room = _MOST_IDLE if hard == resource.RLIM_INFINITY else (hard - _OTHER_DESCRIPTORS) // 2
    return [size for size in (1_000, 5_000, 9_000, _MOST_IDLE) if size <= room]


def scenarios() -> list[Scenario]:
    """All of them, in the order they are run."""
    return [
        # As many events as a long paragraph has, so that a hold and a settlement are shared by as many.
        _paced(20, 50, 300),
        _paced(50, 50, 300),
        _paced(200, 40, 300),
        _paced(1_000, 15, 200)._replace(rounds=2),
        *_special(),
        *(_converted(client, channel, 60) for client, channel in CONVERSIONS),
        *_websocket(100),
        *(_workers(count, 100) for count in (1, 2)),
        *map(_idle, _idle_sizes()),
    ]


def quick_scenarios() -> list[Scenario]:
    """A sample that takes less than three minutes: one round each, shorter; for a look, and not for a table."""
    named = {each.name: each for each in _special()}
    listed = [
        _paced(20, 50, 75),
        _paced(200, 28, 50),
        *(_shorter(named[name], 4) for name in ("first-event", "burst", "short", "big-events", "leaving", "failures")),
        *(_converted(client, "chat", 40) for client in ("chat", "responses", "messages")),
        *_websocket(40),
        *(_workers(count, 40) for count in (1, 2)),
        _idle(1_000),
    ]
    return [each._replace(rounds=1) for each in listed]


def _shorter(scenario: Scenario, times: int) -> Scenario:
    shape = scenario.shape
    if shape.at_once:
        shape = msgspec.structs.replace(shape, streams=shape.streams // times)
    else:
        shape = msgspec.structs.replace(shape, events=max(2, shape.events // times))
    return scenario._replace(shape=shape, title=f"{scenario.title}; shortened")


def _special() -> list[Scenario]:
    """Those of a kind of their own."""
    return [
        Scenario(
            "first-event",
            "first-event",
            "20 paced streams at a time, one after another, for the time to the first event",
            Shape(streams=200, at_once=20, events=20, pace_s=0.02, spread_s=0.4),
            per="stream",
        ),
        Scenario(
            "withheld",
            "withheld",
            "200 paced streams whose clients did not ask for usage, so that a gateway takes it out again",
            Shape(streams=200, events=100, pace_s=0.035, spread_s=1.3, silent_s=0.3, usage_asked=False),
            rounds=1,
        ),
        Scenario(
            "burst",
            "burst",
            "4 streams of events as fast as they come",
            Shape(streams=4, events=20_000, size=120, variants=4),
        ),
        Scenario(
            "saturation",
            "saturation",
            "200 streams, 200 events a second each: more than a core carries",
            Shape(streams=200, events=400, pace_s=0.005, spread_s=1.0, silent_s=0.3),
            rounds=2,
        ),
        Scenario(
            "short",
            "short",
            "one-event streams, 16 at a time; in hoptrio a durable hold and a durable settlement each",
            Shape(streams=2_000, at_once=16, events=1),
            per="stream",
        ),
        Scenario(
            "big-events", "big", "4 streams of 6 events of 1 MiB", Shape(streams=4, events=6, size=2**20, variants=2)
        ),
        Scenario(
            "bigger-events", "big", "2 streams of 3 events of 8 MiB", Shape(streams=2, events=3, size=2**23, variants=1)
        ),
        Scenario(
            "slow-readers",
            "slow-readers",
            "40 streams of 2 MB as fast as they come, whose clients take 500 kB a second",
            Shape(streams=40, events=2_000, size=700, reading_bytes_s=500_000, variants=2),
            rounds=1,
        ),
        Scenario(
            "leaving",
            "leaving",
            "200 paced streams, 30 % of whose clients leave at a random event",
            Shape(streams=200, events=100, pace_s=0.03, spread_s=1.0, leaving=0.3),
            per="stream",
            rounds=2,
        ),
        Scenario(
            "failures",
            "failures",
            "200 paced streams, 15 % of which the provider fails: refused, cut, reset, or an error event",
            Shape(streams=200, events=100, pace_s=0.03, spread_s=2.0, failing=0.15),
            per="stream",
            rounds=1,
        ),
    ]
