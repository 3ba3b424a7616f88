"""The shelf: one suite for disk and memory, then what only a disk can do."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import contextmanager

import pytest

from hoptrio.ledger import journal
from hoptrio.ledger.operations import Release
from hoptrio.ledger.shelf import DiskShelf
from hoptrio.ledger.shelf_memory import MemoryShelf

ONE, TWO, THREE = (Release(f"hold_{number}", "not_dispatched") for number in (1, 2, 3))


def records(*settlements):
    return b"".join(map(journal.as_record, settlements))


@pytest.fixture(params=["disk", "memory"])
def shelf(request, tmp_path):
    return DiskShelf(tmp_path / "journal") if request.param == "disk" else MemoryShelf()


def settlements_left(shelf):
    """What is on the shelf of dead processes, which stays there."""
    left, _ = shelf.left()
    contents = [each.read() for each in left]
    for each in left:
        each.leave()
    return [(each.owner, each.settlements) for each in contents]


def test_a_journal_in_use_is_nobody_elses(shelf):
    file = shelf.open("a")
    file.append(records(ONE))
    assert shelf.left() == ([], {"a"})
    file.close(keep=True)
    assert settlements_left(shelf) == [("a", [ONE])]


def test_a_journal_that_is_not_kept_is_gone(shelf):
    file = shelf.open("a")
    file.append(records(ONE))
    file.close(keep=False)
    assert shelf.left() == ([], frozenset())


def test_what_was_rewritten_replaces_what_was_there_and_is_still_locked(shelf):
    file = shelf.open("a")
    file.append(records(ONE, TWO))
    file.rewrite(records(TWO))
    file.append(records(THREE))
    assert shelf.left() == ([], {"a"})
    file.close(keep=True)
    assert settlements_left(shelf) == [("a", [TWO, THREE])]


def test_a_journal_can_be_emptied_and_used_again(shelf):
    file = shelf.open("a")
    file.append(records(ONE, TWO))
    file.rewrite(b"")
    file.append(records(THREE))
    file.close(keep=True)
    assert settlements_left(shelf) == [("a", [THREE])]


def test_two_journals_of_one_owner_are_two(shelf):
    first, second = shelf.open("a"), shelf.open("a")
    first.append(records(ONE))
    second.append(records(TWO))
    first.close(keep=True)
    assert settlements_left(shelf) == [("a", [ONE])]
    second.close(keep=True)


def test_who_adopts_has_it_alone_until_it_is_gone(shelf):
    shelf.open("a").close(keep=True)
    [left], _ = shelf.left()
    assert shelf.left() == ([], {"a"})
    left.remove()
    assert shelf.left() == ([], frozenset())


def test_what_is_set_aside_is_no_journal_any_more(shelf):
    file = shelf.open("a")
    file.append(records(ONE))
    file.close(keep=True)
    [left], _ = shelf.left()
    left.set_aside()
    assert shelf.left() == ([], frozenset())
    assert shelf.search(["hold_1"]) == []


# -- a disk ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "journal"


@contextmanager
def file_size_limit(size):
    """No file of this process grows beyond it: as a full disk, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_and_its_files_are_their_owners_alone(directory):
    file = DiskShelf(directory).open("node:machine:1:2")
    file.append(records(ONE))
    file.rewrite(records(ONE))
    [path] = directory.iterdir()
    assert (mode(directory), mode(path)) == (0o700, 0o600)
    assert path.name.startswith("node_machine_1_2-")
    file.close(keep=False)


def test_a_write_that_does_not_fit_leaves_nothing_behind(directory):
    file = DiskShelf(directory).open("a")
    file.append(records(ONE))
    [path] = directory.iterdir()
    size = path.stat().st_size
    with file_size_limit(size + 5), pytest.raises(OSError):
        file.append(records(TWO))
    assert (path.stat().st_size, file.suspect) == (size, False)
    file.append(records(THREE))
    file.close(keep=True)
    assert settlements_left(DiskShelf(directory)) == [("a", [ONE, THREE])]


def test_a_full_disk_lets_a_journal_be_emptied(directory):
    file = DiskShelf(directory).open("a")
    file.append(records(ONE))
    with file_size_limit(0):
        file.rewrite(b"")
    file.close(keep=True)
    assert settlements_left(DiskShelf(directory)) == [("a", [])]


def test_a_journal_whose_sync_failed_is_written_anew(directory, monkeypatch):
    file = DiskShelf(directory).open("a")
    file.append(records(ONE))
    monkeypatch.setattr("hoptrio.ledger.shelf._sync", _fail)
    with pytest.raises(OSError):
        file.append(records(TWO))
    monkeypatch.undo()
    assert file.suspect
    file.rewrite(records(ONE))
    assert not file.suspect
    file.close(keep=True)
    assert settlements_left(DiskShelf(directory)) == [("a", [ONE])]


def test_a_journal_that_cannot_be_rewritten_stands_as_it_was(directory):
    file = DiskShelf(directory).open("a")
    file.append(records(ONE, TWO))
    with file_size_limit(10), pytest.raises(OSError):
        file.rewrite(records(TWO))
    file.append(records(THREE))
    file.close(keep=True)
    assert settlements_left(DiskShelf(directory)) == [("a", [ONE, TWO, THREE])]


def test_a_disk_that_is_full_at_the_start_leaves_no_file(directory):
    with file_size_limit(5), pytest.raises(OSError):
        DiskShelf(directory).open("a")
    assert list(directory.iterdir()) == []


def _fail(descriptor):
    raise OSError("I/O error")


def test_a_replaced_file_is_not_taken_for_a_dead_ones(directory, monkeypatch):
    """The old file's lock is free at the moment when it is replaced; whoever opened it just before must see that."""
    file = DiskShelf(directory).open("a")
    file.append(records(ONE))
    [path] = directory.iterdir()
    opened = os.open

    def replaced_meanwhile(name, *args, **options):
        descriptor = opened(name, *args, **options)
        if str(name) == str(path):
            monkeypatch.undo()
            file.rewrite(records(TWO))
        return descriptor

    monkeypatch.setattr("os.open", replaced_meanwhile)
    assert DiskShelf(directory).left() == ([], {"a"})
    file.close(keep=False)


def test_a_new_file_that_was_taken_before_it_was_locked_is_made_again(directory, monkeypatch):
    shelf = DiskShelf(directory)
    opened = os.open

    def adopted_meanwhile(name, *args, **options):
        descriptor = opened(name, *args, **options)
        if str(name).endswith(".journal"):
            monkeypatch.undo()
            [left], _ = DiskShelf(directory).left()
            left.remove()
        return descriptor

    monkeypatch.setattr("os.open", adopted_meanwhile)
    file = shelf.open("a")
    file.append(records(ONE))
    file.close(keep=True)
    assert settlements_left(shelf) == [("a", [ONE])]


def test_a_shelf_that_was_never_used_is_empty(directory):
    shelf = DiskShelf(directory)
    assert shelf.left() == ([], frozenset())
    assert shelf.search(["req_1"]) == []
    assert not directory.exists()
