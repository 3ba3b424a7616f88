"""How often a key may count, and what is remembered of keys and channels."""

from __future__ import annotations

import pytest
import trio

from hoptrio.errors import LimitExceeded
from hoptrio.exchange import counts as module
from hoptrio.exchange.counts import Counts
from hoptrio.ledger.model import Account, ApiKey
from hoptrio.limits import COUNT_ABSENT_S
from hoptrio.protocols.events import Protocol

ACCOUNT = Account(id="acct_1", name="acme", balance_nanos=0, held_nanos=0, created_at_ms=0)


def key(name="key_1", **limits):
    return ApiKey(id=name, account=ACCOUNT, created_at_ms=0, **limits)


def count(counts, who):
    with counts.one(who, Protocol.MESSAGES):
        assert counts.running >= 1


async def test_a_key_without_limits_counts_as_it_likes_and_leaves_nothing(autojump_clock):
    counts = Counts()
    for _ in range(1_000):
        count(counts, key())
    assert (counts.running, counts._begun, counts._running) == (0, {}, {})


async def test_a_count_that_fails_is_over_too(autojump_clock):
    counts = Counts()
    with pytest.raises(ValueError, match="x"), counts.one(key(max_streams=1), Protocol.GEMINI):
        raise ValueError("x")
    count(counts, key(max_streams=1))


async def test_the_window_slides(autojump_clock):
    counts, who = Counts(), key(rpm=2)
    count(counts, who)
    await trio.sleep(40)
    count(counts, who)
    with pytest.raises(LimitExceeded) as raised:
        count(counts, who)
    assert raised.value.retry_after_s == 20
    await trio.sleep(20)
    count(counts, who)
    with pytest.raises(LimitExceeded):
        count(counts, who)


async def test_keys_that_have_not_counted_lately_are_forgotten(autojump_clock, monkeypatch):
    monkeypatch.setattr(module, "_KEYS_MAX", 10)
    counts = Counts()
    for number in range(10):
        count(counts, key(f"key_{number}", rpm=5))
    await trio.sleep(61)
    count(counts, key("key_new", rpm=5))
    assert list(counts._begun) == ["key_new"]


async def test_a_channel_without_the_call_is_asked_again_in_time(autojump_clock):
    counts = Counts()
    counts.absent("one", "m", Protocol.MESSAGES)
    assert counts.is_absent("one", "m", Protocol.MESSAGES)
    assert not counts.is_absent("one", "m", Protocol.GEMINI)
    await trio.sleep(COUNT_ABSENT_S)
    assert not counts.is_absent("one", "m", Protocol.MESSAGES)
