"""Routing: who is asked, in which order, and why the others are not."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from hoptrio import limits
from hoptrio.admission.breaker import Breakers
from hoptrio.admission.catalogue import Catalogue, Channel
from hoptrio.admission.health import Fault
from hoptrio.admission.routing import Excluded, Load, Route, Router, Want, Why, refusal
from hoptrio.protocols.events import Protocol

WANT = Want(model="m", protocol=Protocol.CHAT, stream=True)


class Clock:
    now_s = 1_000.0

    def __call__(self):
        return self.now_s


CLOCK = Clock()


def channel(name, **changes):
    plain = {"name": name, "base_urls": {Protocol.CHAT: "http://x"}, "api_key": "k", "models": {"m": "m"}}
    return Channel(**{**plain, **changes})


def router(certified=None, paused=()):
    breakers = Breakers(now=CLOCK)
    return Router(Load(), breakers, certified or (lambda channel, model, protocol: True), paused.__contains__)


def catalogue(*channels):
    return Catalogue({}, {each.name: each for each in channels})


def names(route):
    return [each.name for each in route.channels]


def only_reason(route):
    (excluded,) = route.excluded
    assert not route.channels
    return excluded


@pytest.mark.parametrize(
    ("changes", "want", "why"),
    [
        ({"models": {"other": "other"}}, {}, Why.MODEL),
        ({"base_urls": {Protocol.GEMINI: "http://x"}}, {}, Why.PROTOCOL),
        ({"route": "dedicated", "accounts": frozenset({"acme"})}, {"account": "other"}, Why.DEDICATED),
        ({"route": "dedicated", "keys": frozenset({"key_1"})}, {"account": "acme", "key_id": "key_2"}, Why.DEDICATED),
        ({}, {"foreign_ids": True, "account": "acme"}, Why.FOREIGN_IDS),
        ({"route": "dedicated"}, {"foreign_ids": True, "account": "acme"}, Why.FOREIGN_IDS),
        ({}, {"pinned": "another"}, Why.PINNED),
    ],
)
def test_what_no_waiting_mends(changes, want, why):
    found = only_reason(router().route(catalogue(channel("a", **changes)), WANT._replace(**want)))
    assert found == Excluded("a", why, why.value, math.inf)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, {}),
        ({"route": "dedicated"}, {}),
        ({"route": "dedicated", "accounts": frozenset({"acme"})}, {"account": "acme"}),
        ({"route": "dedicated", "keys": frozenset({"key_1"})}, {"key_id": "key_1"}),
        ({"route": "dedicated", "accounts": frozenset({"acme"})}, {"account": "acme", "foreign_ids": True}),
        ({}, {"pinned": "a"}),
    ],
)
def test_who_is_asked(changes, want):
    assert names(router().route(catalogue(channel("a", **changes)), WANT._replace(**want))) == ["a"]


def test_an_uncertified_channel_gets_no_stream_on_a_shared_route():
    """Unless the contract does not mind. A call that does not stream and a dedicated route need no certificate."""
    finder = router(lambda channel, model, protocol: (channel.name, model, protocol) == ("b", "m", Protocol.CHAT))
    channels = catalogue(channel("a"), channel("b"), channel("c", route="dedicated"))
    strict = finder.route(channels, WANT._replace(certified_only=True))
    assert sorted(names(strict)) == ["b", "c"]
    assert [(each.channel, each.why) for each in strict.excluded] == [("a", Why.UNCERTIFIED)]
    assert sorted(names(finder.route(channels, WANT))) == ["a", "b", "c"]
    assert sorted(names(finder.route(channels, WANT._replace(certified_only=True, stream=False)))) == ["a", "b", "c"]


def test_a_higher_priority_comes_first_and_the_rest_behind_it():
    channels = catalogue(channel("low", priority=-1), channel("mid"), channel("high", priority=5))
    assert names(router().route(channels, WANT)) == ["high", "mid", "low"]


def test_equals_take_turns_by_weight_from_the_first_request_on():
    finder, channels = router(), catalogue(channel("a", weight=3), channel("b", weight=1))
    first = [names(finder.route(channels, WANT))[0] for _ in range(8)]
    assert first == ["a", "a", "b", "a"] * 2


def test_the_same_requests_give_the_same_routes():
    channels = catalogue(*(channel(name, weight=weight) for name, weight in zip("abc", (5, 3, 2), strict=True)))
    runs = [[names(each.route(channels, WANT)) for _ in range(50)] for each in (router(), router())]
    assert runs[0] == runs[1]
    assert Counter(order[0] for order in runs[0]) == {"a": 25, "b": 15, "c": 10}


def test_a_channel_at_its_limit_is_passed_by():
    finder, channels = router(), catalogue(channel("a", max_streams=1, priority=1), channel("b"))
    finder.load.started("a")
    found = finder.route(channels, WANT)
    assert names(found) == ["b"]
    assert found.excluded == (Excluded("a", Why.BUSY, "is at its limit of streams (1)", 1.0),)
    finder.load.ended("a")
    assert names(finder.route(channels, WANT)) == ["a", "b"]


def test_a_channel_that_failed_comes_behind_all_others_for_a_while_and_is_asked_if_it_is_the_only_one():
    finder, channels = router(), catalogue(channel("a", priority=9), channel("b"), channel("c", priority=-9))
    finder.breakers.failed("a", "m", Fault.FAILED)
    assert names(finder.route(channels, WANT)) == ["b", "c", "a"]
    assert names(finder.route(catalogue(channel("a")), WANT)) == ["a"]
    CLOCK.now_s += limits.COOLDOWN_MIN_S
    assert names(finder.route(channels, WANT)) == ["a", "b", "c"]


def test_a_channel_that_cools_down_is_not_asked_and_then_by_one_stream():
    finder, channels = router(), catalogue(channel("a"))
    finder.breakers.failed("a", "m", Fault.RATE_LIMITED, 30)
    found = only_reason(finder.route(channels, WANT))
    words = "is cooling down, 30 s to go: it reached the provider's rate limit"
    assert found == Excluded("a", Why.COOLING, words, 30)
    CLOCK.now_s += 30
    assert names(finder.route(channels, WANT)) == ["a"]
    assert finder.breakers.claim("a", "m")
    found = finder.route(catalogue(channel("a"), channel("b", priority=-1)), WANT)
    assert (names(found), [(each.channel, each.why) for each in found.excluded]) == (["b"], [("a", Why.TRIED)])
    finder.breakers.succeeded("a", "m")
    assert names(finder.route(channels, WANT)) == ["a"]


def test_closed_channels_are_the_last_resort_unless_their_provider_said_how_long_to_wait():
    finder, channels = (
        router(),
        catalogue(channel("a"), channel("b", priority=1), channel("c"), channel("d", models={})),
    )
    for name in "ab":
        finder.breakers.failed(name, "m", Fault.CREDENTIALS)
    finder.breakers.failed("c", "m", Fault.RATE_LIMITED, 30)
    found = finder.route(channels, WANT)
    assert (found.last_resort, names(found)) == (True, ["b", "a"])
    assert [(each.channel, each.why) for each in found.excluded] == [("c", Why.COOLING), ("d", Why.MODEL)]
    finder.load.started("a")
    assert names(finder.route(catalogue(channel("a", max_streams=1)), WANT)) == []
    only = finder.route(catalogue(channel("c")), WANT)
    assert (only.last_resort, names(only), only.excluded[0].wait_s) == (False, [], 30)


def test_a_provider_that_said_no_is_asked_for_want_of_others_only_now_and_then():
    finder, channels = router(), catalogue(channel("a"))
    for _ in range(limits.LAST_RESORTS_MAX):
        assert names(finder.route(channels, WANT)) == ["a"]
        finder.breakers.failed("a", "m", Fault.RATE_LIMITED)
    refused = refusal(finder.route(channels, WANT), "m")
    assert (refused.retryable, refused.retry_after_s) == (True, 5)


# -- a further attempt -------------------------------------------------------------------------------------------------


def again(finder, asked, *channels):
    spoken = [(each, Protocol.CHAT) for each in channels]
    return [each.name for each, _ in finder.again(spoken, asked, "m")]


def test_a_further_attempt_goes_to_a_channel_that_was_not_asked_and_then_to_those_that_were():
    assert again(router(), ["a"], channel("a", priority=9), channel("b"), channel("c", priority=1)) == ["c", "b", "a"]


def test_a_further_attempt_prefers_the_surest_whatever_the_priorities():
    finder = router(lambda channel, model, protocol: channel.name == "proven")
    finder.breakers.failed("doubted", "m", Fault.CUT)
    doubted, unproven = channel("doubted", priority=2), channel("unproven", priority=1)
    assert again(finder, ["x"], doubted, unproven, channel("proven")) == ["proven", "unproven", "doubted"]
    assert again(finder, ["x"], unproven, channel("own", route="dedicated")) == ["own", "unproven"]


# -- the refusal -------------------------------------------------------------------------------------------------------


def excluded(*whys):
    return Route((), tuple(Excluded("secret-name", why, why.value, wait_s) for why, wait_s in whys))


@pytest.mark.parametrize(
    ("whys", "words", "retry_after_s"),
    [
        ([], "No channel offers the model 'm' here.", None),
        ([(Why.MODEL, math.inf), (Why.DEDICATED, math.inf)], "No channel offers the model 'm' here.", None),
        ([(Why.UNCERTIFIED, math.inf), (Why.MODEL, math.inf)], "No certified channel offers the model 'm'.", None),
        ([(Why.PROBED, 3), (Why.MODEL, math.inf)], "The channels of the model 'm' are not certified yet.", 3),
        ([(Why.COOLING, 7.2), (Why.UNCERTIFIED, math.inf)], "cooling down", 8),
        ([(Why.COOLING, 90), (Why.COOLING, 60)], "cooling down", 60),
        ([(Why.COOLING, 61)], "cooling down", None),
        ([(Why.TRIED, 1), (Why.COOLING, 300)], "cooling down", 1),
        ([(Why.COOLING, 30), (Why.BUSY, 1)], "All channels of the model 'm' are busy.", 1),
    ],
)
def test_a_caller_is_told_the_most_hopeful_reason_and_when_a_retry_may_mend_it(whys, words, retry_after_s):
    error = refusal(excluded(*whys), "m")
    assert words in error.message
    assert "secret-name" not in error.message
    assert (error.status, error.code) == (503, "model_unavailable")
    assert (error.retryable, error.retry_after_s) == (retry_after_s is not None, retry_after_s)


def test_a_paused_channel_is_not_asked_not_even_as_a_last_resort():
    found = only_reason(router(paused={"a"}).route(catalogue(channel("a")), WANT))
    assert found == Excluded("a", Why.PAUSED, "is paused by an operator", 60)


def test_a_paused_channel_gets_no_further_attempt():
    one, two = ((channel(name), Protocol.CHAT) for name in "ab")
    assert router(paused={"a"}).again([one, two], ["b"], "m") == [two]


def test_a_caller_is_told_to_come_back_when_channels_are_paused():
    refused = refusal(router(paused={"a"}).route(catalogue(channel("a")), WANT), "m")
    assert (refused.retryable, refused.retry_after_s) == (True, 60)
    assert refused.message == "The channels of the model 'm' are out of service for a while."
