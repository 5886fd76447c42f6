"""Lines that survive a crash."""

import json
import threading

import pytest

from runner.domain.errors import StorageError
from runner.store.jsonl import append, read_lines, write_json


def test_lines_come_back_in_order_with_any_text(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    rows = [{"text": "a\nb"}, {"text": "\ud800 ü"}, {"n": 1.5}]
    for row in rows:
        append(path, row)
    assert list(read_lines(path)) == rows


@pytest.mark.parametrize("torn", [b'{"n": 2', b"x" * 200_000])
def test_a_torn_last_line_is_dropped_and_the_file_goes_on(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 1}\n' + torn)
    assert list(read_lines(path)) == [{"n": 1}]
    append(path, {"n": 3})
    assert list(read_lines(path)) == [{"n": 1}, {"n": 3}]


def test_threads_never_mix_their_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    threads = [
        threading.Thread(target=lambda i=i: [append(path, {"i": i, "pad": "x" * 5000}) for _ in range(20)])
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([json.dumps(row) for row in read_lines(path)]) == 160


def test_a_full_disk_is_a_storage_error_that_names_the_path(tmp_path):
    full = tmp_path / "full.jsonl"
    full.symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"full\.jsonl: No space left.*free some space"):
        append(full, {"n": 1})


def test_a_missing_permission_names_its_remedy(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError, match="check the permissions"):
        append(tmp_path / "taken", {"n": 1})


def test_json_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"v": 1})
    write_json(path, {"v": 2})
    assert json.loads(path.read_text()) == {"v": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
