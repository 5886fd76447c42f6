"""Room kept on the disk. What happens on a disk that is really full: tests/live/test_faults.py."""

import pytest
from support.disk import no_file_larger_than

from runner.domain.errors import StorageError
from runner.store.jsonl import read_lines
from runner.store.spare import SpareRoom

SIZE = 1 << 20


def test_the_room_is_taken_once_and_given_back(tmp_path):
    room = SpareRoom(tmp_path / "journal" / ".spare", SIZE)
    room.keep()
    room.keep()
    assert (tmp_path / "journal" / ".spare").stat().st_size == SIZE
    room.release()
    room.release()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_disk_without_the_room_is_told_and_keeps_no_part_of_it(tmp_path):
    room = SpareRoom(tmp_path / ".spare", SIZE)
    with no_file_larger_than(SIZE // 2), pytest.raises(StorageError, match=r"cannot write .*\.spare"):
        room.keep()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_does_not_fit_costs_the_room_and_is_an_error_when_that_was_not_enough(tmp_path):
    room = SpareRoom(tmp_path / ".spare", SIZE)
    room.append(tmp_path / "rows.jsonl", {"n": 1})
    room.keep()
    with no_file_larger_than(12), pytest.raises(StorageError, match=r"rows\.jsonl"):
        room.append(tmp_path / "rows.jsonl", {"n": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    room.append(tmp_path / "rows.jsonl", {"n": 3})
    assert list(read_lines(tmp_path / "rows.jsonl")) == [{"n": 1}, {"n": 3}]
