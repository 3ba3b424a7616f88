"""The board: what one process writes another reads, under a lock that no death and no pause of a process keeps."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time

import pytest

from hoptrio import limits
from hoptrio.admission.board import BOARD_BYTES, Board
from hoptrio.admission.breaker import Breakers
from hoptrio.admission.health import Fault, Standing, Trouble

NOW = 1_000.0
TROUBLE = Trouble(Fault.CUT, 3, 2, NOW + 10, NOW + 20)


def mapped(path):
    """A board in a file, as a process of its own would map it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, BOARD_BYTES)
    return Board(mmap.mmap(fd, BOARD_BYTES), fd)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "board"


def test_what_one_writes_the_other_reads(path):
    ours, theirs = mapped(path), mapped(path)
    assert ours.clean
    assert theirs.clean
    with ours.locked() as alone:
        assert alone
        ours.put("a", "m", TROUBLE, NOW)
    assert not theirs.clean
    assert theirs.get("a", "m") == TROUBLE
    assert theirs.get("a", "") is None
    assert theirs.get("b", "m") is None
    with theirs.locked():
        theirs.put("a", "m", None, NOW)
    assert ours.get("a", "m") is None
    with theirs.locked():
        theirs.wipe()
    assert ours.clean


def test_numbers_beyond_a_slot_stay_at_its_limit():
    board = Board()
    board.put("a", "m", TROUBLE._replace(failures=10**6, cooldowns=10**6), NOW)
    assert board.get("a", "m") == TROUBLE._replace(failures=0xFFFF, cooldowns=0xFFFF)


def test_many_channels_in_trouble_are_all_remembered():
    board = Board()
    for i in range(limits.HEALTH_BUCKETS):
        board.put(f"channel-{i}", "m", TROUBLE._replace(failures=i + 1), NOW)
    kept = [board.get(f"channel-{i}", "m") for i in range(limits.HEALTH_BUCKETS)]
    assert [each.failures for each in kept] == list(range(1, limits.HEALTH_BUCKETS + 1))


def same_bucket(count):
    """Names that share a bucket."""
    board, found = Board(), []
    for i in range(100_000):
        if board._key(f"c{i}", "m") % limits.HEALTH_BUCKETS == 0:
            found.append(f"c{i}")
        if len(found) == count:
            return found
    raise AssertionError


def test_a_full_bucket_uses_what_is_forgotten_else_loses_what_ends_first():
    board = Board()
    *first, old, new = same_bucket(limits.HEALTH_BUCKET_SLOTS + 1)
    for place, name in enumerate([*first, old]):
        board.put(name, "m", TROUBLE._replace(until_s=NOW + 100 + place), NOW)
    board.put(old, "m", TROUBLE._replace(until_s=NOW - limits.TROUBLE_KEPT_S, trial_until_s=0.0), NOW)
    board.put(new, "m", TROUBLE, NOW)
    assert board.get(old, "m") is None
    assert all(board.get(name, "m") for name in [*first, new])
    board.put(old, "m", TROUBLE, NOW)
    # That of `new` ended at NOW + 10.
    assert board.get(new, "m") is None
    assert all(board.get(name, "m") for name in [*first, old])


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(path):
    mapped(path)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait(10)
    process.stdin.close()
    process.stdout.close()


def test_a_process_that_stands_still_with_the_lock_stops_nobody_for_long(path, holder):
    breakers = Breakers(mapped(path), now=lambda: NOW)
    os.kill(holder.pid, signal.SIGSTOP)
    before = time.monotonic()
    breakers.failed("a", "m", Fault.RATE_LIMITED)
    breakers.succeeded("a", "m")
    # It holds the lock for ever: whatever ends at all has not waited for it.
    assert time.monotonic() - before < 10
    assert breakers.condition("a", "m").standing is Standing.GOOD
    assert breakers.claim("a", "m")


def test_the_lock_of_a_process_that_dies_is_free(path, holder):
    breakers = Breakers(mapped(path), now=lambda: NOW)
    holder.kill()
    holder.wait(10)
    breakers.failed("a", "m", Fault.RATE_LIMITED)
    assert breakers.condition("a", "m").standing is Standing.COOLING


def test_the_lock_is_given_back_when_a_change_fails(path):
    board = mapped(path)
    with pytest.raises(ZeroDivisionError), board.locked():
        raise ZeroDivisionError
    # Locks are a process's own, so another one asks.
    ask = "import fcntl, os, sys; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    assert subprocess.run([sys.executable, "-c", ask, str(path)], check=False).returncode == 0
