"""Scripts: the streams that cases are made of: the plain one, and the pieces of it for those that no script can say."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

from hoptrio.conform.case import Charge, Play
from hoptrio.protocols.events import Framing, Protocol
from hoptrio.simulator.play import play
from hoptrio.simulator.prompt import Prompt
from hoptrio.simulator.script import parse_directive
from hoptrio.simulator.steps import End, Head, Send, Sleep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hoptrio.conform.settings import Settings
    from hoptrio.simulator.steps import Step, Steps

__all__ = ["PAID", "PLAIN", "always", "exact", "pieces", "single", "with_line_ends"]

#: Three pieces of text, and a usage that no gateway would guess.
PLAIN = "events=3 pace=20ms input=5 output=7"
PAID = Charge(usage={"input_tokens": 5, "cached_input_tokens": 0, "output_tokens": 7})

_HEAD = Head(200, (("content-type", "text/event-stream"),))


def single(make: Callable[[Protocol, Settings], Play]) -> Callable[[Protocol, Settings], tuple[Play, ...]]:
    """The plays of a case that has one."""

    def plays(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
        return (make(protocol, settings),)

    return plays


def always(*plays: Play) -> Callable[[Protocol, Settings], tuple[Play, ...]]:
    """The same plays in every protocol, whatever the intervals."""

    def made(protocol: Protocol, settings: Settings) -> tuple[Play, ...]:
        return plays

    return made


def pieces(protocol: Protocol, directive: str) -> list[bytes]:
    """The events of a script, each as it is written."""
    prompt = Prompt(protocol=protocol, model="conform", framing=Framing.SSE, text="", text_bytes=0, usage_asked=True)
    steps = play(prompt, parse_directive(directive), 1)
    return [step.data for step in steps if isinstance(step, Send)]


def exact(parts: Iterable[bytes | float | Step]) -> Callable[[], Steps]:
    """A stream of these writes, pauses (in seconds) and other steps; a clean end unless it has one of its own."""
    fixed = [
        Sleep(each) if isinstance(each, float) else Send(each) if isinstance(each, bytes) else each for each in parts
    ]
    if isinstance(fixed[-1], Send | Sleep):
        fixed.append(End())
    return partial(_performed, tuple(fixed))


def _performed(steps: tuple[Step, ...]) -> Steps:
    yield _HEAD
    yield from steps


def with_line_ends(events: Sequence[bytes], ends: Sequence[bytes]) -> bytes:
    """The events with these line ends in turn."""
    turns = cycle(ends)
    return b"".join(line + next(turns) for line in b"".join(events).split(b"\n")[:-1])
