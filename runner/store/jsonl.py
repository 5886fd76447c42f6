"""Files that survive kill -9 and a full disk: JSON lines, appended to, and small files, replaced as a whole.

A line is appended by one ``write`` and synced. A line that a kill or a full disk cut short is closed off by the next
append and skipped by every reader, so nothing that was whole is ever lost.
"""

import errno
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.domain.errors import StorageError


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add one row and sync it; safe from many threads and processes. Raises StorageError naming the path."""
    line = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "surrogatepass")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            write_whole(fd, line if _ends_whole(fd) else b"\n" + line)
            os.fsync(fd)
        finally:
            os.close(fd)


def scan(path: Path, start: int = 0) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(offset, end, row) of every whole row from byte ``start`` on; nothing when there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                offset, start = start, start + len(line)
                row = decode(line)
                if row is not None:
                    yield offset, start, row
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; check its permissions and run again") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole row of a file, streamed; nothing when there is no file. Raises StorageError."""
    return (row for _, _, row in scan(path))


def decode(line: bytes) -> dict[str, Any] | None:
    """The row of one line; None when it is torn or empty."""
    try:
        row = json.loads(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole JSONL file atomically. Raises StorageError."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file atomically. Raises StorageError."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically: a reader sees the old content or the new, never half. Raises StorageError."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong while writing ``path`` into a StorageError that names it."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> StorageError:
    """The error of a full, read-only or broken disk, with its remedy."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space" if full else "check the permissions of its folder"
    return StorageError(f"cannot write {path}: {error.strerror}; {remedy} and run the same command again")


def write_whole(fd: int, data: bytes) -> None:
    """One ``write`` of all of it. Raises OSError."""
    if os.write(fd, data) != len(data):  # a full disk takes what fits; the rest stays a torn line
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _ends_whole(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"
