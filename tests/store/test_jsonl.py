"""Lines that survive a crash."""

import errno
import json
import os
import threading

import pytest

from runner.domain.errors import StorageError
from runner.store.jsonl import JsonLines, read_lines, storage_errors, write_json


def test_lines_come_back_in_order_with_any_text(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    rows = [{"text": "a\nb"}, {"text": "\ud800 ü"}, {"n": 1.5}]
    with JsonLines(path) as lines:
        for row in rows:
            lines.append(row)
    assert list(read_lines(path)) == rows


@pytest.mark.parametrize("torn", [b'{"n": 2', b"x" * 200_000])
def test_a_torn_last_line_is_dropped_and_the_file_goes_on(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 1}\n' + torn)
    assert list(read_lines(path)) == [{"n": 1}]
    with JsonLines(path) as lines:
        lines.append({"n": 3})
    assert list(read_lines(path)) == [{"n": 1}, {"n": 3}]


def test_threads_never_mix_their_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    with JsonLines(path) as lines:
        threads = [
            threading.Thread(target=lambda i=i: [lines.append({"i": i, "pad": "x" * 5000}) for _ in range(20)])
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len([json.dumps(row) for row in read_lines(path)]) == 160


def test_a_full_disk_is_a_storage_error_that_names_the_path_and_keeps_whole_lines(tmp_path):
    full = tmp_path / "full.jsonl"
    full.symlink_to("/dev/full")
    with JsonLines(full) as lines, pytest.raises(StorageError, match=r"full\.jsonl: No space left"):
        lines.append({"n": 1})


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(IsADirectoryError), storage_errors(tmp_path):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))


def test_json_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"v": 1})
    write_json(path, {"v": 2})
    assert json.loads(path.read_text()) == {"v": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
