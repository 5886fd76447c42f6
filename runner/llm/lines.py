"""Lines of JSON that survive a kill: what the journal and the ledger are written in.

A line is appended by one ``write`` and synced. A line that a kill or a full disk cut short is closed off by the next
append and skipped by every reader, so nothing that was whole is ever lost.
"""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.domain.errors import StorageError


def append(path: Path, row: dict[str, Any]) -> None:
    """Add one row and sync it. Raises StorageError naming the path."""
    line = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode("utf-8", "surrogatepass")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _write(fd, line if _ends_whole(fd) else b"\n" + line)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise unwritable(path, error) from error


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


def decode(line: bytes) -> dict[str, Any] | None:
    """The row of one line; None when it is torn or empty."""
    try:
        row = json.loads(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def unwritable(path: Path, error: OSError) -> StorageError:
    """The error of a full, read-only or broken disk, with its remedy."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space" if full else "check the permissions of its folder"
    return StorageError(f"cannot write {path}: {error.strerror}; {remedy} and run the same command again")


def _write(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):  # a full disk takes what fits; the rest stays a torn line
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _ends_whole(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"
