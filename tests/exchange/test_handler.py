"""Request ids."""

from __future__ import annotations

from hoptrio.exchange.handler import new_request_id


def test_ids_are_in_the_order_of_time_and_differ_within_a_moment(monkeypatch):
    moments = iter([1_796_000_000_123_456_789, 1_796_000_000_124_000_000, 1_796_000_000_124_000_001])
    monkeypatch.setattr("time.time_ns", lambda: next(moments))
    ids = [new_request_id() for _ in range(3)]
    assert ids[0] < ids[1]
    assert ids[1][:16] == ids[2][:16] == f"req_{1_796_000_000_124:012x}"
    assert len({each[16:] for each in ids}) == 3
    assert {len(each) for each in ids} == {36}
