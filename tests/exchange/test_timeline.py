"""What a request's timeline tells of a stream's silence."""

from __future__ import annotations

from hoptrio import limits
from tests.support.harness import gateway
from tests.support.provider import Pause, sse
from tests.support.streams import CHAT


async def timeline_of(world):
    return (await world.record(await world.call("chat"))).timeline


def named(timeline, name):
    return [(at_ms, event) for at_ms, event in timeline if event.startswith(name)]


async def test_a_gap_in_the_answer_is_told_at_its_end_with_its_length(autojump_clock):
    script = sse(*CHAT.opening, CHAT.answer[0], Pause(7.5), CHAT.answer[1], Pause(4), *CHAT.closing, *CHAT.terminal)
    async with gateway(script) as world:
        timeline = await timeline_of(world)
    [(at_ms, gap)] = named(timeline, "gap")
    assert gap == "gap 7500"
    first_ms = dict(map(reversed, timeline))["first_event"]
    assert at_ms - first_ms == 7500


async def test_waiting_for_the_first_event_is_no_gap(autojump_clock):
    async with gateway(sse(Pause(30), *CHAT.events)) as world:
        assert not named(await timeline_of(world), "gap")


async def test_keepalives_are_told_when_they_were_sent(autojump_clock):
    async with gateway(sse(*CHAT.opening, CHAT.answer[0], Pause(25), *CHAT.events[2:])) as world:
        timeline = await timeline_of(world)
    assert [at_ms for at_ms, _ in named(timeline, "keepalive")] == [10_000, 20_000]


async def test_a_timeline_is_bounded_and_its_end_is_never_left_out(autojump_clock):
    pauses = [step for _ in range(limits.TIMELINE_EVENTS_MAX + 15) for step in (CHAT.answer[0], Pause(5))]
    async with gateway(sse(*CHAT.opening, *pauses, *CHAT.closing, *CHAT.terminal)) as world:
        timeline = await timeline_of(world)
    assert [event for _, event in timeline[-2:]] == ["terminal", "ended"]
    assert limits.TIMELINE_EVENTS_MAX <= len(timeline) < limits.TIMELINE_EVENTS_MAX + 5
