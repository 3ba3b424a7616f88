from __future__ import annotations

from hoptrio import limits
from hoptrio.downstream.backlog import BacklogTotal, backlog_bytes_max


class Stream:
    """Leaves as a writer does."""

    def __init__(self, total):
        self.total = total
        self.bytes = 0
        self.left = False

    def add(self, size):
        self.bytes += size
        self.total.add(self, size)

    def leave(self):
        self.left = True
        self.total.remove(self, self.bytes)
        self.bytes = 0


def test_a_stream_has_four_mebibytes():
    assert backlog_bytes_max(1) == 4 * 1024 * 1024
    assert backlog_bytes_max(limits.BACKLOG_BYTES_MAX) == limits.BACKLOG_BYTES_MAX


def test_one_larger_event_is_admitted_and_so_is_what_follows():
    assert backlog_bytes_max(limits.EVENT_BYTES_MAX) == limits.EVENT_BYTES_MAX + limits.BACKLOG_BYTES_MAX


def test_the_largest_backlog_goes_first_when_the_total_is_full():
    total = BacklogTotal(bytes_max=100)
    small, large, newcomer = Stream(total), Stream(total), Stream(total)
    small.add(30)
    large.add(60)
    newcomer.add(20)
    assert (small.left, large.left, newcomer.left) == (False, True, False)
    assert total.bytes == 50


def test_the_owner_itself_goes_when_it_lags_most():
    total = BacklogTotal(bytes_max=100)
    other, greedy = Stream(total), Stream(total)
    other.add(40)
    greedy.add(50)
    greedy.add(20)
    assert (other.left, greedy.left) == (False, True)


def test_a_single_large_event_has_a_place():
    total = BacklogTotal(bytes_max=100)
    alone = Stream(total)
    alone.add(500)
    assert not alone.left


def test_what_is_delivered_is_given_back():
    total = BacklogTotal(bytes_max=100)
    stream = Stream(total)
    stream.add(60)
    total.remove(stream, 20)
    assert total.bytes == 40
    total.remove(stream, 40)
    total.remove(stream, 0)
    assert total.bytes == 0
