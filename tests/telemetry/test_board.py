"""The board of figures: slots that outlive their processes, between real processes and within one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hoptrio import limits
from hoptrio.telemetry.board import FiguresBoard
from hoptrio.telemetry.snapshot import LiveStream, resume, snapshot, total
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram, Labels, Meter, Tally

LABELS = Labels("chat", "m", "one")


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def told(streams=1, **changes):
    tally = Tally()
    for _ in range(streams):
        Meter(tally, "chat", "m", "one").settled("complete", 5, (), answered=True)
    return snapshot(tally, Histogram(BATCH_OPERATIONS), **changes)


def live(number):
    return LiveStream(
        f"req_{number:024d}", "acme", "key_1", "chat", "m", "one", "hoptrio", True, number, 1, 0, False,
        [(each, "x" * 200) for each in range(10)],
    )  # fmt: skip


def test_a_process_alone_reads_what_it_told():
    board = FiguresBoard()
    assert board.claim() is None
    assert board.read() == []
    for streams in (1, 2, 3):
        board.tell(told(streams))
        [(found, alive)] = board.read()
        assert (found.open, alive) == (streams, True)


def test_what_is_not_renewed_is_a_dead_processs_and_what_was_left_is_at_once():
    clock = Clock()
    board = FiguresBoard(now=clock)
    board.claim()
    board.tell(told())
    clock.now_s += limits.FIGURES_STALE_S - 0.1
    assert board.read()[0].alive
    clock.now_s += 0.2
    assert not board.read()[0].alive
    board.tell(told())
    board.leave()
    [(found, alive)] = board.read()
    assert (found.groups[0].outcomes, alive) == ({"complete": 1}, False)


def test_live_streams_are_wanted_for_a_while():
    clock = Clock()
    board = FiguresBoard(now=clock)
    assert not board.live_wanted
    board.want_live()
    clock.now_s += limits.FIGURES_WANTED_S - 0.1
    assert board.live_wanted
    clock.now_s += 0.2
    assert not board.live_wanted


def test_what_is_too_much_to_tell_is_told_in_part():
    board = FiguresBoard()
    board.claim()
    board.tell(told(live=[live(number) for number in range(2000)]))
    [(found, _)] = board.read()
    assert 0 < len(found.live) < 2000
    assert found.live[0].id == live(0).id


_WORKER = """
import os, sys
from hoptrio.telemetry.board import FiguresBoard
from hoptrio.telemetry.snapshot import resume, snapshot
from hoptrio.telemetry.tally import BATCH_OPERATIONS, Histogram, Meter, Tally

board = FiguresBoard.inherit(int(sys.argv[1]))
tally, batches = Tally(), Histogram(BATCH_OPERATIONS)
before = board.claim()
if before is not None:
    resume(before, tally, batches)
Meter(tally, "chat", "m", "one").settled("complete", 5, (), answered=True)
board.tell(snapshot(tally, batches, pid=os.getpid()))
print("told", flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def worker(board):
    """A process that counts one stream which never closes, until its input ends; then it dies by a kill."""
    argv = [sys.executable, "-c", _WORKER, str(board.fd)]
    process = subprocess.Popen(argv, pass_fds=[board.fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "told\n"
    return process


def kill(process):
    process.communicate()
    assert process.returncode == -9


def sums(board):
    read = board.read()
    found = total([each.snapshot for each in read if each.alive], [each.snapshot for each in read if not each.alive])
    return sum(group.outcomes["complete"] for group in found.groups), len(read)


def test_processes_have_a_slot_each_and_one_that_takes_a_dead_ones_place_counts_on():
    board = FiguresBoard.shared(4)
    try:
        first, second = worker(board), worker(board)
        assert sums(board) == (2, 2)
        kill(first)
        assert sums(board) == (2, 2)
        third = worker(board)
        # It has the place of the first, and goes on from its count.
        assert sums(board) == (3, 2)
        kill(second)
        kill(third)
        assert sums(board) == (3, 2)
    finally:
        os.close(board.fd)


def test_where_there_is_no_slot_left_it_is_said():
    board = FiguresBoard.shared(1)
    try:
        holder = worker(board)
        with pytest.raises(OSError, match="taken"):
            board.claim()
        kill(holder)
        assert board.claim() is not None
    finally:
        os.close(board.fd)


def test_a_sum_has_what_is_open_of_the_living_alone():
    found = total([told(2)], [told(3)])
    [group] = found.groups
    assert (group.labels, group.open, group.outcomes, group.charged_nanos) == (LABELS, 2, {"complete": 5}, 25)


def test_counting_on_forgets_what_was_open():
    tally, batches = Tally(), Histogram(BATCH_OPERATIONS)
    before = told(3)
    resume(before, tally, batches)
    assert (tally.groups[LABELS].open, tally.groups[LABELS].outcomes) == (0, {"complete": 3})


def test_groups_beyond_the_limit_are_counted_together():
    tally = Tally()
    for number in range(limits.FIGURES_GROUPS_MAX + 5):
        Meter(tally, "chat", f"m{number}", "one").close()
    assert len(tally.groups) == limits.FIGURES_GROUPS_MAX + 1
    assert tally.groups[Labels("other", "other", "other")].open == 0
