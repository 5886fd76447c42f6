"""Append-only JSON lines that survive kill -9: one write a line, a torn last line is dropped on opening."""

import errno
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runner.domain.errors import StorageError

_STORAGE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
}


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn a full, read-only or broken disk into a StorageError that names the path."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the folder's permissions"
        raise StorageError(f"cannot write {path}: {error.strerror}; {remedy} and run the same command again") from error


class JsonLines:
    """A file of one JSON object a line. Thread-safe; every appended line is on disk before ``append`` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _heal(path)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one line. Raises StorageError; the file then still ends with a whole line."""
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
        with self._lock, storage_errors(self.path):
            end = os.lseek(self._fd, 0, os.SEEK_END)
            try:
                if os.write(self._fd, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                with suppress(OSError):  # what cannot be cut now is healed on the next opening
                    os.ftruncate(self._fd, end)
                raise
        with storage_errors(self.path):
            os.fsync(self._fd)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole row of a file, streamed; nothing when there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line.decode("utf-8", "surrogatepass"))


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole JSONL file atomically. Raises StorageError."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file atomically. Raises StorageError."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    write_text(path, text)


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


def _heal(path: Path) -> None:
    """Cut a last line that a crash left unfinished."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        block = 1 << 16
        while end > 0:
            start = max(0, end - block)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)
