"""The journal's bytes: what was written whole is read back, and nothing else ever is."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptrio.ledger import journal
from hoptrio.ledger.model import RequestRecord, Resolution
from hoptrio.ledger.operations import Release

OWNER = "node:machine:12:345"


def resolution(number, capture_nanos=7, **changes):
    request = RequestRecord(
        id=f"req_{number}",
        account_id="acct_1",
        key_id="key_1",
        created_at_ms=number,
        protocol="chat",
        model="m",
        contract="hoptrio",
        stream=True,
        state="captured",
        **changes,
    )
    return Resolution(hold_id=f"hold_{number}", capture_nanos=capture_nanos, request=request)


@dataclass
class Written:
    """A file of a few settlements, and where each frame ends."""

    settlements: list = field(
        default_factory=lambda: [
            resolution(1, usage='{"input_tokens": 14}', raw_usage="{}", timeline=((0, "held"), (3, "dispatched"))),
            Release("hold_2", "not_dispatched"),
            resolution(3, None, reason="truncated"),
            resolution(4, 2**63 - 1, flags=("clamped",), provider_ids=("resp_1", "msg_ü")),
        ]
    )
    data: bytes = b""
    ends: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.data = journal.header(OWNER)
        self.ends = [len(self.data)]
        for settlement in self.settlements:
            self.data += journal.as_record(settlement)
            self.ends.append(len(self.data))

    def whole_in(self, size):
        """The settlements that were written whole in the first `size` bytes."""
        return self.settlements[: max(0, sum(end <= size for end in self.ends) - 1)]


WRITTEN = Written()


def test_what_was_written_is_read_back():
    assert journal.read(WRITTEN.data) == (OWNER, WRITTEN.settlements, False)


def test_a_file_cut_at_any_byte_is_a_prefix_and_no_damage():
    for size in range(len(WRITTEN.data) + 1):
        contents = journal.read(WRITTEN.data[:size])
        assert contents.settlements == WRITTEN.whole_in(size)
        assert contents.owner == (OWNER if size >= WRITTEN.ends[0] else None)
        assert not contents.damaged


def test_a_file_that_grew_before_its_bytes_were_written_ends_in_zeros():
    for size in range(len(WRITTEN.data)):
        contents = journal.read(WRITTEN.data[:size] + bytes(4096))
        assert contents.settlements[: len(WRITTEN.whole_in(size))] == WRITTEN.whole_in(size)
        assert all(each in WRITTEN.settlements for each in contents.settlements)
    assert not any(journal.read(WRITTEN.data[:end] + bytes(4096)).damaged for end in WRITTEN.ends)
    assert not journal.read(bytes(100)).damaged


def test_a_byte_that_changed_anywhere_yields_no_garbage_and_is_told_unless_it_is_in_the_tail():
    for position in range(len(WRITTEN.data)):
        changed = bytearray(WRITTEN.data)
        changed[position] ^= 0x20
        contents = journal.read(bytes(changed))
        assert all(each in WRITTEN.settlements for each in contents.settlements)
        assert len(contents.settlements) < len(WRITTEN.settlements) or position < WRITTEN.ends[0]
        in_last_payload = position >= WRITTEN.ends[-2] + 12
        assert contents.damaged != in_last_payload


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_lies_behind_a_damaged_payload_is_still_read(number):
    changed = bytearray(WRITTEN.data)
    changed[WRITTEN.ends[number] - 1] ^= 0xFF
    contents = journal.read(bytes(changed))
    assert contents.damaged
    assert contents.settlements == WRITTEN.settlements[: number - 1] + WRITTEN.settlements[number:]


def test_what_a_later_version_wrote_is_damage_even_at_the_end():
    class _Later(msgspec.Struct, tag="later"):
        pass

    assert journal.read(WRITTEN.data + journal._frame(_Later())).damaged


def test_a_file_of_something_else_is_damage():
    assert journal.read(b"SQLite format 3\0") == (None, [], True)
    assert journal.read(b"") == (None, [], False)


def test_a_value_without_msgpack_is_refused_when_it_is_written():
    with pytest.raises(OverflowError):
        journal.as_record(resolution(1, 2**64))


def test_a_search_finds_requests_and_provider_ids():
    assert journal.search(WRITTEN.data, [b"req_3"]) == [WRITTEN.settlements[2]]
    assert journal.search(WRITTEN.data, ["msg_ü".encode(), b"req_1"]) == [
        WRITTEN.settlements[0],
        WRITTEN.settlements[3],
    ]
    assert journal.search(WRITTEN.data, [b"hold_2"]) == [], "a release has no record to show"
    assert journal.search(WRITTEN.data, [b"req_5"]) == []


@given(st.binary(max_size=400), st.integers(0, len(WRITTEN.data)))
def test_whatever_follows_what_was_written_adds_nothing(noise, size):
    contents = journal.read(WRITTEN.data[:size] + noise)
    assert contents.settlements[: len(WRITTEN.whole_in(size))] == WRITTEN.whole_in(size)
    assert all(each in WRITTEN.settlements for each in contents.settlements)
